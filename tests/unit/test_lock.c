#include "shm/lock.h"

#include "base/clock.h"
#include "child.h"
#include "refuse.h"
#include "scratch.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

static const int64_t far = (int64_t)1 << 40;

/* The clock of this program: it stands still, but for naps, while `is_fake`. */
static struct {
	bool is_fake;
	int64_t now_ns;
	int naps, late_naps;     /* late: in the second half of ten seconds */
	void (*meanwhile)(void); /* somebody else's part, after each nap; may be NULL */
} fake;

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!fake.is_fake)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = fake.now_ns / NSEC_PER_SEC;
	t->tv_nsec = fake.now_ns % NSEC_PER_SEC;
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	int64_t ns = t->tv_sec * NSEC_PER_SEC + t->tv_nsec;

	if (!fake.is_fake)
		return (int)syscall(SYS_nanosleep, t, left);
	fake.now_ns += ns;
	fake.naps++;
	fake.late_naps += fake.now_ns > 5 * NSEC_PER_SEC;
	if (fake.meanwhile)
		fake.meanwhile();
	return 0;
}

/* Unlocking fails so often for want of memory. */
static int unlocks_that_fail;

int fcntl(int fd, int command, ...)
{
	va_list more;
	void *arg;

	va_start(more, command);
	arg = va_arg(more, void *);
	va_end(more);
	if (command == F_OFD_SETLK && ((struct flock *)arg)->l_type == F_UNLCK &&
	    unlocks_that_fail > 0) {
		unlocks_that_fail--;
		errno = ENOLCK;
		return -1;
	}
	return (int)syscall(SYS_fcntl, fd, command, arg);
}

static int open_file(int flags)
{
	int fd = open(scratch_path("file"), flags | O_CLOEXEC | O_CREAT, 0644);

	assert_true(fd >= 0);
	return fd;
}

static void test_one_byte_has_one_owner(void **state)
{
	int a = open_file(O_RDWR), b = open_file(O_RDWR);
	int64_t at = 0;

	(void)state;
	assert_int_equal(lock_held(b, far, 1000, &at), 0);
	assert_int_equal(lock_try(a, far + 7, 1), 0);
	assert_int_equal(lock_try(a, far + 7, 1), 0);
	assert_int_equal(lock_try(b, far + 7, 1), -EAGAIN);
	assert_int_equal(lock_try(b, far + 8, 1), 0);
	assert_int_equal(lock_held(b, far + 7, 1, NULL), 1);
	assert_int_equal(lock_held(b, far, 1000, &at), 1);
	assert_int_equal(at, far + 7);
	/* One's own lock is none to oneself. */
	assert_int_equal(lock_held(a, far + 7, 1, NULL), 0);
	assert_int_equal(lock_held(a, far, 1000, &at), 1);
	assert_int_equal(at, far + 8);
	lock_drop(a, far + 7, 1);
	assert_int_equal(lock_held(b, far + 7, 1, NULL), 0);
	assert_int_equal(lock_try(b, far + 7, 1), 0);
	close(a);
	close(b);
}

static void test_drop_takes_only_its_range(void **state)
{
	int a = open_file(O_RDWR), b = open_file(O_RDWR);

	(void)state;
	assert_int_equal(lock_try(a, 0, 100), 0);
	lock_drop(a, 10, 10);
	assert_int_equal(lock_try(b, 10, 10), 0);
	assert_int_equal(lock_try(b, 9, 1), -EAGAIN);
	assert_int_equal(lock_try(b, 20, 1), -EAGAIN);
	close(a);
	assert_int_equal(lock_try(b, 0, 100), 0);
	close(b);
}

/* Another descriptor of the file, opened and closed, takes no lock with it. */
static void test_close_of_another_descriptor(void **state)
{
	int a = open_file(O_RDWR), b = open_file(O_RDWR);

	(void)state;
	assert_int_equal(lock_try(a, far, 1), 0);
	close(open_file(O_RDWR));
	close(dup(a));
	assert_int_equal(lock_try(b, far, 1), -EAGAIN);
	close(a);
	assert_int_equal(lock_try(b, far, 1), 0);
	close(b);
}

