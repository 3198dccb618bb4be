#include "core/share.h"

#include "base/clock.h"
#include "member.h"
#include "shm/spec.h"

/* In a child: a tenant of two devices with these limits of GPU time, and the share started. */
static void join(struct member *m, const char *spec, enum sm_policy policy)
{
	struct region_setup setup = { .sm_spec = spec, .sm_source = "test", .sm_policy = policy };
	struct region_error err;

	CHECK(region_open(scratch_path("region"), &setup, &m->region, &err) == 0);
	for (int d = 0; d < 2; d++)
		CHECK(region_add_device(&m->region, member_uuid(d), UINT64_C(16) << 30) == d);
	CHECK(slot_claim(&m->region, &m->slot) == 0);
	region_settle(&m->region);
	quota_init(&m->region, &m->slot);
	share_init(&m->region);
}

static unsigned pct(int d)
{
	return share_limit_pct((struct dev){ d }, clock_now_ns());
}

static bool in_force(int d)
{
	return share_in_force((struct dev){ d }, clock_now_ns());
}

static void each_device_has_its_own(void)
{
	struct member m;

	join(&m, "1:50", SM_POLICY_FORCE);
	CHECK_EQ(pct(0), 0);
	CHECK_EQ(pct(1), 50);
	CHECK(!in_force(0) && in_force(1));
}

static void a_hundred_is_none(void)
{
	struct member m;

	join(&m, "30,1:100", SM_POLICY_FORCE);
	CHECK_EQ(pct(0), 30);
	CHECK_EQ(pct(1), 0);
	CHECK(in_force(0) && !in_force(1));
}

static void no_limit_at_all(void)
{
	struct member m;

	join(&m, NULL, SM_POLICY_FORCE);
	CHECK_EQ(pct(0), 0);
	CHECK(!in_force(0));
}

/* A monitor writes the words at any time. */
static void words_are_read_live(void)
{
	struct member m;
	uint64_t *word;

	join(&m, "30", SM_POLICY_FORCE);
	word = &m.region.hami->sm_limit_pct[0];
	*word = 70;
	CHECK_EQ(pct(0), 70);
	/* A word that was cleared does not lift a limit that was configured. */
	*word = 0;
	CHECK_EQ(pct(0), 30);
	/* One that says openly that there is none does, as a larger one would. */
	*word = 100;
	CHECK_EQ(pct(0), 0);
	*word = 1000;
	CHECK_EQ(pct(0), 0);
	*word = 1;
	CHECK_EQ(pct(0), 1);
}

static void change(struct member *m, const char *spec, uint64_t word)
{
	spec_begin(m->region.own, LIMITS_SM);
	region_set_sm_limit(m->region.hami, m->region.own, 0, word);
	spec_end(m->region.own, LIMITS_SM, spec, "test");
}

static void a_change_is_seen_at_once(void)
{
	struct member m;

	join(&m, "30", SM_POLICY_FORCE);
	change(&m, "0:60,80", 60);
	CHECK_EQ(pct(0), 60);
	m.region.hami->sm_limit_pct[0] = 0;
	m.region.hami->sm_limit_pct[1] = 0;
	CHECK_EQ(pct(0), 60);
	CHECK_EQ(pct(1), 80);
	/* In the midst of a change, and after one that nobody ended, what was read last holds. */
	spec_begin(m.region.own, LIMITS_SM);
	CHECK_EQ(pct(0), 60);
	spec_end(m.region.own, LIMITS_SM, "nonsense", "test");
	CHECK_EQ(pct(0), 60);
	spec_end(m.region.own, LIMITS_SM, "20", "test");
	CHECK_EQ(pct(0), 20);
}

/* Who joins after a change that nobody ended falls back on what was in force then. */
static void a_change_that_was_cut_off_lifts_no_limit(void)
{
	struct member m;

	join(&m, "30", SM_POLICY_FORCE);
	spec_begin(m.region.own, LIMITS_SM);
	share_init(&m.region);
	m.region.hami->sm_limit_pct[0] = 0;
	CHECK_EQ(pct(0), 30);
}

static void the_policy_says_when_it_holds(void)
{
	struct member m;

	join(&m, "30", SM_POLICY_DEFAULT);
	CHECK(in_force(0));
	m.region.hami->utilization_switch = 0;
	CHECK(!in_force(0));
	CHECK_EQ(pct(0), 30);
	m.region.own->sm_policy = SM_POLICY_FORCE;
	CHECK(in_force(0));
	m.region.own->sm_policy = SM_POLICY_DISABLE;
	m.region.hami->utilization_switch = 1;
	CHECK(!in_force(0));
}

/* A region that is not ours any more is not touched: what was so last holds on. */
static void a_region_that_was_taken_away(void)
{
	struct member m;

	join(&m, "30", SM_POLICY_FORCE);
	CHECK_EQ(pct(0), 30);
	CHECK(in_force(0));
	m.region.own->generation++;
	m.region.hami->sm_limit_pct[0] = 100;
	m.region.own->sm_policy = SM_POLICY_DISABLE;
	CHECK_EQ(pct(0), 30);
	CHECK(in_force(0));
	CHECK(truncate(m.region.path, 0) == 0);
	CHECK_EQ(pct(0), 30);
	CHECK(in_force(0));
}

/* Cut behind the slots, where the limits of GPU time stand, before anybody asked for them. */
static void a_region_that_was_cut_short(void)
{
	struct member m;
	off_t end = RATION_OFFSET + (off_t)offsetof(struct ration_region, slots);

	join(&m, "30", SM_POLICY_FORCE);
	CHECK(truncate(m.region.path, end) == 0);
	CHECK_EQ(pct(0), 30);
	CHECK(in_force(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(each_device_has_its_own),
		fresh_test(a_hundred_is_none),
		fresh_test(no_limit_at_all),
		fresh_test(words_are_read_live),
		fresh_test(a_change_is_seen_at_once),
		fresh_test(a_change_that_was_cut_off_lifts_no_limit),
		fresh_test(the_policy_says_when_it_holds),
		fresh_test(a_region_that_was_taken_away),
		fresh_test(a_region_that_was_cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
