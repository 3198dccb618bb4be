/*
 * A process is killed wherever it has changed something in the region: while it creates it, makes
 * it anew, enters a device, takes a slot, reaps another. Whoever comes next must be able to go on,
 * with no limit, byte or slot lost.
 */
#include "base/units.h"
#include "refuse.h"
#include "shm/account.h"
#include "step_way.h"
#include "tenant.h"

static char path[512], copy_path[512];

static struct region_setup setup_1g = {
	.name = "a",
	.mem_spec = "1g",
	.mem_source = "x",
	.sm_spec = "30",
	.sm_source = "x",
	.priority = 1,
};
static struct region_setup setup_2g = {
	.name = "b",
	.mem_spec = "2g,1:5g",
	.mem_source = "y",
	.sm_spec = "50,1:60",
	.sm_source = "y",
	.sm_policy = SM_POLICY_FORCE,
	.priority = 1,
};
static struct region_setup silent = { .priority = 1 };
static const struct region_setup *child_setup;

static int make(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	snprintf(copy_path, sizeof(copy_path), "%s", scratch_path("copy"));
	return 0;
}

/* The pages of a region file in which it is said what it is; the rest tells nothing of it. */
static const off_t page_at[] = {
	0,
	HAMI_REGION_BYTES / 4096 * 4096,
	RATION_OFFSET,
	(RATION_OFFSET + offsetof(struct ration_region, sm_spec)) / 4096 * 4096,
};

enum { PAGES = sizeof(page_at) / sizeof(*page_at), CHANGES_MAX = 1000 };

_Static_assert(offsetof(struct ration_region, sm_spec) / 4096 ==
		       (offsetof(struct ration_region, sm_change) + 3) / 4096,
	       "what is said of GPU time is in more pages than one");

struct snapshot {
	off_t size;
	unsigned char pages[PAGES][4096];
};

/* The file's pages as they are now; those behind its end may not be touched. */
static const unsigned char *now_at[PAGES];

static void map_pages(int fd)
{
	for (int i = 0; i < PAGES; i++) {
		now_at[i] = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, page_at[i]);
		assert_true(now_at[i] != MAP_FAILED);
	}
}

static void unmap_pages(void)
{
	for (int i = 0; i < PAGES; i++)
		munmap((void *)now_at[i], 4096);
}

static bool is_changed(int fd, const struct snapshot *last)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	if (st.st_size != last->size)
		return true;
	for (int i = 0; i < PAGES; i++)
		if (page_at[i] < st.st_size && memcmp(now_at[i], last->pages[i], 4096) != 0)
			return true;
	return false;
}

static void look(int fd, struct snapshot *s)
{
	struct stat st;

	memset(s, 0, sizeof(*s));
	assert_int_equal(fstat(fd, &st), 0);
	s->size = st.st_size;
	for (int i = 0; i < PAGES; i++)
		assert_true(pread(fd, s->pages[i], 4096, page_at[i]) >= 0);
}

/* The file as the killed process left it. */
static void write_copy(const struct snapshot *s)
{
	int fd = open(copy_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, s->size), 0);
	for (int i = 0; i < PAGES; i++)
		if (page_at[i] < s->size)
			assert_int_equal(pwrite(fd, s->pages[i], 4096, page_at[i]), 4096);
	assert_int_equal(ftruncate(fd, s->size), 0);
	close(fd);
}

/* The next process, with limits of its own, gets a whole region that has them. */
static void next_with_limits(void)
{
	struct region_error err;
	struct region r;

	if (region_open(copy_path, &setup_2g, &r, &err) < 0)
		fail_msg("%s", err.text);
	region_settle(&r);
	assert_int_equal(r.hami->magic, HAMI_MAGIC);
	assert_int_equal(r.hami->minor_version, HAMI_MINOR);
	assert_int_equal(r.own->layout, RATION_LAYOUT);
	assert_true(r.own->generation >= 1);
	assert_string_equal(r.own->mem_spec, "2g,1:5g");
	assert_string_equal(r.own->sm_spec, "50,1:60");
	assert_int_equal(r.own->sm_policy, SM_POLICY_FORCE);
	assert_int_equal(r.own->flags, 0);
	region_close(&r);
}

static void is_one_of(const char *spec, const char *was, const char *will)
{
	if (strcmp(spec, was) != 0 && strcmp(spec, will) != 0)
		fail_msg("the limit became '%s'", spec);
}

/* What a setup asks for, or what there was before. */
static const char *spec_or(const char *spec, const char *was)
{
	return spec ? spec : was;
}

/*
 * The next process, without any, gets the limits that there were or those that were meant, or is
 * told that they are lost.
 */
