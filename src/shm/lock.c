#include "shm/lock.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* Who waits looks at least so often while the wait is short: clock_nap_ns(). */
#define AGAIN_NS (2 * NSEC_PER_MSEC)

/*
 * The lock that this process, or its parent, gave up last, and when. Atomic; a torn pair costs a
 * nap.
 */
static struct {
	_Atomic uint64_t key;
	_Atomic int64_t dropped_ns;
} last;

/* Tells locks of this and of other files apart; two that are alike cost a nap. */
static uint64_t key_of(int fd, int64_t at)
{
	struct stat st;

	return sys_fstat(fd, &st) == 0 ? (uint64_t)st.st_ino << 20 ^ (uint64_t)at : 0;
}

enum { DROP_TRIES = 100 };

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

int lock_share(int fd, int64_t at, int64_t bytes)
{
	struct flock f;

	return lock_op(fd, F_OFD_SETLK, F_RDLCK, at, bytes, &f);
}

/* Never past the time that is left. */
static void nap(int64_t nap_ns, int64_t left_ns)
{
	clock_sleep_ns(nap_ns < left_ns ? nap_ns : left_ns);
}

int lock_wait(int fd, int64_t at, int64_t bytes, int64_t wait_ns)
{
	int64_t start_ns = clock_now_ns();
	int rc;

	/* Who waits looks now and then, and would never see free what we take again at once. */
	if (wait_ns > 0 && start_ns - atomic_load(&last.dropped_ns) < AGAIN_NS &&
	    atomic_load(&last.key) == key_of(fd, at))
		nap(AGAIN_NS, wait_ns);
	/* The kernel has no lock with a deadline. */
	while ((rc = lock_try(fd, at, bytes)) == -EAGAIN) {
		int64_t waited_ns = clock_now_ns() - start_ns;

		if (waited_ns >= wait_ns)
			return -ETIMEDOUT;
		nap(clock_nap_ns(waited_ns), wait_ns - waited_ns);
	}
	return rc;
}

/*
 * The kernel wants a piece of memory even to unlock. A lock that stayed would end with the last
 * mapping of the description only, which may be that of the process.
 */
void lock_drop(int fd, int64_t at, int64_t bytes)
{
	struct flock f;

	for (int tries = 0; tries < DROP_TRIES; tries++) {
		int rc = lock_op(fd, F_OFD_SETLK, F_UNLCK, at, bytes, &f);

		if (rc != -ENOLCK && rc != -ENOMEM)
			break;
		clock_sleep_ns(NSEC_PER_MSEC);
	}
	atomic_store(&last.dropped_ns, clock_now_ns());
	atomic_store(&last.key, key_of(fd, at));
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
