#include "base/sys.h"

#include "fresh.h"
#include "refuse.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void test_stat(void **state)
{
	const char *path = scratch_file("file", "12345", 5);
	struct stat ours, libc;
	int fd;

	(void)state;
	assert_int_equal(sys_stat(path, &ours), 0);
	assert_int_equal(stat(path, &libc), 0);
	assert_int_equal(ours.st_ino, libc.st_ino);
	assert_int_equal(ours.st_dev, libc.st_dev);
	assert_int_equal(ours.st_mode, libc.st_mode);
	assert_int_equal(ours.st_size, 5);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	memset(&ours, 0, sizeof(ours));
	assert_int_equal(sys_fstat(fd, &ours), 0);
	assert_int_equal(ours.st_ino, libc.st_ino);
	assert_int_equal(ours.st_nlink, 1);
	assert_int_equal(ours.st_size, 5);
	assert_int_equal(ours.st_blocks, libc.st_blocks);
	close(fd);
	errno = 0;
	assert_int_equal(sys_fstat(fd, &ours), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(sys_stat(scratch_path("none"), &ours), -1);
	assert_int_equal(errno, ENOENT);
}

/* What is there is copied, and nothing of what is partly there comes to harm. */
static void copy_what_is_there(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *map = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	char out[64];

	CHECK(map != MAP_FAILED && munmap(map + 2 * page, page) == 0);
	memset(map, 'x', 2 * page);
	CHECK(sys_copy_own(out, map + page - 32, 64) == 0);
	CHECK(out[0] == 'x' && out[63] == 'x');
	CHECK(sys_copy_own(out, map + 2 * page - 64, 64) == 0);
	CHECK(sys_copy_own(out, map + 2 * page - 63, 64) == -1);
	CHECK(sys_copy_own(out, map + 2 * page, 1) == -1);
	CHECK(sys_copy_own(out, NULL, 1) == -1);
	CHECK(sys_copy_own(out, (const void *)-8, 16) == -1);
	CHECK(sys_copy_own(out, NULL, 0) == 0);
}

static void copying(void)
{
	copy_what_is_there();
}

/* Some containers refuse the system call. */
static void copying_without_the_call(void)
{
	if (!refuse_call(SYS_process_vm_readv, REFUSE_ANY, 0, EPERM))
		return;
	copy_what_is_there();
}

/* In a child: what is told of a file is so, and of what is none too. */
static void look_at_files(void)
{
	const char *path = scratch_file("file", "12345", 5);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	CHECK(fd >= 0);
	CHECK(sys_fstat(fd, &st) == 0 && st.st_size == 5 && S_ISREG(st.st_mode));
	CHECK(sys_stat(path, &st) == 0 && st.st_size == 5);
	close(fd);
	CHECK(sys_fstat(fd, &st) == -1 && errno == EBADF);
	CHECK(sys_stat(scratch_path("none"), &st) == -1 && errno == ENOENT);
}

/* A sandbox that knows the call of new libcs alone. */
static void looking_without_fstat(void)
{
	if (refuse_call(SYS_fstat, REFUSE_ANY, 0, EPERM))
		look_at_files();
}

/* One that knows those of older ones alone. */
static void looking_without_newfstatat(void)
{
#ifdef SYS_stat
	if (refuse_call(SYS_newfstatat, REFUSE_ANY, 0, ENOSYS))
		look_at_files();
#endif
}

static void *thread_id(void *out)
{
	*(pid_t *)out = sys_gettid();
	return NULL;
}

static void test_gettid(void **state)
{
	pthread_t thread;
	pid_t tid = 0;

	(void)state;
	assert_int_equal(sys_gettid(), getpid());
	assert_int_equal(pthread_create(&thread, NULL, thread_id, &tid), 0);
	pthread_join(thread, NULL);
	assert_true(tid > 0);
	assert_int_not_equal(tid, getpid());
}

static _Atomic unsigned word;

static void *wake(void *arg)
{
	atomic_store(&word, 1);
	sys_futex_wake_all(&word);
	return arg;
}

static void test_futex(void **state)
{
	pthread_t thread;
	int rc;

	(void)state;
	atomic_store(&word, 0);
	assert_int_equal(sys_futex_wait(&word, 1, 1000000), -1);
	assert_int_equal(errno, EAGAIN);
	do
		rc = sys_futex_wait(&word, 0, 1000000);
	while (rc < 0 && errno == EINTR);
	assert_int_equal(rc, -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, wake, NULL), 0);
	while (atomic_load(&word) == 0) {
		rc = sys_futex_wait(&word, 0, 60LL * 1000000000);
		/* Only a lost wake-up could last that long. */
		if (rc < 0)
			assert_int_not_equal(errno, ETIMEDOUT);
	}
	pthread_join(thread, NULL);
	sys_futex_wake_all(&word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_stat),
		cmocka_unit_test(test_gettid),
		cmocka_unit_test(test_futex),
		fresh_test(copying),
		fresh_test(copying_without_the_call),
		fresh_test(looking_without_fstat),
		fresh_test(looking_without_newfstatat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
