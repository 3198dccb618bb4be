/*
 * What a region file may hold already, and how it gets its space.
 */
#include "shm/region_file.h"

#include "base/units.h"
#include "mount.h"
#include "shm/spec.h"
#include "tenant.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

/* fallocate() of this program: refuses some times, as a signal or a file system does. */
static struct {
	int times, error;
	int calls;
} refusal;

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
	refusal.calls++;
	if (refusal.times > 0) {
		refusal.times--;
		errno = refusal.error;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

/* The clock of this program: it stands still, but for naps, while `is_fake`. */
static struct {
	bool is_fake;
	int64_t now_ns;
} fake_clock;

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!fake_clock.is_fake)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = fake_clock.now_ns / 1000000000;
	t->tv_nsec = fake_clock.now_ns % 1000000000;
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	if (!fake_clock.is_fake)
		return (int)syscall(SYS_nanosleep, t, left);
	fake_clock.now_ns += t->tv_sec * 1000000000 + t->tv_nsec;
	return 0;
}

static const struct region_setup plain = { .mem_spec = "1g", .mem_source = "test", .priority = 1 };
static const struct region_setup silent = { .priority = 1 };

static int open_region(struct region *r, const struct region_setup *setup, struct region_error *err)
{
	err->text[0] = '\0';
	return region_open(scratch_path("region"), setup, r, err);
}

/* Opens it and looks at what every region has. */
static void open_good(struct region *r, const struct region_setup *setup)
{
	struct region_error err;
	struct stat st;

	if (open_region(r, setup, &err) < 0)
		fail_msg("%s", err.text);
	region_settle(r);
	assert_int_equal(r->hami->magic, HAMI_MAGIC);
	assert_int_equal(r->hami->minor_version, HAMI_MINOR);
	assert_true(r->own->magic == RATION_MAGIC);
	assert_int_equal(r->own->layout, RATION_LAYOUT);
	assert_int_equal(stat(r->path, &st), 0);
	assert_true(st.st_size >= (off_t)RATION_FILE_BYTES);
	assert_true(st.st_blocks * 512 >= (off_t)RATION_FILE_BYTES);
}

static void test_open(void **state)
{
	struct region_error err;
	int fd = region_file_open(scratch_path("file"), &err), again;
	struct stat st;

	(void)state;
	assert_true(fd > 2);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
	again = region_file_open(scratch_path("file"), &err);
	assert_true(again > 2);
	assert_int_equal(fstat(again, &st), 0);
	assert_int_equal(st.st_size, 0);
	close(again);
	close(fd);
}

static void test_grow(void **state)
{
	int fd = open(scratch_file("file", "abc", 3), O_RDWR | O_CLOEXEC);
	struct region_error err;
	struct stat st;
	char text[4] = "";

	(void)state;
	assert_int_equal(region_file_grow(fd, "file", &err), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, RATION_FILE_BYTES);
	assert_int_equal(pread(fd, text, 4, 0), 4);
	assert_memory_equal(text, "abc\0", 4);
	/* Larger files keep their size. */
	assert_int_equal(ftruncate(fd, 10 * MIB), 0);
	assert_int_equal(region_file_grow(fd, "file", &err), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 10 * MIB);
	close(fd);
}

