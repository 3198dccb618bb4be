/*
 * A process is killed after every single machine instruction of a change of the limits: nobody
 * reads more than both the old and the new limit, nobody reads none, and the next change puts it
 * right.
 */
#include "base/limits.h"
#include "shm/region.h"
#include "shm/spec.h"

#include "step.h"

#define OLD_SPEC "0:1g,1:2g,2g"
#define NEW_SPEC "3g"
#define OLD_SM "0:10,1:20,20"
#define NEW_SM "30"
#define GIB_BYTES(n) ((uint64_t)(n) << 30)

enum { DEVICES = 2 };

/* Which texts could be read while a change was under way, by kind. */
struct seen {
	bool old[LIMITS_KINDS], new[LIMITS_KINDS];
};

static struct {
	struct hami_region hami;
	struct ration_region own;
} * file;

static int make_file(void **state)
{
	(void)state;
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return file == MAP_FAILED ? -1 : 0;
}

static int drop_file(void **state)
{
	(void)state;
	return munmap(file, sizeof(*file));
}

/* Both kinds' limits, as `ration limit` changes them. */
static void change(const char *mem_spec, const char *sm_spec)
{
	spec_begin(&file->own, LIMITS_MEM);
	for (int d = 0; d < DEVICES; d++)
		region_set_limit(&file->hami, &file->own, d,
				 limits_for_device(LIMITS_MEM, mem_spec, d, "GPU-01234567"));
	spec_end(&file->own, LIMITS_MEM, mem_spec, "test");
	spec_begin(&file->own, LIMITS_SM);
	for (int d = 0; d < DEVICES; d++)
		region_set_sm_limit(&file->hami, &file->own, d,
				    limits_for_device(LIMITS_SM, sm_spec, d, "GPU-01234567"));
	spec_end(&file->own, LIMITS_SM, sm_spec, "test");
}

static void body(void)
{
	step_from_here();
	change(NEW_SPEC, NEW_SM);
}

/* Changes old limits to new ones, killed after `steps` instructions. False when it was over. */
static bool run_killed(long steps)
{
	pid_t pid;

	change(OLD_SPEC, OLD_SM);
	pid = step_start(body);
	for (long i = 0; i < steps && step_one(pid); i++)
		;
	return step_kill(pid);
}

static void is_one_of(uint64_t got, uint64_t old, uint64_t new)
{
	if (got != old && got != new)
		fail_msg("the limit is %llu", (unsigned long long)got);
}

/* One kind's text: the old, the new, or none for anybody. */
static void check_text(enum limits_kind kind, const char *old, const char *new, bool *has_old,
		       bool *has_new)
{
	const char *text = spec_text(&file->own, kind);
	char spec[RATION_SPEC_BYTES];
	uint32_t number;
	int rc = spec_read(&file->own, kind, spec, &number);

	if (rc < 0) {
		/* In the midst of it: who joins now must not take the text for a limit either. */
		assert_int_equal(rc, -EAGAIN);
		if (limits_check(kind, text, LIMITS_ZERO_IS_NONE, NULL) == 0)
			assert_true(!strcmp(text, old) || !strcmp(text, new));
		return;
	}
	*has_old |= !strcmp(spec, old);
	*has_new |= !strcmp(spec, new);
	if (strcmp(spec, old) != 0)
		assert_string_equal(spec, new);
}

static void check(struct seen *seen)
{
	is_one_of(region_limit(&file->hami, &file->own, 0), GIB_BYTES(1), GIB_BYTES(3));
	is_one_of(region_limit(&file->hami, &file->own, 1), GIB_BYTES(2), GIB_BYTES(3));
	is_one_of(region_sm_limit(&file->hami, &file->own, 0), 10, 30);
	is_one_of(region_sm_limit(&file->hami, &file->own, 1), 20, 30);
	check_text(LIMITS_MEM, OLD_SPEC, NEW_SPEC, &seen->old[LIMITS_MEM], &seen->new[LIMITS_MEM]);
	check_text(LIMITS_SM, OLD_SM, NEW_SM, &seen->old[LIMITS_SM], &seen->new[LIMITS_SM]);
}

/*
 * What a process leaves that is killed after any of its instructions: seen while it stands still.
 */
static void test_stopped_after_every_instruction(void **state)
{
	struct seen seen = { 0 };
	pid_t pid;

	(void)state;
	if (!step_is_possible()) {
		print_message("%s\n", STEP_REASON);
		skip();
	}
	change(OLD_SPEC, OLD_SM);
	pid = step_start(body);
	do
		check(&seen);
	while (step_one(pid));
	step_kill(pid);
	for (int kind = 0; kind < LIMITS_KINDS; kind++)
		assert_true(seen.old[kind] && seen.new[kind]);
}

static void test_the_next_change_after_a_kill(void **state)
{
	const long every = 331;
	char spec[RATION_SPEC_BYTES];
	uint32_t number;

	(void)state;
	if (!step_is_possible()) {
		print_message("%s\n", STEP_REASON);
		skip();
	}
	for (long steps = 0; run_killed(steps); steps += every) {
		change("5g", "50");
		assert_int_equal(spec_read(&file->own, LIMITS_MEM, spec, &number), 0);
		assert_string_equal(spec, "5g");
		assert_int_equal(spec_read(&file->own, LIMITS_SM, spec, &number), 0);
		assert_string_equal(spec, "50");
		assert_int_equal(region_limit(&file->hami, &file->own, 0), GIB_BYTES(5));
		assert_int_equal(region_sm_limit(&file->hami, &file->own, 0), 50);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stopped_after_every_instruction, make_file,
						drop_file),
		cmocka_unit_test_setup_teardown(test_the_next_change_after_a_kill, make_file,
						drop_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
