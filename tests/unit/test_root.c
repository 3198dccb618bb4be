#include "core/root.h"

#include "fresh.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic bool is_over, has_begun, is_asleep, is_resting;
static _Atomic int wakes, calls;

static void wake(void)
{
	atomic_fetch_add(&wakes, 1);
}

static void *serve(void *arg)
{
	(void)arg;
	root_serve_here(wake);
	atomic_store(&has_begun, true);
	while (!atomic_load(&is_over)) {
		atomic_store(&is_resting, atomic_load(&is_asleep));
		if (!atomic_load(&is_resting))
			root_serve();
	}
	return NULL;
}

static pthread_t start(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, serve, NULL) == 0);
	while (!atomic_load(&has_begun))
		;
	return thread;
}

static void stop(pthread_t thread)
{
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
}

/* A descriptor. */
static int open_file(void *arg)
{
	int fd = open(arg, O_RDONLY | O_CLOEXEC);

	atomic_fetch_add(&calls, 1);
	return fd < 0 ? -errno : fd;
}

static int say(void *arg)
{
	atomic_fetch_add(&calls, 1);
	return *(int *)arg;
}

static char *a_file(void)
{
	static char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s", scratch_path("file"));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && close(fd) == 0);
	return path;
}

static void what_is_found_here_asks_nobody(void)
{
	static const int answers[] = { 0, 7, -EPERM, -EDQUOT, -EBUSY };
	pthread_t thread = start();

	for (unsigned i = 0; i < sizeof(answers) / sizeof(*answers); i++)
		CHECK(root_do(say, (void *)(uintptr_t)&answers[i]) == answers[i]);
	CHECK(atomic_load(&wakes) == 0 && atomic_load(&calls) == 5);
	stop(thread);
}

static void the_old_root_is_kept(void)
{
	char *path = a_file();
	pthread_t thread;
	int fd;

	if (geteuid() != 0)
		return;
	thread = start();
	CHECK(chroot(scratch_path("")) == 0);
	CHECK(open_file(path) == -ENOENT);
	fd = root_do(open_file, path);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(atomic_load(&wakes) == 1);
	/* There is none there either. */
	CHECK(root_do(open_file, "/nowhere/at/all") == -ENOENT);
	stop(thread);
}

static void without_a_server_it_is_as_here(void)
{
	CHECK(root_do(open_file, "/nowhere/at/all") == -ENOENT);
	CHECK(atomic_load(&calls) == 1 && !root_serve());
}

/* Nobody waits for long for one that does not come to it, nor is used after that. */
static void one_that_sleeps(void)
{
	pthread_t thread = start();
	int rc = -ESTALE;

	atomic_store(&is_asleep, true);
	while (!atomic_load(&is_resting))
		;
	CHECK(root_do(say, &rc) == -ESTALE);
	CHECK(atomic_load(&calls) == 1 && atomic_load(&wakes) == 1);
	atomic_store(&is_asleep, false);
	while (atomic_load(&is_resting))
		;
	CHECK(root_do(say, &rc) == -ESTALE && atomic_load(&calls) == 3);
	stop(thread);
}

static void *ask(void *arg)
{
	for (int i = 0; i < 200; i++) {
		int fd = root_do(open_file, arg);

		CHECK(fd >= 0 && close(fd) == 0);
	}
	return NULL;
}

static void many_at_once(void)
{
	char *path = a_file();
	pthread_t thread, askers[4];

	if (geteuid() != 0)
		return;
	thread = start();
	CHECK(chroot(scratch_path("")) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&askers[i], NULL, ask, path) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(askers[i], NULL);
	stop(thread);
}

static int ask_again(void *arg)
{
	return root_do(say, arg);
}

/* The thread that serves does its own work itself. */
static void the_server_asks(void)
{
	pthread_t thread = start();
	int rc = -ENOENT;

	CHECK(root_do(ask_again, &rc) == -ENOENT);
	CHECK(atomic_load(&wakes) == 2);
	stop(thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_is_found_here_asks_nobody),
		fresh_test(the_old_root_is_kept),
		fresh_test(without_a_server_it_is_as_here),
		fresh_test(one_that_sleeps),
		fresh_test(many_at_once),
		fresh_test(the_server_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