/* A file with holes would be a SIGBUS on a disk that fills up later. */
static void test_holes_are_filled(void **state)
{
	static const int errors[] = { 0, EOPNOTSUPP, ENOSYS, EINTR };
	struct region_error err;
	struct stat st;

	(void)state;
	for (int i = 0; i < 4; i++) {
		int fd = open(scratch_path("holes"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		char text[4] = "";

		assert_int_equal(ftruncate(fd, RATION_FILE_BYTES), 0);
		assert_int_equal(pwrite(fd, "xyz", 3, 3000000), 3);
		refusal.times = errors[i] ? 1000 : 0;
		refusal.error = errors[i];
		if (region_file_grow(fd, "holes", &err) < 0)
			fail_msg("%s", err.text);
		refusal.times = 0;
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, RATION_FILE_BYTES);
		assert_true(st.st_blocks * 512 >= (off_t)RATION_FILE_BYTES);
		assert_int_equal(pread(fd, text, 3, 3000000), 3);
		assert_string_equal(text, "xyz");
		close(fd);
	}
}

/* tmpfs ends the call for any signal, and a profiler sends them all the time. */
static void test_signals_while_space_is_reserved(void **state)
{
	struct region r;

	(void)state;
	refusal.times = 3;
	refusal.error = EINTR;
	refusal.calls = 0;
	open_good(&r, &plain);
	assert_int_equal(refusal.calls, 4);
	region_close(&r);
	/* Without end: space is had in another way, and this returns. */
	assert_int_equal(unlink(scratch_path("region")), 0);
	refusal.times = 100000000;
	open_good(&r, &plain);
	refusal.times = 0;
	region_close(&r);
}

static void test_other_refusals_are_told(void **state)
{
	struct region_error err;
	struct region r;

	(void)state;
	refusal.times = 1;
	refusal.error = EDQUOT;
	assert_int_equal(open_region(&r, &plain, &err), -EDQUOT);
	assert_says(err.text, "free some space");
	refusal.times = 1;
	refusal.error = EIO;
	assert_int_equal(open_region(&r, &plain, &err), -EIO);
	assert_says(err.text, scratch_path("region"));
	open_good(&r, &plain);
	region_close(&r);
}

/* A file as the versions of HAMi-core in the field left it: its size and its first words. */
struct foreign {
	const char *name;
	size_t bytes;
	uint32_t major, minor;
	bool keeps_monitors;
};

static const struct foreign foreigns[] = {
	{ "the first version 0", 804680 + 1, 0, 0, false },
	{ "version 0 of 2.4.0", 1197896 + 1, 0, 0, false },
	{ "1.1", 2008952 + 1, 1, 1, true },
	{ "1.1 with the semaphore in front", 2008984 + 1, 1, 1, false },
	{ "1.2", 2008952 + 1, 1, 2, true },
	{ "1.2 without the last byte", 2008952, 1, 2, true },
	{ "1.7", 2008952 + 1, 1, 7, true },
	{ "2.0", 3000000, 2, 0, false },
};

static void write_foreign(const struct foreign *f)
{
	struct hami_region *h = calloc(1, f->bytes + sizeof(*h));

	assert_non_null(h);
	h->magic = HAMI_MAGIC;
	h->major_version = f->major;
	h->minor_version = f->minor;
	h->device_num = 3;
	h->limit_bytes[0] = 5;
	memset(h->uuids, 'u', sizeof(h->uuids));
	memset(h->procs, 7, sizeof(h->procs));
	h->proc_num = 9;
	h->utilization_switch = 0;
	h->recent_kernel = -1;
	scratch_file("region", h, f->bytes);
	free(h);
}

static void test_regions_of_other_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(foreigns) / sizeof(*foreigns); i++) {
		struct region r;

		write_foreign(&foreigns[i]);
		open_good(&r, &plain);
		assert_int_equal(r.own->generation, 1);
		assert_string_equal(r.own->mem_spec, "1g");
		assert_int_equal(r.hami->device_num, 0);
		assert_int_equal(r.hami->proc_num, 0);
		assert_int_equal(r.hami->limit_bytes[0], 0);
		assert_int_equal(r.hami->uuids[0][0], 0);
		assert_int_equal(r.hami->procs[0].pid, 0);
		assert_int_equal(r.hami->procs[1023].used[15].total_bytes, 0);
		/* Where they are not the monitor's own words: limits on, nothing held. */
		if (r.hami->utilization_switch != (foreigns[i].keeps_monitors ? 0 : 1) ||
		    r.hami->recent_kernel != (foreigns[i].keeps_monitors ? -1 : 2))
			fail_msg("%s: switch %d, recent %d", foreigns[i].name,
				 r.hami->utilization_switch, r.hami->recent_kernel);
		region_close(&r);
		assert_int_equal(unlink(scratch_path("region")), 0);
	}
}

