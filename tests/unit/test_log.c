#include "base/log.h"

#include "child.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

static int saved_stderr, from_log;

/* Standard error becomes a pipe that keeps writes apart. */
static int catch_stderr(void **state)
{
	int fds[2];

	(void)state;
	if (pipe2(fds, O_DIRECT | O_NONBLOCK | O_CLOEXEC) < 0)
		return -1;
	saved_stderr = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	from_log = fds[0];
	log_set_level(LOG_ERROR);
	return 0;
}

static int release_stderr(void **state)
{
	(void)state;
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(from_log);
	return 0;
}

/* The next write, as a text; "" when there was none. */
static const char *written(void)
{
	static char text[2048];
	ssize_t n = read(from_log, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void test_levels(void **state)
{
	(void)state;
	assert_true(log_enabled(LOG_ERROR));
	assert_false(log_enabled(LOG_WARN));
	log_warn("unseen");
	log_info("unseen");
	log_debug("unseen");
	assert_string_equal(written(), "");
	log_error("%s %d", "seen", 7);
	assert_string_equal(written(), "ration: seen 7\n");
	log_set_level(LOG_DEBUG);
	log_error("e");
	assert_string_equal(written(), "ration: e\n");
	log_warn("w");
	assert_string_equal(written(), "ration: warning: w\n");
	log_info("i");
	assert_string_equal(written(), "ration: i\n");
	log_debug("d");
	assert_string_equal(written(), "ration: debug: d\n");
	log_set_level(LOG_WARN);
	log_info("unseen");
	assert_string_equal(written(), "");
	assert_true(log_enabled(LOG_WARN));
}

static int evaluated;

static int count_up(void)
{
	return ++evaluated;
}

static void test_arguments_of_unwritten_lines(void **state)
{
	(void)state;
	evaluated = 0;
	log_debug("%d", count_up());
	assert_int_equal(evaluated, 0);
	log_error("%d", count_up());
	assert_int_equal(evaluated, 1);
}

static void test_errno(void **state)
{
	(void)state;
	errno = ENOSPC;
	log_error("why: %m");
	assert_int_equal(errno, ENOSPC);
	assert_string_equal(written(), "ration: why: No space left on device\n");
}

static void test_a_long_line_is_cut(void **state)
{
	char text[4096];
	const char *line;

	(void)state;
	for (size_t n = 480; n < 530; n++) {
		memset(text, 'x', n);
		text[n] = '\0';
		log_error("%s", text);
		line = written();
		/* One write, one newline, at the end. */
		assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
		assert_int_equal(strlen(line), n + 9 < 511 ? n + 9 : 511);
	}
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	log_error("%s", text);
	assert_int_equal(strlen(written()), 511);
	assert_string_equal(written(), "");
}

/* A program that closed standard error, or whose reader went away, goes on. */
static void body_no_stderr(void *arg)
{
	(void)arg;
	close(from_log);
	errno = EDOM;
	log_error("nobody reads this");
	CHECK(errno == EDOM);
	close(STDERR_FILENO);
	log_error("nobody reads this");
	CHECK(errno == EDOM);
}

static void test_no_stderr(void **state)
{
	(void)state;
	child_run(body_no_stderr, NULL);
}

/* Standard error is a file, and the program may write no longer ones. */
static void body_full_stderr(void *arg)
{
	const struct rlimit none = { 0, 0 };
	char path[] = "/tmp/test_log_XXXXXX";
	int fd = mkstemp(path);

	(void)arg;
	CHECK(fd >= 0 && unlink(path) == 0);
	CHECK(dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
	errno = EDOM;
	log_error("there is no room for this");
	CHECK(errno == EDOM);
	CHECK(lseek(fd, 0, SEEK_END) == 0);
}

static void test_full_stderr(void **state)
{
	(void)state;
	child_run(body_full_stderr, NULL);
}

/* A thread that is to be ended is not ended here: its caller may hold something. */
static void *log_and_go_on(void *arg)
{
	while (!atomic_load((_Atomic bool *)arg))
		sched_yield();
	log_error("one more line");
	return arg;
}

static void test_a_thread_that_is_to_end(void **state)
{
	_Atomic bool is_cancelled = false;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, log_and_go_on, &is_cancelled), 0);
	assert_int_equal(pthread_cancel(thread), 0);
	atomic_store(&is_cancelled, true);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &is_cancelled);
	assert_string_equal(written(), "ration: one more line\n");
}

#define log_test(f) cmocka_unit_test_setup_teardown(f, catch_stderr, release_stderr)

int main(void)
{
	const struct CMUnitTest tests[] = {
		log_test(test_levels),
		log_test(test_arguments_of_unwritten_lines),
		log_test(test_errno),
		log_test(test_a_long_line_is_cut),
		log_test(test_no_stderr),
		log_test(test_full_stderr),
		log_test(test_a_thread_that_is_to_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
