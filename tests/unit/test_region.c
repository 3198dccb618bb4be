#include "base/units.h"
#include "judge.h"
#include "tenant.h"

#include <sys/mman.h>

#define UUID(n) "GPU-0000000" #n "-2222-3333-4444-555555555555"

static const struct region_setup plain = { .priority = 1 };

static int open_with(struct region *r, const struct region_setup *setup, struct region_error *err)
{
	err->text[0] = '\0';
	return region_open(scratch_path("region"), setup, r, err);
}

/* Opens and settles; the test fails if that does. */
static void open_settled(struct region *r, const struct region_setup *setup)
{
	struct region_error err;

	if (open_with(r, setup, &err) < 0)
		fail_msg("%s", err.text);
	region_settle(r);
}

static void test_a_new_region(void **state)
{
	static const unsigned char semaphore[32] = { 1, 0, 0, 0, 0, 0, 0, 0, 128 };
	struct region_setup setup = { .name = "job",
				      .mem_spec = "1g",
				      .mem_source = "--mem",
				      .sm_spec = "30",
				      .sm_source = "--sm",
				      .sm_policy = SM_POLICY_FORCE,
				      .priority = 0,
				      .flags = RATION_FLAG_CONTEXT_FREE };
	struct stat st;
	struct region r;

	(void)state;
	open_settled(&r, &setup);
	assert_int_equal(stat(r.path, &st), 0);
	assert_int_equal(st.st_size, RATION_FILE_BYTES);
	assert_true(st.st_blocks * 512 >= st.st_size);
	assert_int_equal(st.st_mode & 07777, 0666);
	assert_int_equal(r.place.st_ino, st.st_ino);
	assert_int_equal(r.hami->magic, HAMI_MAGIC);
	assert_int_equal(r.hami->major_version, 1);
	assert_int_equal(r.hami->minor_version, 2);
	assert_int_equal(r.hami->priority, 0);
	assert_int_equal(r.hami->proc_num, 0);
	assert_int_equal(r.hami->device_num, 0);
	assert_int_equal(r.hami->utilization_switch, 1);
	assert_int_equal(r.hami->recent_kernel, 2);
	assert_memory_equal(r.hami->sem, semaphore, 32);
	assert_memory_equal(r.hami->sem_postinit, semaphore, 32);
	assert_true(r.own->magic == RATION_MAGIC);
	assert_int_equal(r.own->layout, RATION_LAYOUT);
	assert_int_equal(r.own->file_bytes, RATION_FILE_BYTES);
	assert_int_equal(r.own->generation, 1);
	assert_string_equal(r.own->name, "job");
	assert_string_equal(r.own->mem_spec, "1g");
	assert_string_equal(r.own->mem_source, "--mem");
	assert_string_equal(r.own->sm_spec, "30");
	assert_string_equal(r.own->sm_source, "--sm");
	assert_int_equal(r.own->sm_policy, SM_POLICY_FORCE);
	assert_int_equal(r.own->flags, RATION_FLAG_CONTEXT_FREE);
	region_close(&r);
	assert_judged(scratch_path("region"));
}

static void test_no_descriptor_stays(void **state)
{
	struct region r;
	int before = dup(0), after;

	(void)state;
	close(before);
	open_settled(&r, &plain);
	after = dup(0);
	assert_int_equal(after, before);
	close(after);
	region_settle(&r);
	region_close(&r);
	region_close(&r);
}

static void test_creation_lock(void **state)
{
	struct region_error err;
	struct region r;
	int fd;

	(void)state;
	assert_ok(open_with(&r, &plain, &err));
	assert_true(r.fd > 2);
	assert_int_equal(fcntl(r.fd, F_GETFD), FD_CLOEXEC);
	fd = open(r.path, O_RDWR | O_CLOEXEC);
	/* HAMi-core's own range and kind of lock. */
	assert_int_equal(lockf(fd, F_TLOCK, HAMI_REGION_BYTES), -1);
	region_settle(&r);
	assert_int_equal(lockf(fd, F_TLOCK, HAMI_REGION_BYTES), 0);
	close(fd);
	region_close(&r);
}

