/*
 * What it costs to join a tenant with many processes: the kernel is asked about few slots, however
 * many there are. Field fault 71: each that came looked at all of them, under the lock.
 */
#include "shm/slot.h"

#include "base/units.h"
#include "scratch.h"
#include "tenant.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>

/* More than are looked at in any case; questions and locks for each of those, and for its own. */
enum { FEW = 64, QUESTIONS = 2 * FEW + 16, PROCESSES = 500 };

/* Of this program, about locks. */
static int questions;

int fcntl(int fd, int command, ...)
{
	va_list more;
	void *arg;

	va_start(more, command);
	arg = va_arg(more, void *);
	va_end(more);
	questions += command == F_OFD_SETLK || command == F_OFD_GETLK;
	return (int)syscall(SYS_fcntl, fd, command, arg);
}

/* One more joins; what it asked. */
static int join(const char *path)
{
	struct region_setup setup = { .mem_spec = "1g", .mem_source = "test", .priority = 1 };
	struct region_error err;
	struct region r;
	struct slot slot;
	int before;

	if (region_open(path, &setup, &r, &err) < 0)
		fail_msg("%s", err.text);
	before = questions;
	assert_ok(slot_claim(&r, &slot));
	before = questions - before;
	region_settle(&r);
	return before;
}

static void test_few_are_asked_about(void **state)
{
	const char *path = scratch_path("region");
	int most = 0, last = 0;

	(void)state;
	for (int i = 0; i < PROCESSES; i++) {
		last = join(path);
		most = last > most ? last : most;
	}
	print_message("%d questions at most, %d of the last\n", most, last);
	assert_true(most > 0 && most <= QUESTIONS);
	/* Beside a crowd none but its own. */
	assert_true(last <= 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = { scratch_test(test_few_are_asked_about) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
