#include "base/log.h"

#include "child.h"

#include <fcntl.h>
#include <pthread.h>

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

static void *log_cancelled(void *out_has_logged)
{
	pthread_cancel(pthread_self());
	log_error("on the way");
	*(bool *)out_has_logged = true;
	pthread_testcancel();
	return NULL;
}

/* Who logs may have a lock, or have begun something: a cancelled thread goes on to its end. */
static void test_no_cancellation_point(void **state)
{
	bool has_logged = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, log_cancelled, &has_logged), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(has_logged);
	assert_string_equal(written(), "ration: on the way\n");
}

#define log_test(f) cmocka_unit_test_setup_teardown(f, catch_stderr, release_stderr)

int main(void)
{
	const struct CMUnitTest tests[] = {
		log_test(test_levels),    log_test(test_arguments_of_unwritten_lines),
		log_test(test_errno),     log_test(test_a_long_line_is_cut),
		log_test(test_no_stderr), log_test(test_no_cancellation_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