static void test_a_mapping_keeps_the_lock(void **state)
{
	int a = open_file(O_RDWR), b = open_file(O_RDWR);
	void *keep = mmap(NULL, 1, PROT_READ, MAP_SHARED, a, 0);

	(void)state;
	assert_true(keep != MAP_FAILED);
	assert_int_equal(lock_try(a, far, 1), 0);
	close(a);
	assert_int_equal(lock_try(b, far, 1), -EAGAIN);
	munmap(keep, 1);
	assert_int_equal(lock_try(b, far, 1), 0);
	close(b);
}

static void test_read_only_descriptors_may_ask(void **state)
{
	int a = open_file(O_RDWR), r = open_file(O_RDONLY);

	(void)state;
	assert_int_equal(lock_held(r, far, 1, NULL), 0);
	assert_int_equal(lock_try(a, far, 1), 0);
	assert_int_equal(lock_held(r, far, 1, NULL), 1);
	assert_int_equal(lock_try(r, far + 1, 1), -EBADF);
	assert_int_equal(lock_wait(r, far + 1, 1, NSEC_PER_SEC), -EBADF);
	close(r);
	close(a);
	assert_int_equal(lock_try(-1, far, 1), -EBADF);
	assert_int_equal(lock_held(-1, far, 1, NULL), -EBADF);
}

static void test_wait_ends(void **state)
{
	int a = open_file(O_RDWR), b = open_file(O_RDWR);

	(void)state;
	assert_int_equal(lock_try(a, far, 1), 0);
	memset(&fake, 0, sizeof(fake));
	fake.is_fake = true;
	assert_int_equal(lock_wait(b, far, 1, 10 * NSEC_PER_SEC), -ETIMEDOUT);
	assert_int_equal(fake.now_ns, 10 * NSEC_PER_SEC);
	/*
	 * An old waiter looks less often than a new one, or a crowd of them would keep the owner
	 * from its work: each question walks the kernel's list of locks.
	 */
	assert_true(fake.late_naps > 0 && fake.late_naps < fake.naps / 2);
	fake.naps = 0;
	assert_int_equal(lock_wait(b, far, 1, 0), -ETIMEDOUT);
	assert_int_equal(fake.naps, 0);
	lock_drop(a, far, 1);
	assert_int_equal(lock_wait(b, far, 1, 0), 0);
	assert_int_equal(fake.naps, 0);
	/* Who has just given it up lets others look first, but not for longer than it has. */
	lock_drop(b, far, 1);
	fake.now_ns = 0;
	assert_int_equal(lock_wait(b, far, 1, NSEC_PER_MSEC / 2), 0);
	assert_int_equal(fake.now_ns, NSEC_PER_MSEC / 2);
	fake.is_fake = false;
	close(a);
	close(b);
}

static void test_unlocking_that_fails_at_first(void **state)
{
	int a = open_file(O_RDWR), b = open_file(O_RDWR);

	(void)state;
	assert_int_equal(lock_try(a, far, 1), 0);
	unlocks_that_fail = 3;
	lock_drop(a, far, 1);
	assert_int_equal(unlocks_that_fail, 0);
	assert_int_equal(lock_try(b, far, 1), 0);
	close(a);
	close(b);
}

static void body_hold(void *arg)
{
	int fd = open_file(O_RDWR);

	(void)arg;
	CHECK(lock_try(fd, far, 1) == 0);
	child_say('h');
	child_hear();
	lock_drop(fd, far, 1);
	child_say('d');
	child_hear();
}

static void test_wait_gets_it(void **state)
{
	struct child c = child_start(body_hold, NULL);
	int fd = open_file(O_RDWR);

	(void)state;
	child_await(&c, 'h');
	assert_int_equal(lock_try(fd, far, 1), -EAGAIN);
	child_tell(&c, 'x');
	assert_int_equal(lock_wait(fd, far, 1, 60 * NSEC_PER_SEC), 0);
	child_await(&c, 'd');
	child_tell(&c, 'x');
	child_end(&c);
	close(fd);
}

static void test_a_dead_holder_holds_nothing(void **state)
{
	struct child c = child_start(body_hold, NULL);
	int fd = open_file(O_RDWR);

	(void)state;
	child_await(&c, 'h');
	assert_int_equal(lock_held(fd, far, 1, NULL), 1);
	kill(c.pid, SIGSTOP);
	assert_int_equal(lock_held(fd, far, 1, NULL), 1);
	child_kill(&c);
	assert_int_equal(lock_held(fd, far, 1, NULL), 0);
	assert_int_equal(lock_try(fd, far, 1), 0);
	close(fd);
}