static void test_initialised_anew_when_all_are_dead(void **state)
{
	struct region_setup setup = {
		.name = "old", .mem_spec = "1g", .mem_source = "a", .priority = 1
	};
	struct region r;

	(void)state;
	open_settled(&r, &setup);
	assert_int_equal(region_add_device(&r, UUID(1), GIB), 0);
	r.own->slots[5].entry[0].after_bytes[0] = 77;
	r.own->slots[5].entry[0].seq = 4;
	r.own->accounts[0].total_bytes = 12345;
	r.own->hint[5] = 1;
	r.hami->procs[5].status = HAMI_RUNNING;
	r.hami->proc_num = 6;
	r.hami->owner_pid = 99;
	r.hami->utilization_switch = 0;
	r.hami->recent_kernel = -1;
	region_close(&r);

	setup.name = "new";
	setup.mem_spec = "2g";
	setup.mem_source = "b";
	open_settled(&r, &setup);
	assert_int_equal(r.own->generation, 2);
	assert_string_equal(r.own->name, "new");
	assert_string_equal(r.own->mem_spec, "2g");
	assert_string_equal(r.own->mem_source, "b");
	assert_int_equal(r.own->device_count, 0);
	assert_int_equal(r.own->devices[0].uuid[0], 0);
	assert_int_equal(r.own->accounts[0].total_bytes, 0);
	assert_int_equal(r.own->slots[5].entry[0].seq, 0);
	assert_int_equal(r.own->hint[5], 0);
	assert_int_equal(r.hami->procs[5].status, HAMI_FREE);
	assert_int_equal(r.hami->proc_num, 0);
	assert_int_equal(r.hami->device_num, 0);
	assert_int_equal(r.hami->uuids[0][0], 0);
	assert_int_equal(r.hami->limit_bytes[0], 0);
	assert_int_equal(r.hami->owner_pid, 0);
	/* These two are the monitor's. */
	assert_int_equal(r.hami->utilization_switch, 0);
	assert_int_equal(r.hami->recent_kernel, -1);
	region_close(&r);
	assert_judged(scratch_path("region"));
}

/* A process without a configuration of its own (env -i, an ssh session) keeps the tenant's. */
static void test_configuration_outlives_its_processes(void **state)
{
	struct region_setup setup = { .name = "job",
				      .mem_spec = "0:1g,1:2g",
				      .mem_source = "--mem",
				      .priority = 1,
				      .flags = RATION_FLAG_CONTEXT_FREE };
	struct region r;

	(void)state;
	open_settled(&r, &setup);
	region_close(&r);
	for (uint64_t generation = 2; generation < 5; generation++) {
		open_settled(&r, &plain);
		assert_int_equal(r.own->generation, generation);
		assert_string_equal(r.own->name, "job");
		assert_string_equal(r.own->mem_spec, "0:1g,1:2g");
		assert_string_equal(r.own->mem_source, "--mem");
		assert_int_equal(r.own->flags, RATION_FLAG_CONTEXT_FREE);
		assert_int_equal(region_add_device(&r, UUID(1), 8 * GIB), 0);
		assert_int_equal(region_limit(r.hami, r.own, 0), GIB);
		region_close(&r);
	}
	setup.mem_spec = "3g";
	setup.flags = 0;
	open_settled(&r, &setup);
	assert_string_equal(r.own->mem_spec, "3g");
	assert_int_equal(r.own->flags, 0);
	region_close(&r);
}

