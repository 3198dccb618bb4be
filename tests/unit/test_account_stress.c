/*
 * Eight processes of two threads reserve and release under one limit; members are killed and come
 * back; a watcher looks all the time; now and then all are stopped wherever they are and the books
 * are compared.
 */
#include "shm/account.h"

#include "tenant.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define LIMIT UINT64_C(1000000)

enum {
	MEMBERS = 8,
	THREADS = 2,
	KILLS = BUILD_SANITIZED ? 30 : 120,
	KILLS_PER_AUDIT = 6,
	PIECES = 8
};

static struct shared {
	_Atomic bool stop;
	_Atomic long changes, refusals, looks, over;
} * shared;

static char path[512];

/* One member's own: what its threads change in turn. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct account_holder holder;

/* Reserves the piece if it is not held, releases it if it is. */
static void change(uint64_t *piece, uint64_t bytes)
{
	pthread_mutex_lock(&mutex);
	if (*piece) {
		CHECK(account_sub(&holder, *piece) == *piece);
		*piece = 0;
	} else if (account_add(&holder, bytes, LIMIT) == 0) {
		*piece = bytes;
	} else {
		atomic_fetch_add(&shared->refusals, 1);
	}
	pthread_mutex_unlock(&mutex);
	atomic_fetch_add(&shared->changes, 1);
}

static void *work(void *seed)
{
	unsigned random = (unsigned)(uintptr_t)seed;
	uint64_t pieces[PIECES] = { 0 };

	while (!atomic_load(&shared->stop)) {
		random = random * 1103515245 + 12345;
		change(&pieces[(random >> 16) % PIECES], 1 + (random >> 8) % 60000);
	}
	for (int k = 0; k < PIECES; k++)
		if (pieces[k])
			change(&pieces[k], 0);
	return NULL;
}

static void member(void *seed)
{
	pthread_t threads[THREADS];
	struct region r;
	struct slot slot;

	tenant_join(&r, &slot, path);
	account_settle(&holder, r.own, slot.index, 0);
	CHECK(holder.bytes == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)((uintptr_t)seed + i)) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(holder.bytes == 0);
}

static void watch(void *arg)
{
	const struct ration_account *account;
	struct region r;

	(void)arg;
	/* The mapping is not inherited. */
	tenant_open(&r, path, NULL);
	account = &r.own->accounts[0];
	while (!atomic_load(&shared->stop)) {
		if (__atomic_load_n(&account->total_bytes, __ATOMIC_RELAXED) > LIMIT)
			atomic_fetch_add(&shared->over, 1);
		atomic_fetch_add(&shared->looks, 1);
		sched_yield();
	}
}

static void audit(struct region *r)
{
	struct account_holder h;
	uint64_t sum = 0, total = r->own->accounts[0].total_bytes;

	for (unsigned s = 0; s < HAMI_SLOTS; s++) {
		account_settle(&h, r->own, s, 0);
		sum += h.bytes;
	}
	if (sum != total || total > LIMIT)
		fail_msg("slots %lu, total %lu", (unsigned long)sum, (unsigned long)total);
}

static void audit_stopped(struct region *r, struct child *members)
{
	int status;

	for (int i = 0; i < MEMBERS; i++)
		kill(members[i].pid, SIGSTOP);
	for (int i = 0; i < MEMBERS; i++) {
		assert_int_equal(waitpid(members[i].pid, &status, WUNTRACED), members[i].pid);
		assert_true(WIFSTOPPED(status));
	}
	audit(r);
	for (int i = 0; i < MEMBERS; i++)
		kill(members[i].pid, SIGCONT);
}

/* A member that ended by itself has found something wrong. */
static void check_alive(const struct child *members)
{
	for (int i = 0; i < MEMBERS; i++) {
		siginfo_t info = { .si_pid = 0 };

		waitid(P_PID, (id_t)members[i].pid, &info, WEXITED | WNOHANG | WNOWAIT);
		if (info.si_pid)
			fail_msg("a member ended");
	}
}

/* Lets the members run until they have made so many more changes. */
static void let_run(const struct child *members, long changes)
{
	long until = atomic_load(&shared->changes) + changes;

	while (atomic_load(&shared->changes) < until) {
		usleep(200);
		check_alive(members);
	}
}

static void kill_and_audit(struct region *r, int own, struct child *members)
{
	unsigned random = 7;

	for (uintptr_t i = 0; i < KILLS; i++) {
		unsigned k;

		random = random * 1103515245 + 12345;
		k = (random >> 16) % MEMBERS;
		let_run(members, 200 + (random >> 18) % 300);
		child_kill(&members[k]);
		members[k] = child_start(member, (void *)(100 + 2 * i));
		if (i % KILLS_PER_AUDIT == 0)
			audit_stopped(r, members);
		if (i % 4 == 0)
			assert_true(slot_reap(r, own) >= 0);
	}
}

static void test_stress(void **state)
{
	struct region_setup setup = { .priority = 1 };
	struct child members[MEMBERS], watcher;
	struct region_error err;
	struct region r;
	struct slot slot;

	(void)state;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
	/* This process's slot keeps the region from being made anew. */
	if (region_open(path, &setup, &r, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(region_add_device(&r, TENANT_UUID, 1), 0);
	assert_ok(slot_claim(&r, &slot));
	region_settle(&r);

	watcher = child_start(watch, NULL);
	for (uintptr_t i = 0; i < MEMBERS; i++)
		members[i] = child_start(member, (void *)(2 * i));
	kill_and_audit(&r, (int)slot.index, members);

	for (int i = 0; i < MEMBERS; i += 2)
		child_kill(&members[i]);
	atomic_store(&shared->stop, true);
	for (int i = 1; i < MEMBERS; i += 2)
		child_end(&members[i]);
	child_end(&watcher);
	audit(&r);
	assert_true(slot_reap(&r, (int)slot.index) >= 0);
	audit(&r);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	assert_int_equal(atomic_load(&shared->over), 0);
	assert_true(atomic_load(&shared->looks) > 0);
	assert_true(atomic_load(&shared->refusals) > 0);
	print_message("          %ld changes, %ld refused, %ld looks\n",
		      atomic_load(&shared->changes), atomic_load(&shared->refusals),
		      atomic_load(&shared->looks));
	region_close(&r);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = { scratch_test(test_stress) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