/* Shared by the processes of a case. */
struct counts {
	_Atomic int inside, most, got;
};

static void body_wait_and_count(void *arg)
{
	struct counts *counts = arg;
	int fd = open_file(O_RDWR), inside;

	child_say('w');
	CHECK(lock_wait(fd, far, 1, 60 * NSEC_PER_SEC) == 0);
	inside = atomic_fetch_add(&counts->inside, 1) + 1;
	if (inside > atomic_load(&counts->most))
		atomic_store(&counts->most, inside);
	atomic_fetch_add(&counts->got, 1);
	usleep(1000);
	atomic_fetch_sub(&counts->inside, 1);
	lock_drop(fd, far, 1);
	child_say('d');
}

static struct counts *share_counts(void)
{
	struct counts *counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(counts != MAP_FAILED);
	return counts;
}

/* The holder is killed where it is; all who wait get it, one after the other. */
static void test_a_dead_holder_s_lock_goes_round(void **state)
{
	struct counts *counts = share_counts();
	struct child holder = child_start(body_hold, NULL), waiter[8];

	(void)state;
	child_await(&holder, 'h');
	for (int i = 0; i < 8; i++) {
		waiter[i] = child_start(body_wait_and_count, counts);
		child_await(&waiter[i], 'w');
	}
	assert_int_equal(counts->got, 0);
	child_kill(&holder);
	for (int i = 0; i < 8; i++) {
		child_await(&waiter[i], 'd');
		child_end(&waiter[i]);
	}
	assert_int_equal(counts->got, 8);
	assert_int_equal(counts->most, 1);
	munmap(counts, sizeof(*counts));
}

/* A holder that gives the lock up now and then and takes it again as soon as it is let. */
static struct {
	int fd;
	bool is_free;
	int64_t pause_ns; /* between the two */
	int64_t next_ns;  /* when it does the one or the other */
	int takes;
} holder;

static void holder_goes_on(void)
{
	for (; holder.next_ns <= fake.now_ns; holder.is_free = !holder.is_free) {
		if (!holder.is_free)
			lock_drop(holder.fd, far, 1);
		else if (lock_try(holder.fd, far, 1) < 0)
			break;
		holder.takes += holder.is_free;
		holder.next_ns += holder.is_free ? 3 * NSEC_PER_MSEC : holder.pause_ns;
	}
}

/* An old waiter, which looks seldom, gets it between two turns of one that hardly lets go. */
static void test_an_old_waiter_gets_it(void **state)
{
	int fd = open_file(O_RDWR);

	(void)state;
	memset(&fake, 0, sizeof(fake));
	memset(&holder, 0, sizeof(holder));
	fake.is_fake = true;
	/* How long lock_wait() lets others look. */
	holder.fd = open_file(O_RDWR);
	assert_int_equal(lock_try(holder.fd, far, 1), 0);
	lock_drop(holder.fd, far, 1);
	assert_int_equal(lock_wait(holder.fd, far, 1, NSEC_PER_SEC), 0);
	holder.pause_ns = fake.now_ns;
	assert_true(holder.pause_ns > 0);
	/* It keeps the lock for a minute first. */
	fake.now_ns = 0;
	holder.next_ns = 60 * NSEC_PER_SEC;
	fake.meanwhile = holder_goes_on;
	assert_int_equal(lock_wait(fd, far, 1, 62 * NSEC_PER_SEC), 0);
	assert_true(fake.now_ns >= 60 * NSEC_PER_SEC);
	fake.is_fake = false;
	close(fd);
	close(holder.fd);
}

/* Who gives a lock up and takes it again at once waits for those who were there before. */
static void test_a_lock_that_is_taken_again_at_once(void **state)
{
	struct counts *counts = share_counts();
	struct child waiter;
	int fd = open_file(O_RDWR);

	(void)state;
	assert_int_equal(lock_try(fd, far, 1), 0);
	waiter = child_start(body_wait_and_count, counts);
	child_await(&waiter, 'w');
	for (int i = 0; i < 300 && !counts->got; i++) {
		usleep(1000);
		lock_drop(fd, far, 1);
		assert_int_equal(lock_wait(fd, far, 1, 60 * NSEC_PER_SEC), 0);
	}
	assert_int_equal(counts->got, 1);
	child_await(&waiter, 'd');
	child_end(&waiter);
	munmap(counts, sizeof(*counts));
	close(fd);
}