static void next_without(const struct region_setup *was, const struct region_setup *will)
{
	struct region_error err;
	struct region r;
	int rc = region_open(copy_path, &silent, &r, &err);

	if (rc == -EBADMSG)
		return;
	if (rc < 0)
		fail_msg("%s", err.text);
	region_settle(&r);
	is_one_of(r.own->mem_spec, was->mem_spec, spec_or(will->mem_spec, was->mem_spec));
	is_one_of(r.own->sm_spec, was->sm_spec, spec_or(will->sm_spec, was->sm_spec));
	region_close(&r);
}

static void body_open(void)
{
	struct region_error err;
	struct region r;

	/* The walk through /proc changes nothing, and would be a million steps. */
	refuse_call(SYS_getdents64, REFUSE_ANY, 0, ENOSYS);
	step_from_here();
	if (region_open(path, child_setup, &r, &err) == 0)
		region_settle(&r);
}

/* Follows the child through region_open() and tries every state that the file is in meanwhile. */
static void kill_opener(const struct region_setup *setup, const struct region_setup *was)
{
	struct snapshot now, last;
	int fd, states = 0;
	pid_t pid;

	child_setup = setup;
	pid = step_start(body_open);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	memset(&last, 0xff, sizeof(last));
	if (fd >= 0)
		map_pages(fd);
	while (step_one_whole(pid)) {
		if (fd < 0) {
			fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd >= 0)
				map_pages(fd);
		}
		if (fd < 0 || !is_changed(fd, &last))
			continue;
		look(fd, &now);
		last = now;
		states++;
		write_copy(&now);
		next_with_limits();
		/* A region that was never whole has limits only from its creator. */
		if (was) {
			write_copy(&now);
			next_without(was, setup);
		}
	}
	step_kill(pid);
	unmap_pages();
	close(fd);
	print_message("%d states\n", states);
	assert_true(states > 10);
	/* In the end it is whole, and holds for those who say nothing. */
	write_copy(&last);
	next_without(setup->mem_spec ? setup : was, setup);
}

static void test_creator_killed(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	kill_opener(&setup_1g, NULL);
}

static void open_once(const struct region_setup *setup)
{
	struct region_error err;
	struct region r;

	if (region_open(path, setup, &r, &err) < 0)
		fail_msg("%s", err.text);
	region_add_device(&r, TENANT_UUID, GIB);
	region_settle(&r);
	region_close(&r);
}

static void test_killed_while_it_makes_it_anew(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	open_once(&setup_1g);
	kill_opener(&setup_2g, &setup_1g);
}

static void test_killed_while_it_keeps_the_limits(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	open_once(&setup_1g);
	kill_opener(&silent, &setup_1g);
}

static void test_killed_while_it_takes_over_from_hami_core(void **state)
{
	struct hami_region *h;

	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	h = calloc(1, HAMI_REGION_BYTES + 1);
	assert_non_null(h);
	h->magic = HAMI_MAGIC;
	h->major_version = 1;
	h->minor_version = 2;
	h->proc_num = 1;
	h->procs[0].pid = 1;
	scratch_file("region", h, HAMI_REGION_BYTES + 1);
	free(h);
	kill_opener(&setup_1g, NULL);
}

/* The parts of the region that a process changes when it joins, as slot 1, and works. */
struct part {
	struct hami_slot hami;
	struct ration_slot own;
	struct ration_account account;
	struct ration_device device;
	uint64_t device_num;
	uint32_t device_count;
	int32_t proc_num;
	uint8_t hint;
};

static void look_at_part(const struct region *r, struct part *p)
{
	memset(p, 0, sizeof(*p));
	p->hami = r->hami->procs[1];
	p->own = r->own->slots[1];
	p->account = r->own->accounts[0];
	p->device = r->own->devices[0];
	p->device_num = r->hami->device_num;
	p->device_count = r->own->device_count;
	p->proc_num = r->hami->proc_num;
	p->hint = r->own->hint[1];
}

static void join(struct region *r, struct slot *slot, bool step_all)
{
	struct region_error err;

	if (region_open(path, &silent, r, &err) < 0)
		_exit(1);
	if (step_all)
		step_from_here();
	region_add_device(r, TENANT_UUID, 16 * GIB);
	if (slot_claim(r, slot) < 0 || slot->index != 1)
		_exit(2);
	region_settle(r);
}

/* Joins and works. */
static void body_join(void)
{
	struct account_holder h;
	struct region r;
	struct slot slot;

	join(&r, &slot, true);
	account_settle(&h, r.own, slot.index, 0);
	account_add(&h, 300, 0);
	r.hami->procs[1].used[0].total_bytes = 300;
	r.hami->procs[1].used[0].data_bytes = 300;
	account_sub(&h, 100);
}

/* Takes from slot 1 what its dead owner left. */
static void body_reap(void)
{
	struct region_error err;
	struct region r;

	if (region_open(path, &silent, &r, &err) < 0)
		_exit(1);
	region_settle(&r);
	step_from_here();
	slot_reap(&r, -1);
}