/* What another library's file limits is not lifted by who comes without a limit. */
static void test_limits_of_other_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(foreigns) / sizeof(*foreigns); i++) {
		struct region_error err;
		struct region r;

		write_foreign(&foreigns[i]);
		assert_int_equal(open_region(&r, &silent, &err), -EBADMSG);
		assert_says(err.text, "start it once with a limit");
		open_good(&r, &plain);
		region_close(&r);
		assert_int_equal(unlink(scratch_path("region")), 0);
	}
}

/* HAMi-core's file of layout 1.2 with these limits of device 2. */
static void write_hami(uint64_t limit_bytes, uint64_t sm_limit_pct)
{
	struct hami_region *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	h->magic = HAMI_MAGIC;
	h->major_version = 1;
	h->minor_version = 2;
	h->limit_bytes[2] = limit_bytes;
	for (int d = 0; d < HAMI_DEVICES; d++)
		h->sm_limit_pct[d] = d == 2 ? sm_limit_pct : 100;
	scratch_file("region", h, sizeof(*h));
	free(h);
}

static void test_limits_of_hami_core(void **state)
{
	static const struct region_setup both = { .mem_spec = "1g", .sm_spec = "50" };
	struct region_error err;
	struct region r;

	(void)state;
	for (uint64_t none = 0; none <= 150; none += none ? 50 : 100) {
		write_hami(0, none);
		open_good(&r, &silent);
		assert_string_equal(r.own->mem_spec, "");
		region_close(&r);
	}
	write_hami(5, 0);
	assert_int_equal(open_region(&r, &silent, &err), -EBADMSG);
	write_hami(0, 30);
	assert_int_equal(open_region(&r, &silent, &err), -EBADMSG);
	assert_int_equal(open_region(&r, &plain, &err), -EBADMSG);
	open_good(&r, &both);
	assert_string_equal(r.own->sm_spec, "50");
	region_close(&r);
}

static void test_short_by_one_byte(void **state)
{
	struct region r;

	(void)state;
	open_good(&r, &plain);
	region_close(&r);
	assert_int_equal(truncate(scratch_path("region"), RATION_FILE_BYTES - 1), 0);
	open_good(&r, &silent);
	assert_int_equal(r.own->generation, 2);
	assert_string_equal(r.own->mem_spec, "1g");
	region_close(&r);
	/* Down to the HAMi part, ours is gone. */
	assert_int_equal(truncate(scratch_path("region"), HAMI_REGION_BYTES), 0);
	open_good(&r, &plain);
	assert_int_equal(r.own->generation, 1);
	region_close(&r);
}

static void test_another_layout_of_ours(void **state)
{
	struct region r;

	(void)state;
	open_good(&r, &plain);
	r.own->layout = RATION_LAYOUT + 1;
	memset(r.own->reserved, 7, sizeof(r.own->reserved));
	r.own->spec_change = 7;
	r.hami->utilization_switch = 0;
	region_close(&r);
	open_good(&r, &plain);
	assert_int_equal(r.own->generation, 1);
	assert_int_equal(r.hami->utilization_switch, 0);
	assert_int_equal(r.own->suspend_want, RATION_RUN);
	for (size_t i = 0; i < sizeof(r.own->reserved) / sizeof(r.own->reserved[0]); i++)
		assert_int_equal(r.own->reserved[i], 0);
	/* The one change since. */
	assert_int_equal(r.own->spec_change, 2);
	region_close(&r);
}

/* The first layout: no limits of GPU time, and it ended behind the slots. */
static void make_first_layout(struct region *r)
{
	r->own->layout = 1;
	r->own->file_bytes = RATION_OFFSET + offsetof(struct ration_region, sm_spec);
	assert_int_equal(truncate(r->path, (off_t)r->own->file_bytes), 0);
}

static void test_an_older_layout_of_ours(void **state)
{
	struct region_setup setup = plain;
	struct region r;

	(void)state;
	setup.sm_spec = "30";
	open_good(&r, &setup);
	make_first_layout(&r);
	region_close(&r);
	open_good(&r, &setup);
	assert_int_equal(r.own->layout, RATION_LAYOUT);
	assert_int_equal(r.own->file_bytes, RATION_FILE_BYTES);
	assert_int_equal(r.own->generation, 2);
	assert_string_equal(r.own->sm_spec, "30");
	region_close(&r);
}

