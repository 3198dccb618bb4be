#include "shm/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>

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

int lock_wait(int fd, int64_t at, int64_t bytes, int64_t wait_ns)
{
	int64_t start_ns = clock_now_ns();
	int rc;

	/* The kernel has no lock with a deadline. */
	while ((rc = lock_try(fd, at, bytes)) == -EAGAIN) {
		int64_t waited_ns = clock_now_ns() - start_ns;

		if (waited_ns >= wait_ns)
			return -ETIMEDOUT;
		clock_sleep_ns(clock_nap_ns(waited_ns));
	}
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