static void test_long_texts_are_cut(void **state)
{
	char name[200];
	struct region_setup setup = {
		.name = name, .mem_spec = "1g", .mem_source = name, .priority = 7
	};
	struct region r;

	(void)state;
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	open_settled(&r, &setup);
	assert_int_equal(strlen(r.own->name), RATION_NAME_BYTES - 1);
	assert_int_equal(strlen(r.own->mem_source), RATION_SOURCE_BYTES - 1);
	assert_int_equal(r.hami->priority, 1);
	region_close(&r);
	assert_judged(scratch_path("region"));
}

/* A limit that is stored and cannot be understood is no "no limit". */
static void test_stored_limits_that_make_no_sense(void **state)
{
	static const char *const specs[] = { "4x", "\1g", "0:1g,", "1g,1g" };
	struct region_setup setup = { .mem_spec = "1g", .mem_source = "x", .priority = 1 };
	struct region_error err;
	struct region r;

	(void)state;
	for (int i = 0; i < 5; i++) {
		open_settled(&r, &setup);
		if (i < 4)
			strcpy(r.own->mem_spec, specs[i]);
		else
			memset(r.own->mem_spec, '1', RATION_SPEC_BYTES);
		region_close(&r);
		assert_int_equal(open_with(&r, &plain, &err), -EBADMSG);
		assert_says(err.text, scratch_path("region"));
		assert_says(err.text, "limit");
		/* One that brings limits of its own puts it right. */
	}
	open_settled(&r, &setup);
	assert_string_equal(r.own->mem_spec, "1g");
	region_close(&r);
}

/* Each kind's limits by themselves: who brings some of one keeps the file's of the other. */
static void test_limits_that_nobody_speaks_of(void **state)
{
	struct region_setup setup = { .mem_spec = "1g", .mem_source = "x", .priority = 1 };
	struct region_error err;
	struct region r;

	(void)state;
	setup.sm_spec = "30";
	setup.sm_source = "x";
	setup.sm_policy = SM_POLICY_FORCE;
	open_settled(&r, &setup);
	region_close(&r);
	setup.sm_spec = NULL;
	setup.sm_policy = SM_POLICY_DISABLE;
	setup.mem_spec = "2g";
	open_settled(&r, &setup);
	assert_string_equal(r.own->mem_spec, "2g");
	assert_string_equal(r.own->sm_spec, "30");
	assert_string_equal(r.own->sm_source, "x");
	assert_int_equal(r.own->sm_policy, SM_POLICY_FORCE);
	strcpy(r.own->sm_spec, "4x");
	region_close(&r);
	assert_int_equal(open_with(&r, &setup, &err), -EBADMSG);
	setup.sm_spec = "50";
	setup.mem_spec = NULL;
	open_settled(&r, &setup);
	assert_string_equal(r.own->mem_spec, "2g");
	assert_string_equal(r.own->sm_spec, "50");
	assert_int_equal(r.own->sm_policy, SM_POLICY_DISABLE);
	/*
	 * Cut short and made long again by somebody: what it said is lost, and that is no "no
	 * limit".
	 */
	assert_int_equal(truncate(r.path,
				  RATION_OFFSET + (off_t)offsetof(struct ration_region, sm_spec)),
			 0);
	region_close(&r);
	setup.sm_spec = NULL;
	assert_int_equal(open_with(&r, &setup, &err), -EBADMSG);
	setup.sm_spec = "50";
	open_settled(&r, &setup);
	assert_string_equal(r.own->mem_spec, "2g");
	region_close(&r);
}

static void body_member(void *arg)
{
	struct region r;
	struct slot slot;

	(void)arg;
	tenant_join(&r, &slot, scratch_path("region"));
	child_say((char)('0' + slot.index));
	child_hear();
}

