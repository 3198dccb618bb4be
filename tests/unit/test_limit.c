#include "core/limit.h"

#include "base/limits.h"
#include "member.h"
#include "shm/spec.h"

static const struct dev dev1 = { 1 };

/* In a child: a tenant of two devices with these limits, and the limits as it reads them. */
static void join(struct member *m, struct limit *l, const char *spec)
{
	member_join(m, scratch_path("region"), spec, 0, 2);
	memset(l, 0, sizeof(*l));
	limit_init(l, &m->region, LIMITS_MEM);
}

static uint64_t now(struct limit *l, struct dev dev)
{
	return limit_now(l, dev, true);
}

static void write_word(struct member *m, struct dev dev, uint64_t bytes)
{
	region_set_limit(m->region.hami, m->region.own, dev.v, bytes);
}

static void the_word_holds(void)
{
	struct member m;
	struct limit l;

	join(&m, &l, "1g,1:2g");
	CHECK_EQ(now(&l, dev0), MIB_BYTES(1024));
	CHECK_EQ(now(&l, dev1), MIB_BYTES(2048));
	write_word(&m, dev0, MIB_BYTES(5));
	CHECK_EQ(now(&l, dev0), MIB_BYTES(5));
	CHECK_EQ(now(&l, dev1), MIB_BYTES(2048));
}

/* A word that was cleared leads to the text, as that is now. */
static void a_cleared_word_lifts_nothing(void)
{
	struct member m;
	struct limit l;

	join(&m, &l, "1g,1:2g");
	write_word(&m, dev0, 0);
	write_word(&m, dev1, 0);
	CHECK_EQ(now(&l, dev0), MIB_BYTES(1024));
	CHECK_EQ(now(&l, dev1), MIB_BYTES(2048));
	spec_begin(m.region.own, LIMITS_MEM);
	spec_end(m.region.own, LIMITS_MEM, "3g", "test");
	CHECK_EQ(now(&l, dev0), MIB_BYTES(3072));
	CHECK_EQ(now(&l, dev1), MIB_BYTES(3072));
}

/* While the text is being changed it is not read: what it said before holds. */
static void a_text_that_is_being_changed(void)
{
	struct member m;
	struct limit l;

	join(&m, &l, "1g");
	write_word(&m, dev0, 0);
	spec_begin(m.region.own, LIMITS_MEM);
	CHECK_EQ(now(&l, dev0), MIB_BYTES(1024));
	spec_end(m.region.own, LIMITS_MEM, "2g", "test");
	CHECK_EQ(now(&l, dev0), MIB_BYTES(2048));
}

/* Who joins meanwhile takes the words for what is configured. */
static void who_joins_during_a_change(void)
{
	struct member m;
	struct limit l;

	member_join(&m, scratch_path("region"), "1g", 0, 2);
	spec_begin(m.region.own, LIMITS_MEM);
	memset(&l, 0, sizeof(l));
	limit_init(&l, &m.region, LIMITS_MEM);
	write_word(&m, dev0, 0);
	CHECK_EQ(now(&l, dev0), MIB_BYTES(1024));
	spec_end(m.region.own, LIMITS_MEM, "2g", "test");
	CHECK_EQ(now(&l, dev0), MIB_BYTES(2048));
}

/* A region that is not whole is not looked at: what was said last holds, also when nobody asked. */
static void a_region_that_is_lost(void)
{
	struct member m;
	struct limit l;

	join(&m, &l, "1g,1:2g");
	write_word(&m, dev0, MIB_BYTES(7));
	CHECK_EQ(limit_now(&l, dev0, false), MIB_BYTES(1024));
	CHECK_EQ(limit_now(&l, dev1, false), MIB_BYTES(2048));
	CHECK_EQ(now(&l, dev0), MIB_BYTES(7));
	CHECK_EQ(limit_now(&l, dev0, false), MIB_BYTES(7));
}

static void a_tenant_without_limits(void)
{
	struct member m;
	struct limit l;

	join(&m, &l, "");
	CHECK_EQ(now(&l, dev0), 0);
	write_word(&m, dev0, MIB_BYTES(9));
	CHECK_EQ(now(&l, dev0), MIB_BYTES(9));
	write_word(&m, dev0, 0);
	CHECK_EQ(now(&l, dev0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(the_word_holds),
		fresh_test(a_cleared_word_lifts_nothing),
		fresh_test(a_text_that_is_being_changed),
		fresh_test(who_joins_during_a_change),
		fresh_test(a_region_that_is_lost),
		fresh_test(a_tenant_without_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