static void body_wait(void *arg)
{
	int fd = open_file(O_RDWR);

	(void)arg;
	child_say('w');
	CHECK(lock_wait(fd, far, 1, 60 * NSEC_PER_SEC) == 0);
}

/* The first of those who wait is stopped: the others get on without it. */
static void test_a_stopped_waiter_holds_nobody_up(void **state)
{
	struct child waiter;
	int fd = open_file(O_RDWR), other = open_file(O_RDWR);

	(void)state;
	assert_int_equal(lock_try(fd, far, 1), 0);
	waiter = child_start(body_wait, NULL);
	child_await(&waiter, 'w');
	/* Until it waits; should it not yet, then it is in nobody's way either. */
	usleep(20000);
	kill(waiter.pid, SIGSTOP);
	assert_int_equal(waitpid(waiter.pid, &(int){ 0 }, WUNTRACED), waiter.pid);
	lock_drop(fd, far, 1);
	memset(&fake, 0, sizeof(fake));
	fake.is_fake = true;
	assert_int_equal(lock_wait(other, far, 1, 60 * NSEC_PER_SEC), 0);
	assert_true(fake.now_ns < 2 * NSEC_PER_SEC);
	fake.is_fake = false;
	lock_drop(other, far, 1);
	kill(waiter.pid, SIGCONT);
	child_end(&waiter);
	close(other);
	close(fd);
}

/* HAMi-core locks by lockf(): both kinds exclude each other, also within one process. */
static void body_lockf(void *arg)
{
	int fd = open_file(O_RDWR);

	(void)arg;
	CHECK(lockf(fd, F_TLOCK, 2008952) == 0);
	child_say('h');
	child_hear();
	close(fd);
	child_say('c');
	child_hear();
	fd = open_file(O_RDWR);
	CHECK(lockf(fd, F_TLOCK, 2008952) < 0);
	child_say('f');
}

static void test_against_lockf(void **state)
{
	struct child c = child_start(body_lockf, NULL);
	int fd = open_file(O_RDWR), own = open_file(O_RDWR);
	int64_t at = -1;

	(void)state;
	child_await(&c, 'h');
	assert_int_equal(lock_try(fd, 0, 2008952), -EAGAIN);
	assert_int_equal(lock_try(fd, 2008951, 1), -EAGAIN);
	assert_int_equal(lock_held(fd, 0, 2008952, &at), 1);
	assert_int_equal(at, 0);
	/* The slots' bytes are out of its way. */
	assert_int_equal(lock_try(fd, far, 1), 0);
	assert_int_equal(lock_try(fd, 2008952, 1), 0);
	child_tell(&c, 'x');
	child_await(&c, 'c');
	assert_int_equal(lock_try(fd, 0, 2008952), 0);
	assert_int_equal(lockf(own, F_TLOCK, 2008952), -1);
	child_tell(&c, 'x');
	child_await(&c, 'f');
	child_end(&c);
	close(own);
	close(fd);
}

static void body_refused(void *arg)
{
	int fd = open_file(O_RDWR);

	(void)arg;
	if (!refuse_call(SYS_fcntl, 1, F_OFD_SETLK, ENOLCK))
		child_skip("no seccomp filter can be set here");
	CHECK(lock_try(fd, far, 1) == -ENOLCK);
	CHECK(lock_wait(fd, far, 1, 10 * NSEC_PER_SEC) == -ENOLCK);
}

static void test_a_file_system_without_locks(void **state)
{
	(void)state;
	child_run(body_refused, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_one_byte_has_one_owner),
		scratch_test(test_drop_takes_only_its_range),
		scratch_test(test_close_of_another_descriptor),
		scratch_test(test_a_mapping_keeps_the_lock),
		scratch_test(test_read_only_descriptors_may_ask),
		scratch_test(test_unlocking_that_fails_at_first),
		scratch_test(test_wait_ends),
		scratch_test(test_wait_gets_it),
		scratch_test(test_a_dead_holder_holds_nothing),
		scratch_test(test_a_dead_holder_s_lock_goes_round),
		scratch_test(test_an_old_waiter_gets_it),
		scratch_test(test_a_lock_that_is_taken_again_at_once),
		scratch_test(test_a_stopped_waiter_holds_nobody_up),
		scratch_test(test_against_lockf),
		scratch_test(test_a_file_system_without_locks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