static void test_a_living_tenant_stays_as_it_is(void **state)
{
	struct region_setup setup = {
		.name = "job", .mem_spec = "1g", .mem_source = "x", .priority = 1
	};
	struct region_setup other = {
		.name = "else", .mem_spec = "9g", .mem_source = "y", .priority = 0
	};
	struct region_error err;
	struct region r;
	struct child c;

	(void)state;
	open_settled(&r, &setup);
	region_close(&r);
	c = child_start(body_member, NULL);
	child_await(&c, '0');
	open_settled(&r, &other);
	assert_int_equal(r.own->generation, 2);
	assert_string_equal(r.own->name, "job");
	assert_string_equal(r.own->mem_spec, "1g");
	assert_int_equal(r.hami->priority, 1);
	region_close(&r);

	other.must_be_new = true;
	assert_int_equal(open_with(&r, &other, &err), -EBUSY);
	assert_says(err.text, scratch_path("region"));
	assert_says(err.text, "another name");
	child_kill(&c);
	assert_ok(open_with(&r, &other, &err));
	region_settle(&r);
	assert_string_equal(r.own->mem_spec, "9g");
	region_close(&r);
}

static void body_keeper(void *arg)
{
	struct region_error err;
	struct region r;
	struct slot slot;

	(void)arg;
	CHECK(open_with(&r, &plain, &err) == 0);
	CHECK(slot_keep(&r, &slot) == 0);
	region_settle(&r);
	child_say('k');
	child_hear();
}

static void test_a_keeper_keeps_it(void **state)
{
	struct region_setup must = { .must_be_new = true };
	struct child c = child_start(body_keeper, NULL);
	struct region_error err;
	struct region r;

	(void)state;
	child_await(&c, 'k');
	assert_int_equal(open_with(&r, &must, &err), -EBUSY);
	open_settled(&r, &plain);
	assert_int_equal(r.own->generation, 1);
	region_close(&r);
	child_kill(&c);
	open_settled(&r, &plain);
	assert_int_equal(r.own->generation, 2);
	region_close(&r);
}

enum { CREATORS = 24 };

static void body_creator(void *arg)
{
	struct region r;
	struct slot slot;
	char c = 0;

	(void)arg;
	child_hear();
	tenant_join(&r, &slot, scratch_path("region"));
	CHECK(r.hami->magic == HAMI_MAGIC);
	CHECK(r.own->magic == RATION_MAGIC && r.own->layout == RATION_LAYOUT);
	CHECK(r.own->generation == 1);
	CHECK(r.own->device_count == 1 && r.hami->device_num == 1);
	CHECK(slot.index < CREATORS);
	c = (char)('A' + slot.index);
	child_say(c);
	child_hear();
	CHECK(r.own->generation == 1);
}

static void test_many_creators_make_one_region(void **state)
{
	struct child c[CREATORS];
	bool seen[CREATORS] = { false };
	struct region r;

	(void)state;
	for (int i = 0; i < CREATORS; i++)
		c[i] = child_start(body_creator, NULL);
	for (int i = 0; i < CREATORS; i++)
		child_tell(&c[i], 'x');
	for (int i = 0; i < CREATORS; i++) {
		int slot = child_word(&c[i]) - 'A';

		assert_in_range(slot, 0, CREATORS - 1);
		assert_false(seen[slot]);
		seen[slot] = true;
	}
	open_settled(&r, &plain);
	assert_int_equal(r.own->generation, 1);
	assert_int_equal(r.hami->proc_num, CREATORS);
	region_close(&r);
	assert_judged(scratch_path("region"));
	for (int i = 0; i < CREATORS; i++) {
		child_tell(&c[i], 'x');
		child_end(&c[i]);
	}
}

static void test_reopen(void **state)
{
	struct region r;
	int fd;

	(void)state;
	open_settled(&r, &plain);
	fd = region_reopen(&r);
	assert_true(fd > 2);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	/* Another file of that name is not the region. */
	assert_int_equal(unlink(r.path), 0);
	assert_int_equal(region_reopen(&r), -ENOENT);
	scratch_file("region", "", 0);
	fd = dup(0);
	close(fd);
	assert_int_equal(region_reopen(&r), -ESTALE);
	assert_int_equal(dup(0), fd);
	close(fd);
	region_close(&r);
}