static void leave_dead_slot(void *arg)
{
	struct account_holder h;
	struct region r;
	struct slot slot;

	(void)arg;
	join(&r, &slot, false);
	account_settle(&h, r.own, slot.index, 0);
	CHECK(account_add(&h, 500, 0) == 0);
	r.hami->procs[1].used[0].total_bytes = 500;
	r.hami->procs[1].used[0].data_bytes = 500;
}

/* After the death of whoever had slot 1, one reap makes all of it nothing. */
static void check_after_death(struct region *r, int changes)
{
	static const struct hami_used no_bytes[HAMI_DEVICES];
	const struct hami_slot *s = &r->hami->procs[1];
	struct account_holder h;
	int d;

	assert_true(slot_reap(r, 0) >= 0);
	account_settle(&h, r->own, 1, 0);
	if (r->own->accounts[0].total_bytes || h.bytes || s->pid || s->status || r->own->hint[1] ||
	    memcmp(s->used, no_bytes, sizeof(no_bytes)) != 0)
		fail_msg("killed after change %d: total %lu, slot %lu, pid %d, status %d, hint %d",
			 changes, (unsigned long)r->own->accounts[0].total_bytes,
			 (unsigned long)h.bytes, s->pid, s->status, r->own->hint[1]);
	assert_in_range(r->hami->proc_num, 1, 2);
	/* The next process enters the same device and finds it in order. */
	d = region_add_device(r, TENANT_UUID, 16 * GIB);
	assert_int_equal(d, 0);
	assert_int_equal(r->own->device_count, 1);
	assert_int_equal(r->hami->device_num, 1);
	assert_string_equal(r->hami->uuids[0], TENANT_UUID);
	assert_int_equal(r->own->devices[0].physical_bytes, 16 * GIB);
	assert_int_equal(region_limit(r->hami, r->own, 0), GIB);
}

/* Opens a region for the test's own process, which holds slot 0 of it. */
static void hold_slot_0(struct region *r, struct slot *slot)
{
	struct region_error err;

	unlink(path);
	if (region_open(path, &setup_1g, r, &err) < 0)
		fail_msg("%s", err.text);
	assert_ok(slot_claim(r, slot));
	region_settle(r);
	assert_int_equal(slot->index, 0);
}

static void let_go(struct region *r, struct slot *slot)
{
	region_close(r);
	if (slot->keep)
		munmap(slot->keep, (size_t)sysconf(_SC_PAGESIZE));
	else
		close(slot->fd);
}

struct walked {
	struct step_way way;
	long changes[CHANGES_MAX]; /* places of the way behind a change; the first is its begin */
	int change_count;
};

/* To the body's end, where it is killed. */
static void walk(struct walked *w, const struct region *r, void (*body)(void))
{
	pid_t pid = step_start(body);
	struct part now, last;

	step_way_begin(&w->way);
	w->change_count = 0;
	w->changes[w->change_count++] = 0;
	look_at_part(r, &last);
	step_way_note(&w->way, pid);
	while (step_one_whole(pid)) {
		look_at_part(r, &now);
		assert_true(w->change_count < CHANGES_MAX);
		if (memcmp(&now, &last, sizeof(now)) != 0)
			w->changes[w->change_count++] = w->way.count;
		last = now;
		step_way_note(&w->way, pid);
	}
	step_kill(pid);
}

/* Kills the body after each of its changes of the region, first behind its end. */
static void kill_at_every_change(void (*body)(void), bool with_dead_slot)
{
	static struct walked walked;
	int kills = 0;

	for (int n = -1; n < 0 || n < walked.change_count; n++) {
		struct region r;
		struct slot slot;
		pid_t pid;

		hold_slot_0(&r, &slot);
		if (with_dead_slot)
			child_run(leave_dead_slot, NULL);
		if (n < 0) {
			walk(&walked, &r, body);
		} else {
			pid = step_start(body);
			step_way_go(&walked.way, pid, walked.changes[n]);
			kills += step_kill(pid);
		}
		check_after_death(&r, n);
		let_go(&r, &slot);
	}
	print_message("%ld instructions, %d changes, %d kills\n", walked.way.count,
		      walked.change_count, kills);
	assert_true(kills > 7);
}

static void test_joiner_killed(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	kill_at_every_change(body_join, false);
}

static void test_reaper_killed(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	kill_at_every_change(body_reap, true);
}

#define killed_test(f) cmocka_unit_test_setup_teardown(f, make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		killed_test(test_creator_killed),
		killed_test(test_killed_while_it_makes_it_anew),
		killed_test(test_killed_while_it_keeps_the_limits),
		killed_test(test_killed_while_it_takes_over_from_hami_core),
		killed_test(test_joiner_killed),
		killed_test(test_reaper_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