/* Who comes without a limit of his own has the one that the file was made with. */
static void test_an_older_layout_keeps_its_limit(void **state)
{
	struct region_setup setup = plain;
	struct region r;

	(void)state;
	setup.mem_spec = "3g";
	setup.name = "job";
	setup.flags = RATION_FLAG_CONTEXT_FREE;
	open_good(&r, &setup);
	make_first_layout(&r);
	r.hami->utilization_switch = 0;
	region_close(&r);
	open_good(&r, &silent);
	assert_int_equal(r.own->layout, RATION_LAYOUT);
	assert_string_equal(r.own->mem_spec, "3g");
	assert_string_equal(r.own->mem_source, setup.mem_source);
	assert_string_equal(r.own->name, "job");
	assert_int_equal(r.own->flags, RATION_FLAG_CONTEXT_FREE);
	assert_string_equal(r.own->sm_spec, "");
	assert_int_equal(r.hami->utilization_switch, 0);
	region_close(&r);
	/* And again, as an ordinary one. */
	open_good(&r, &silent);
	assert_string_equal(r.own->mem_spec, "3g");
	region_close(&r);
}

/* What limit another layout holds nobody can say, so it has to be given. */
static void test_another_layout_without_a_limit(void **state)
{
	struct region_error err;
	struct region r;

	(void)state;
	open_good(&r, &plain);
	r.own->layout = RATION_LAYOUT + 1;
	region_close(&r);
	assert_int_equal(open_region(&r, &silent, &err), -EBADMSG);
	assert_says(err.text, "is of another version");
	open_good(&r, &plain);
	region_close(&r);
}

static void body_member(void *arg)
{
	struct region r;
	struct slot slot;

	(void)arg;
	tenant_join(&r, &slot, scratch_path("region"));
	child_say('k');
	child_hear();
}

/* With a living process in it, what is not whole must not be made anew under its feet. */
static void test_broken_while_in_use(void **state)
{
	struct region_setup setup = plain;
	struct region_error err;
	struct region r, broken;
	struct child c;

	(void)state;
	open_good(&r, &plain);
	c = child_start(body_member, NULL);
	child_await(&c, 'k');
	for (int i = 0; i < 4; i++) {
		uint32_t layout = r.own->layout, file_bytes = r.own->file_bytes;

		if (i == 0)
			r.own->layout = RATION_LAYOUT + 1;
		else if (i == 1)
			r.hami->magic = 0;
		else if (i == 2)
			assert_int_equal(truncate(r.path, RATION_FILE_BYTES - 1), 0);
		else
			make_first_layout(&r);
		assert_int_equal(open_region(&broken, &plain, &err), -ESTALE);
		assert_says(err.text, scratch_path("region"));
		assert_says(err.text, "end its processes first");
		r.own->layout = layout;
		r.own->file_bytes = file_bytes;
		r.hami->magic = HAMI_MAGIC;
	}
	child_kill(&c);
	region_close(&r);
	/* What stood behind the slots is lost, so who comes next has to say it. */
	setup.sm_spec = "30";
	open_good(&r, &setup);
	region_close(&r);
}