static void body_no_inheritance(void *arg)
{
	struct region r;
	unsigned char vec;

	tenant_open(&r, arg, NULL);
	if (fork() == 0) {
		/* ENOMEM: the child has no such page. */
		CHECK(mincore(r.hami, 4096, &vec) < 0 && errno == ENOMEM);
		_exit(0);
	} else {
		int status;

		CHECK(wait(&status) > 0 && status == 0);
	}
}

static void test_no_fork_child_has_the_mapping(void **state)
{
	char path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	child_run(body_no_inheritance, path);
}

/* The judge must find each of these. */
static void test_the_judge_judges(void **state)
{
	static const struct {
		size_t at;
		uint64_t value;
		size_t bytes;
	} faults[] = {
		{ offsetof(struct hami_region, magic), 0, 4 },
		{ offsetof(struct hami_region, major_version), 2, 4 },
		{ offsetof(struct hami_region, minor_version), 1, 4 },
		{ offsetof(struct hami_region, device_num), 17, 8 },
		{ offsetof(struct hami_region, device_num), 2, 8 },
		{ offsetof(struct hami_region, uuids[0][39]), 0, 1 },
		{ offsetof(struct hami_region, uuids[0][95]), 1, 1 },
		{ offsetof(struct hami_region, uuids[1][0]), 'G', 1 },
		{ offsetof(struct hami_region, proc_num), 1025, 4 },
		{ offsetof(struct hami_region, proc_num), UINT32_MAX, 4 },
		{ offsetof(struct hami_region, priority), 2, 4 },
		{ offsetof(struct hami_region, utilization_switch), 2, 4 },
		{ offsetof(struct hami_region, recent_kernel), 3, 4 },
		{ offsetof(struct hami_region, sem), 0, 1 },
		{ offsetof(struct hami_region, procs[0].status), 3, 4 },
		{ offsetof(struct hami_region, procs[0].status), 1, 4 },
		{ offsetof(struct hami_region, procs[1023].status), 1, 4 },
		{ offsetof(struct hami_region, procs[0].pid), 1, 4 },
		{ offsetof(struct hami_region, procs[3].used[15].total_bytes), 1, 8 },
		{ offsetof(struct hami_region, procs[3].used[0].data_bytes), 1, 8 },
		{ offsetof(struct hami_region, procs[3].util[0].sm_pct), 1, 8 },
	};
	struct region r;
	const char *path = scratch_path("region");

	(void)state;
	open_settled(&r, &plain);
	region_add_device(&r, UUID(0), GIB);
	assert_judged(path);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		unsigned char saved[8], *at = (unsigned char *)r.hami + faults[i].at;

		memcpy(saved, at, 8);
		memcpy(at, &faults[i].value, faults[i].bytes);
		if (judge(path) != 1)
			fail_msg("byte %zu was not found", faults[i].at);
		memcpy(at, saved, 8);
	}
	region_close(&r);
	assert_int_equal(truncate(path, HAMI_REGION_BYTES - 1), 0);
	assert_int_equal(judge(path), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_a_new_region),
		scratch_test(test_no_descriptor_stays),
		scratch_test(test_creation_lock),
		scratch_test(test_initialised_anew_when_all_are_dead),
		scratch_test(test_configuration_outlives_its_processes),
		scratch_test(test_long_texts_are_cut),
		scratch_test(test_stored_limits_that_make_no_sense),
		scratch_test(test_limits_that_nobody_speaks_of),
		scratch_test(test_a_living_tenant_stays_as_it_is),
		scratch_test(test_a_keeper_keeps_it),
		scratch_test(test_many_creators_make_one_region),
		scratch_test(test_reopen),
		scratch_test(test_no_fork_child_has_the_mapping),
		scratch_test(test_the_judge_judges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
