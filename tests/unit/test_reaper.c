#include "core/reaper.h"

#include "core/quota.h"
#include "core/root.h"
#include "fresh.h"
#include "member.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

static struct member member;
static _Atomic bool is_over, has_begun;
static _Atomic int wakes;

static void wake(void)
{
	atomic_fetch_add(&wakes, 1);
}

static void *serve(void *arg)
{
	(void)arg;
	root_serve_here(wake);
	atomic_store(&has_begun, true);
	while (!atomic_load(&is_over))
		root_serve();
	return NULL;
}

/* A process of the tenant that holds something and is no more. */
static void die_with(uint64_t bytes)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		struct member dying;

		member_join(&dying, member.region.path, "10m", 0, 1);
		_exit(quota_reserve(dev0, QUOTA_DATA, bytes) == 0 ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The path leads nowhere for all threads but the one that has a root of its own. */
static void leave(void)
{
	CHECK(chroot(scratch_path("")) == 0);
}

static void the_dead_are_reaped_by_who_kept_the_old_root(void)
{
	pthread_t thread;

	if (geteuid() != 0)
		return;
	member_join(&member, scratch_path("region"), "10m", 0, 1);
	die_with(MIB_BYTES(8));
	CHECK(pthread_create(&thread, NULL, serve, NULL) == 0);
	while (!atomic_load(&has_begun))
		;
	leave();
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(8)), 0);
	CHECK(atomic_load(&wakes) > 0);
	/* Nobody died: a refusal is one all the same. */
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(8)) == -EDQUOT);
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	/* Who serves no more keeps nobody for long. */
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(8)) == -EDQUOT);
	CHECK(quota_has_region(0));
}

/* Without anybody who serves it is as before: counted, and said once. */
static void alone_they_stay_counted(void)
{
	if (geteuid() != 0)
		return;
	member_join(&member, scratch_path("region"), "10m", 0, 1);
	die_with(MIB_BYTES(8));
	leave();
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(8)) == -EDQUOT);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(8));
	CHECK_EQ(quota_reserve(dev0, QUOTA_DATA, MIB_BYTES(2)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(the_dead_are_reaped_by_who_kept_the_old_root),
		fresh_test(alone_they_stay_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
