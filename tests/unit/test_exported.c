/*
 * Descriptors that hold device memory: who is told of them, and until when. The files stand for the
 * driver's.
 */
#include "shm/exported.h"

#include "child.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MIB (UINT64_C(1) << 20)

enum { OWNER = 12345, OTHER = 54321 };

static int make(uint64_t owner, uint64_t memory, uint64_t bytes, int dev)
{
	const struct exported what = { .memory = memory, .bytes = bytes, .dev = dev };
	int fd = memfd_create("exported", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(exported_mark(fd, owner, &what), 0);
	return fd;
}

/* How many there are of the owner's; the first in *out (may be NULL). */
static unsigned count(uint64_t owner, struct exported *out)
{
	struct exported *all;
	unsigned n;

	assert_int_equal(exported_read(owner, &all, &n), 0);
	if (n && out)
		*out = all[0];
	free(all);
	return n;
}

static void test_a_mark_says_what_it_is_of(void **state)
{
	const uint64_t memory = (UINT64_C(1) << EXPORTED_MEMORY_BITS) - 1;
	struct exported seen;
	int fd;

	(void)state;
	assert_int_equal(count(OWNER, NULL), 0);
	fd = make(OWNER, memory, 5 * MIB + 1, RATION_DEVICES - 1);
	assert_int_equal(count(OTHER, NULL), 0);
	assert_int_equal(count(OWNER, &seen), 1);
	assert_int_equal(seen.memory, memory);
	assert_int_equal(seen.bytes, 6 * MIB);
	assert_int_equal(seen.dev, RATION_DEVICES - 1);
	close(fd);
	assert_int_equal(count(OWNER, NULL), 0);
	/* The largest there is room for. */
	fd = make(OWNER, 1, UINT64_MAX / 2, 0);
	assert_int_equal(count(OWNER, &seen), 1);
	assert_true(seen.bytes >= UINT64_C(1) << 40);
	close(fd);
}

static void test_one_memory_counts_once(void **state)
{
	int a = make(OWNER, 7, 2 * MIB, 0), b = make(OWNER, 7, 2 * MIB, 0),
	    c = make(OWNER, 8, 2 * MIB, 1);
	struct exported *all;
	unsigned n;

	(void)state;
	assert_int_equal(exported_read(OWNER, &all, &n), 0);
	assert_int_equal(n, 2);
	assert_true(exported_has(all, n, 7) && exported_has(all, n, 8));
	assert_false(exported_has(all, n, 9) || exported_has(NULL, 0, 7));
	free(all);
	close(a);
	assert_int_equal(count(OWNER, NULL), 2);
	close(b);
	assert_int_equal(count(OWNER, NULL), 1);
	close(c);
}

/* Sends a descriptor to whoever reads the socket. */
static void send_away(int socket, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec word = { "x", 1 };
	struct msghdr message = { .msg_iov = &word,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	assert_int_equal(sendmsg(socket, &message, 0), 1);
	close(fd);
}

static void hold(void *arg)
{
	(void)arg;
	child_say('h');
	for (;;)
		pause();
}

/* A copy, a child's, one that is under way in a socket: it is held until the last has gone. */
static void test_any_copy_holds_it(void **state)
{
	int fd = make(OWNER, 1, 2 * MIB, 0), copy = dup(fd), pair[2];
	struct child child;

	(void)state;
	close(fd);
	assert_int_equal(count(OWNER, NULL), 1);
	child = child_start(hold, NULL);
	assert_int_equal(child_word(&child), 'h');
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	send_away(pair[0], copy);
	child_kill(&child);
	assert_int_equal(count(OWNER, NULL), 1);
	close(pair[0]);
	assert_int_equal(count(OWNER, NULL), 1);
	close(pair[1]);
	assert_int_equal(count(OWNER, NULL), 0);
}

/* Other locks, so that the kernel gives the list in pieces; some of them look nearly like ours. */
static void test_among_many_others(void **state)
{
	enum { LOCKS = 300 };
	int others[LOCKS], ours;

	(void)state;
	for (int i = 0; i < LOCKS; i++) {
		struct flock lock = { .l_type = i % 2 ? F_RDLCK : F_WRLCK,
				      .l_whence = SEEK_SET,
				      .l_start = ((int64_t)1 << 61) + OWNER,
				      .l_len = i % 3 ? 0 : i + 1 };

		others[i] = memfd_create("other", MFD_CLOEXEC);
		assert_true(others[i] >= 0);
		assert_int_equal(fcntl(others[i], F_OFD_SETLK, &lock), 0);
	}
	assert_int_equal(count(OWNER, NULL), 0);
	ours = make(OWNER, 3, 4 * MIB, 2);
	assert_int_equal(count(OWNER, NULL), 1);
	for (int i = 0; i < LOCKS; i++)
		close(others[i]);
	assert_int_equal(count(OWNER, NULL), 1);
	close(ours);
}

enum { CHURN_FILES = 40, CHURN_THREADS = 2, LOOKS = 200, MARKS = 100 };

static _Atomic bool is_over;

/* Locks that come and go. */
static void *churn(void *arg)
{
	unsigned random = (unsigned)(uintptr_t)arg;
	int files[CHURN_FILES];

	for (int i = 0; i < CHURN_FILES; i++)
		files[i] = memfd_create("other", MFD_CLOEXEC);
	while (!atomic_load(&is_over)) {
		struct flock lock = { .l_whence = SEEK_SET, .l_len = 1 };

		random = random * 1103515245 + 12345;
		lock.l_type = random >> 16 & 1 ? F_RDLCK : F_UNLCK;
		fcntl(files[(random >> 17) % CHURN_FILES], F_OFD_SETLK, &lock);
	}
	for (int i = 0; i < CHURN_FILES; i++)
		close(files[i]);
	return NULL;
}

/* Between two pieces of the list locks go, and others move up: none of ours is overlooked. */
static void test_while_others_come_and_go(void **state)
{
	pthread_t threads[CHURN_THREADS];
	int marked[MARKS];

	(void)state;
	for (uint64_t i = 0; i < MARKS; i++)
		marked[i] = make(OWNER, i + 1, 2 * MIB, 0);
	for (uintptr_t i = 0; i < CHURN_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < LOOKS; i++)
		assert_int_equal(count(OWNER, NULL), MARKS);
	atomic_store(&is_over, true);
	for (int i = 0; i < CHURN_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < MARKS; i++)
		close(marked[i]);
	assert_int_equal(count(OWNER, NULL), 0);
}

static void test_what_cannot_be_marked(void **state)
{
	const struct exported what = { .memory = 1, .bytes = MIB };
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(exported_mark(fd, OWNER, &what) < 0);
	close(fd);
	assert_true(exported_mark(fd, OWNER, &what) < 0);
}

/* Who is found in a slot is told from who was there before, and from who has the next. */
static void test_an_owner_is_known_by_his_slot(void **state)
{
	struct ration_slot s = { .pid = 7, .start_ticks = 100, .pid_namespace = 9 }, t = s;
	uint64_t owner = exported_owner(&s, 3);

	(void)state;
	assert_true(owner >> 61 == 0);
	assert_true(exported_owner(&t, 3) == owner);
	assert_true(exported_owner(&s, 4) != owner);
	t.start_ticks++;
	assert_true(exported_owner(&t, 3) != owner);
	t = s;
	t.pid++;
	assert_true(exported_owner(&t, 3) != owner);
	t = s;
	t.pid_namespace++;
	assert_true(exported_owner(&t, 3) != owner);
	t = s;
	t.used_bytes[0] = 5;
	assert_true(exported_owner(&t, 3) == owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_mark_says_what_it_is_of),
		cmocka_unit_test(test_one_memory_counts_once),
		cmocka_unit_test(test_any_copy_holds_it),
		cmocka_unit_test(test_among_many_others),
		cmocka_unit_test(test_while_others_come_and_go),
		cmocka_unit_test(test_what_cannot_be_marked),
		cmocka_unit_test(test_an_owner_is_known_by_his_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
