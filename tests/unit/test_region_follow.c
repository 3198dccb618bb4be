/*
 * A region whose file is initialised anew under a process that only looks.
 */
#include "mount.h"
#include "tenant.h"

static void test_one_that_stays(void **state)
{
	struct region r;

	(void)state;
	tenant_open(&r, scratch_path("region"), "1g");
	assert_int_equal(region_follow(&r), 0);
	assert_int_equal(region_check(&r), 0);
	region_close(&r);
}

/* Nobody had a slot, so the next process begins anew: that is the region then. */
static void test_one_that_is_initialised_anew(void **state)
{
	struct region r, other;

	(void)state;
	tenant_open(&r, scratch_path("region"), "1g");
	tenant_open(&other, scratch_path("region"), "2g");
	assert_int_equal(region_check(&r), -ESTALE);
	assert_int_equal(region_follow(&r), 0);
	assert_int_equal(region_check(&r), 0);
	assert_string_equal(r.own->mem_spec, "2g");
	region_close(&other);
	region_close(&r);
}

/* The devices are entered before the creation lock is given up: it is waited for. */
static void test_one_that_is_being_initialised(void **state)
{
	struct region_setup setup = { .mem_spec = "2g", .mem_source = "test", .priority = 1 };
	const char *path = scratch_path("region");
	struct region r, other;
	struct region_error err;
	int pipes[2], status;
	char c = 0;
	pid_t pid;

	(void)state;
	tenant_open(&r, path, "1g");
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		CHECK(region_open(path, &setup, &other, &err) == 0);
		CHECK(write(pipes[1], "x", 1) == 1);
		usleep(50000);
		CHECK(region_add_device(&other, TENANT_UUID, 0) == 0);
		region_settle(&other);
		_exit(0);
	}
	assert_int_equal(read(pipes[0], &c, 1), 1);
	assert_int_equal(region_follow(&r), 0);
	assert_int_equal(region_find_device(r.own, TENANT_UUID), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pipes[0]);
	close(pipes[1]);
	region_close(&r);
}

static void test_one_that_is_cut_short(void **state)
{
	const char *path = scratch_path("region");
	struct region r;

	(void)state;
	tenant_open(&r, path, "1g");
	assert_int_equal(truncate(path, 4096), 0);
	assert_int_equal(region_follow(&r), -ESTALE);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(region_follow(&r), -ESTALE);
	region_close(&r);
}

/* Zeros are no region, and neither is another file at the path. */
static void test_one_that_is_no_region_any_more(void **state)
{
	const char *path = scratch_path("region");
	struct region r, other;

	(void)state;
	tenant_open(&r, path, "1g");
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(truncate(path, RATION_FILE_BYTES), 0);
	assert_int_equal(region_follow(&r), -ESTALE);
	region_close(&r);
	assert_int_equal(unlink(path), 0);
	tenant_open(&r, path, "1g");
	r.generation++;
	assert_int_equal(rename(path, scratch_path("moved")), 0);
	tenant_open(&other, path, "2g");
	assert_int_equal(region_follow(&r), -ESTALE);
	region_close(&other);
	region_close(&r);
}

/* Who comes next makes another region: the limit would be there twice. */
static void test_a_path_that_leads_elsewhere(void **state)
{
	const char *path = scratch_path("region");
	struct region r, other;
	char moved[512];

	(void)state;
	tenant_open(&r, path, "1g");
	assert_int_equal(region_check_path(&r), 0);
	snprintf(moved, sizeof(moved), "%s.moved", path);
	assert_int_equal(rename(path, moved), 0);
	/* As in another root, where our path leads nowhere: it does not tell. */
	assert_int_equal(region_check_path(&r), -ENOENT);
	tenant_open(&other, path, "1g");
	assert_int_equal(region_check_path(&r), -ESTALE);
	assert_int_equal(region_check_path(&other), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(region_check_path(&other), -ESTALE);
	assert_int_equal(rename(moved, path), 0);
	assert_int_equal(region_check_path(&r), 0);
	region_close(&other);
	region_close(&r);
}

static void body_hidden(void *arg)
{
	const char *path = scratch_path("at/region");
	struct region r, other;

	(void)arg;
	CHECK(mkdir(scratch_path("at"), 0755) == 0);
	tenant_open(&r, path, "1g");
	CHECK(region_check_path(&r) == 0 && region_place_is(&r.place, path));
	mount_begin();
	/* The same file, from where we have gone. */
	CHECK(region_check_path(&r) == 0 && region_place_is(&r.place, path));
	mount_tmpfs(scratch_path("at"), "size=8m");
	CHECK(region_check_path(&r) == -ENOENT && !region_place_is(&r.place, path));
	tenant_open(&other, path, "1g");
	CHECK(region_check_path(&r) == -ENOENT && !region_place_is(&r.place, path));
}

/* Nobody has replaced it: another file lies over it for us alone. */
static void test_a_path_that_is_covered(void **state)
{
	(void)state;
	child_run(body_hidden, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_one_that_stays),
		scratch_test(test_one_that_is_initialised_anew),
		scratch_test(test_one_that_is_being_initialised),
		scratch_test(test_one_that_is_cut_short),
		scratch_test(test_one_that_is_no_region_any_more),
		scratch_test(test_a_path_that_leads_elsewhere),
		scratch_test(test_a_path_that_is_covered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