static void body_foreign_process(void *arg)
{
	int fd = open(arg, O_RDWR | O_CLOEXEC);

	/* HAMi-core keeps the mapping alone: no lock, no descriptor. */
	CHECK(mmap(NULL, HAMI_REGION_BYTES, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	close(fd);
	child_say('k');
	child_hear();
}

/* Who has the file cannot start it anew with a limit: `ration limit` can. */
static void test_a_torn_limit_in_use(void **state)
{
	struct region_error err;
	struct region r, other;
	struct child c;

	(void)state;
	open_good(&r, &plain);
	c = child_start(body_member, NULL);
	child_await(&c, 'k');
	spec_begin(r.own, LIMITS_MEM);
	assert_int_equal(open_region(&other, &plain, &err), -EBADMSG);
	assert_says(err.text, "`ration limit`");
	child_kill(&c);
	assert_int_equal(open_region(&other, &silent, &err), -EBADMSG);
	assert_says(err.text, "start it once with a limit");
	region_close(&r);
}

static void test_a_process_of_another_library(void **state)
{
	char pid[32], path[512];
	struct region_error err;
	struct region r;
	struct child c;

	(void)state;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	write_foreign(&foreigns[4]);
	c = child_start(body_foreign_process, path);
	child_await(&c, 'k');
	snprintf(pid, sizeof(pid), "process %d ", (int)c.pid);
	assert_int_equal(open_region(&r, &plain, &err), -ESTALE);
	assert_says(err.text, pid);
	assert_says(err.text, "end it first");
	child_kill(&c);
	open_good(&r, &plain);
	region_close(&r);
}

/* Files of other file systems have the same inode numbers; they are no reason to refuse. */
static void body_same_inode_elsewhere(void *arg)
{
	char a[512], b[512];
	struct stat sta, stb;
	struct region_error err;
	struct region r;
	struct child c;

	(void)arg;
	mount_begin();
	mount_tmpfs(scratch_path("a"), "size=8m");
	mount_tmpfs(scratch_path("b"), "size=8m");
	write_foreign(&foreigns[4]);
	snprintf(a, sizeof(a), "%s", scratch_file("a/one", "", 0));
	snprintf(b, sizeof(b), "%s", scratch_file("b/two", "", 0));
	CHECK(stat(a, &sta) == 0 && stat(b, &stb) == 0);
	if (sta.st_ino != stb.st_ino)
		child_skip("the inode numbers differ here");
	CHECK(truncate(a, HAMI_REGION_BYTES) == 0 && truncate(b, HAMI_REGION_BYTES) == 0);
	for (int i = 0; i < 2; i++) {
		int32_t magic = HAMI_MAGIC;
		int fd = open(i ? b : a, O_WRONLY | O_CLOEXEC);

		CHECK(pwrite(fd, &magic, 4, 0) == 4);
		close(fd);
	}
	c = child_start(body_foreign_process, b);
	child_await(&c, 'k');
	CHECK(region_open(b, &plain, &r, &err) == -ESTALE);
	CHECK(region_open(a, &plain, &r, &err) == 0);
	child_kill(&c);
}

static void test_same_inode_elsewhere(void **state)
{
	(void)state;
	child_run(body_same_inode_elsewhere, NULL);
}

static void body_stuck_creator(void *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	CHECK(lockf(fd, F_TLOCK, HAMI_REGION_BYTES) == 0);
	child_say('k');
	child_hear();
}

/* A process of HAMi-core's that is stuck in its creation holds nobody up for ever. */
static void test_creation_lock_is_waited_for_with_an_end(void **state)
{
	struct region_error err;
	struct region r;
	struct child c;
	char path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	c = child_start(body_stuck_creator, path);
	child_await(&c, 'k');
	fake_clock.is_fake = true;
	assert_int_equal(open_region(&r, &plain, &err), -ETIMEDOUT);
	fake_clock.is_fake = false;
	assert_says(err.text, path);
	assert_says(err.text, "is locked by another process");
	assert_says(err.text, "choose another path");
	child_kill(&c);
	open_good(&r, &plain);
	region_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_open),
		scratch_test(test_grow),
		scratch_test(test_holes_are_filled),
		scratch_test(test_signals_while_space_is_reserved),
		scratch_test(test_other_refusals_are_told),
		scratch_test(test_regions_of_other_versions),
		scratch_test(test_limits_of_other_versions),
		scratch_test(test_limits_of_hami_core),
		scratch_test(test_short_by_one_byte),
		scratch_test(test_another_layout_of_ours),
		scratch_test(test_an_older_layout_of_ours),
		scratch_test(test_an_older_layout_keeps_its_limit),
		scratch_test(test_another_layout_without_a_limit),
		scratch_test(test_broken_while_in_use),
		scratch_test(test_a_torn_limit_in_use),
		scratch_test(test_a_process_of_another_library),
		scratch_test(test_same_inode_elsewhere),
		scratch_test(test_creation_lock_is_waited_for_with_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
