#include "shm/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>

/* From a lock to the byte of its line's head: far behind all bytes that are locked for themselves. */
#define LINE_OFFSET ((int64_t)1 << 41)
#define LINE_WAIT_NS (500 * NSEC_PER_MSEC)
#define LINE_NAP_NS (2 * NSEC_PER_MSEC)
#define HEAD_NAP_NS (200 * NSEC_PER_USEC)

static int lock_op(int fd, int cmd, short type, int64_t at, int64_t bytes, struct flock *out)
{
	struct flock f = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = bytes };
	int rc;

	do
		rc = fcntl(fd, cmd, &f);
	while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return errno == EACCES ? -EAGAIN : -errno;
	*out = f;
	return 0;
}

int lock_try(int fd, int64_t at, int64_t bytes)
{
	struct flock f;

	return lock_op(fd, F_OFD_SETLK, F_WRLCK, at, bytes, &f);
}

/* The kernel has no lock with a deadline, so it is looked at again and again, at most `nap_max_ns` apart. */
static int poll_until(int fd, int64_t at, int64_t bytes, int64_t end_ns, int64_t nap_max_ns)
{
	int64_t nap_ns = nap_max_ns / 4;
	int rc;

	while ((rc = lock_try(fd, at, bytes)) == -EAGAIN) {
		if (clock_now_ns() >= end_ns)
			return -ETIMEDOUT;
		clock_sleep_ns(nap_ns);
		if (nap_ns < nap_max_ns)
			nap_ns *= 2;
	}
	return rc;
}

/*
 * Who looks now and then never sees a lock free that its holder takes again at once. So there is a
 * head of the line, which has a byte of its own and looks often; who is not it waits for that byte
 * first, but not for long, since the head may be stopped.
 */
int lock_wait(int fd, int64_t at, int64_t bytes, int64_t wait_ns)
{
	int64_t now_ns = clock_now_ns();
	int64_t line_ns = wait_ns < LINE_WAIT_NS ? wait_ns : LINE_WAIT_NS;
	int head = poll_until(fd, at + LINE_OFFSET, 1, now_ns + line_ns, LINE_NAP_NS);
	int rc = poll_until(fd, at, bytes, now_ns + wait_ns, HEAD_NAP_NS);

	if (head == 0)
		lock_drop(fd, at + LINE_OFFSET, 1);
	return rc;
}

void lock_drop(int fd, int64_t at, int64_t bytes)
{
	struct flock f;

	lock_op(fd, F_OFD_SETLK, F_UNLCK, at, bytes, &f);
}

int lock_held(int fd, int64_t at, int64_t bytes, int64_t *out_at)
{
	struct flock f;
	int rc = lock_op(fd, F_OFD_GETLK, F_WRLCK, at, bytes, &f);

	if (rc < 0)
		return rc;
	if (f.l_type == F_UNLCK)
		return 0;
	if (out_at)
		*out_at = f.l_start;
	return 1;
}
