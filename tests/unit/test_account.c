#include "shm/account.h"

#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct ration_region *region;

static int make_region(void **state)
{
	(void)state;
	region = mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	return region == MAP_FAILED ? -1 : 0;
}

static int drop_region(void **state)
{
	(void)state;
	return munmap(region, sizeof(*region));
}

static struct account_holder settled(unsigned slot, int dev)
{
	struct account_holder h;

	account_settle(&h, region, slot, dev);
	return h;
}

static uint64_t total(int dev)
{
	return region->accounts[dev].total_bytes;
}

static void test_new_slots_hold_nothing(void **state)
{
	static const unsigned slots[] = { 0, 1, 511, 1023 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct account_holder h = settled(slots[i], 31);

		assert_int_equal(h.bytes, 0);
		assert_int_equal(account_add(&h, 5, 0), 0);
		assert_int_equal(settled(slots[i], 31).bytes, 5);
	}
	assert_int_equal(total(31), 20);
	assert_int_equal(total(0), 0);
}

static void test_the_limit_is_exact(void **state)
{
	struct account_holder a = settled(0, 0), b = settled(1, 0);

	(void)state;
	assert_int_equal(account_add(&a, 1001, 1000), -EDQUOT);
	assert_int_equal(account_add(&a, 600, 1000), 0);
	assert_int_equal(account_add(&b, 401, 1000), -EDQUOT);
	assert_int_equal(account_add(&b, 400, 1000), 0);
	assert_int_equal(account_add(&b, 1, 1000), -EDQUOT);
	assert_int_equal(account_add(&b, UINT64_MAX, 1000), -EDQUOT);
	assert_int_equal(account_add(&b, 0, 1000), 0);
	assert_int_equal(total(0), 1000);
	assert_int_equal(a.bytes, 600);
	assert_int_equal(b.bytes, 400);
	/* A limit that was lowered under what is used refuses, and takes nothing away. */
	assert_int_equal(account_add(&a, 1, 500), -EDQUOT);
	assert_int_equal(account_add(&a, UINT64_MAX - 100, 500), -EDQUOT);
	assert_int_equal(total(0), 1000);
	assert_int_equal(account_sub(&b, 400), 400);
	assert_int_equal(account_add(&a, 400, 1000), 0);
}

static void test_a_refusal_changes_nothing(void **state)
{
	struct account_holder a = settled(3, 0), before;

	(void)state;
	assert_int_equal(account_add(&a, 700, 1000), 0);
	before = a;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(account_add(&a, 301, 1000), -EDQUOT);
		assert_memory_equal(&a, &before, sizeof(a));
		assert_int_equal(settled(3, 0).bytes, 700);
		assert_int_equal(total(0), 700);
	}
	assert_int_equal(account_sub(&a, 1), 1);
	assert_int_equal(settled(3, 0).bytes, 699);
}

static void test_without_a_limit(void **state)
{
	struct account_holder a = settled(0, 0);

	(void)state;
	assert_int_equal(account_add(&a, UINT64_C(1) << 61, 0), 0);
	assert_int_equal(account_add(&a, UINT64_C(1) << 61, 0), 0);
	/* No sum wraps round. */
	assert_int_equal(account_add(&a, UINT64_MAX, 0), -EDQUOT);
	assert_int_equal(account_add(&a, UINT64_MAX / 2, 0), -EDQUOT);
	assert_int_equal(account_sub(&a, UINT64_MAX), UINT64_C(1) << 62);
	assert_int_equal(total(0), 0);
}

static void test_never_more_off_than_held(void **state)
{
	struct account_holder a = settled(0, 0), b = settled(1, 0);

	(void)state;
	account_add(&a, 100, 0);
	account_add(&b, 50, 0);
	assert_int_equal(account_sub(&a, 70), 70);
	assert_int_equal(account_sub(&a, 70), 30);
	assert_int_equal(account_sub(&a, 70), 0);
	assert_int_equal(total(0), 50);
	assert_int_equal(settled(0, 0).bytes, 0);
	assert_int_equal(settled(1, 0).bytes, 50);
}

/* What a reaper finds of slot 1 after its owner was killed, and after it has reaped. */
static void reap_finds(uint64_t bytes)
{
	struct account_holder other = settled(2, 0), h;
	uint64_t before;

	/* Another slot goes on first: the evidence must outlive its change. */
	assert_int_equal(account_add(&other, 11, 0), 0);
	h = settled(1, 0);
	assert_int_equal(h.bytes, bytes);
	before = total(0);
	assert_int_equal(account_sub(&h, h.bytes), bytes);
	assert_int_equal(total(0), before - bytes);
	assert_int_equal(settled(1, 0).bytes, 0);
	assert_int_equal(settled(2, 0).bytes, 11);
	/* The next owner of the slot begins anew. */
	h = settled(1, 0);
	assert_int_equal(account_add(&h, 9, 0), 0);
	assert_int_equal(settled(1, 0).bytes, 9);
}

/*
 * The words as they stand when the owner of slot 1, which holds 100 bytes, is killed within an
 * operation that makes them 130: after each of its stores.
 */
enum interruption { NOTHING_YET, AFTER_WRITTEN, ANNOUNCED, EVIDENCE_KEPT, INSTALLED };

static void interrupt(enum interruption at)
{
	struct account_holder h = settled(1, 0), other = settled(4, 0);
	struct ration_entry *e = &region->slots[1].entry[0];
	struct ration_account *account = &region->accounts[0];

	assert_int_equal(account_add(&h, 60, 0), 0);
	assert_int_equal(account_add(&h, 40, 0), 0);
	/* The last operation installed is another's, so its evidence has to be kept. */
	assert_int_equal(account_add(&other, 1000, 0), 0);
	if (at >= AFTER_WRITTEN)
		e->after_bytes[h.next & 1] = 130;
	if (at >= ANNOUNCED)
		e->seq = h.next;
	if (at >= EVIDENCE_KEPT)
		region->slots[4].entry[0].done = account->last & 0xffffffffffff;
	if (at >= INSTALLED) {
		account->total_bytes += 30;
		account->last = (uint64_t)1 << 48 | h.next;
	}
}

static void test_interrupted(void **state)
{
	(void)state;
	for (int at = NOTHING_YET; at <= INSTALLED; at++) {
		memset(region, 0, sizeof(*region));
		interrupt((enum interruption)at);
		assert_int_equal(settled(1, 0).bytes, at >= INSTALLED ? 130 : 100);
		assert_int_equal(settled(4, 0).bytes, 1000);
		reap_finds(at >= INSTALLED ? 130 : 100);
		assert_int_equal(settled(4, 0).bytes, 1000);
	}
}

/* The owner dies within its very first operation. */
static void test_interrupted_first_operation(void **state)
{
	struct ration_entry *e = &region->slots[1].entry[0];

	(void)state;
	e->after_bytes[1] = 30;
	e->seq = 1;
	assert_int_equal(settled(1, 0).bytes, 0);
	region->accounts[0].total_bytes = 30;
	region->accounts[0].last = (uint64_t)1 << 48 | 1;
	assert_int_equal(settled(1, 0).bytes, 30);
	reap_finds(30);
}

/* The reaper dies too, anywhere within the change that takes the bytes off. */
static void test_interrupted_reaper(void **state)
{
	struct ration_entry *e = &region->slots[1].entry[0];

	(void)state;
	for (int at = 0; at < 3; at++) {
		struct account_holder h;

		memset(region, 0, sizeof(*region));
		interrupt(INSTALLED);
		h = settled(1, 0);
		e->after_bytes[h.next & 1] = 0;
		if (at > 0)
			e->seq = h.next;
		if (at > 1) {
			region->accounts[0].total_bytes -= 130;
			region->accounts[0].last = (uint64_t)1 << 48 | h.next;
		}
		reap_finds(at > 1 ? 0 : 130);
	}
}

/* A refused operation leaves its number; the owner dies then, or within the next operation. */
static void test_interrupted_after_a_refusal(void **state)
{
	struct account_holder h = settled(1, 0);
	struct ration_entry *e = &region->slots[1].entry[0];

	(void)state;
	account_add(&h, 100, 0);
	/*
	 * What account_add() leaves when another process fills the account between its two looks.
	 */
	e->after_bytes[h.next & 1] = 900;
	e->seq = h.next;
	assert_int_equal(settled(1, 0).bytes, 100);
	assert_int_equal(settled(1, 0).next, h.next);
	e->after_bytes[h.next & 1] = 40;
	assert_int_equal(settled(1, 0).bytes, 100);
	reap_finds(100);
}

/*
 * Whatever the words say, no change passes the limit, no sum wraps and nothing is read elsewhere.
 */
static void test_garbage_in_the_file(void **state)
{
	static const uint64_t words[] = { 0,
					  1,
					  2,
					  UINT64_MAX,
					  UINT64_MAX - 1,
					  UINT64_C(1) << 63,
					  1000,
					  UINT64_C(1024) << 48,
					  UINT64_C(0xffff) << 48 | 5,
					  UINT64_C(1) << 48 };
	const unsigned n = sizeof(words) / sizeof(*words);

	(void)state;
	srandom(1);
	for (int i = 0; i < 20000; i++) {
		struct ration_entry *e = &region->slots[1].entry[0];
		struct account_holder h;
		uint64_t had, took;

		region->accounts[0].total_bytes = words[(unsigned)random() % n];
		region->accounts[0].last = words[(unsigned)random() % n];
		e->seq = words[(unsigned)random() % n];
		e->done = words[(unsigned)random() % n];
		e->after_bytes[0] = words[(unsigned)random() % n];
		e->after_bytes[1] = words[(unsigned)random() % n];
		h = settled(1, 0);
		if (account_add(&h, 500, 1000) == 0)
			assert_true(total(0) <= 1000);
		had = total(0);
		took = account_sub(&h, h.bytes);
		assert_true(total(0) == (had > took ? had - took : 0));
		assert_int_equal(h.bytes, 0);
	}
}

enum { SLOTS = 5, DEVS = 2 };

/* What a plain sum would say. */
struct model {
	uint64_t bytes[SLOTS][DEVS];
	uint64_t limit[DEVS];
};

static uint64_t model_sum(const struct model *m, int dev)
{
	uint64_t sum = 0;

	for (int s = 0; s < SLOTS; s++)
		sum += m->bytes[s][dev];
	return sum;
}

static void model_step(struct model *m, struct account_holder h[SLOTS][DEVS])
{
	int s = (int)(random() % SLOTS), d = (int)(random() % DEVS);
	uint64_t amount = (uint64_t)random() % 400, limit = m->limit[d], sum = model_sum(m, d);
	bool fits = limit == 0 || sum + amount <= limit;

	switch (random() % 6) {
	case 0:
	case 1:
		assert_int_equal(account_add(&h[s][d], amount, limit), fits ? 0 : -EDQUOT);
		m->bytes[s][d] += fits ? amount : 0;
		break;
	case 2:
		if (amount > m->bytes[s][d])
			amount = m->bytes[s][d];
		assert_int_equal(account_sub(&h[s][d], amount), amount);
		m->bytes[s][d] -= amount;
		break;
	case 3:
		assert_int_equal(account_sub(&h[s][d], m->bytes[s][d] + amount), m->bytes[s][d]);
		m->bytes[s][d] = 0;
		break;
	case 4: /* the slot changes hands */
		h[s][d] = settled((unsigned)s, d);
		break;
	case 5:
		m->limit[d] = random() % 8 ? 200 + (uint64_t)random() % 1500 : 0;
		break;
	}
}

static void test_against_a_plain_sum(void **state)
{
	struct account_holder h[SLOTS][DEVS];
	struct model m = { .limit = { 1000, 0 } };

	(void)state;
	srandom(20);
	for (int s = 0; s < SLOTS; s++)
		for (int d = 0; d < DEVS; d++)
			h[s][d] = settled((unsigned)s, d);
	for (int i = 0; i < 200000; i++) {
		model_step(&m, h);
		for (int d = 0; d < DEVS; d++)
			assert_int_equal(total(d), model_sum(&m, d));
		for (int s = 0; s < SLOTS; s++)
			assert_int_equal(settled((unsigned)s, i % DEVS).bytes,
					 m.bytes[s][i % DEVS]);
	}
}

#define region_test(f) cmocka_unit_test_setup_teardown(f, make_region, drop_region)

int main(void)
{
	const struct CMUnitTest tests[] = {
		region_test(test_new_slots_hold_nothing),
		region_test(test_the_limit_is_exact),
		region_test(test_a_refusal_changes_nothing),
		region_test(test_without_a_limit),
		region_test(test_never_more_off_than_held),
		region_test(test_interrupted),
		region_test(test_interrupted_first_operation),
		region_test(test_interrupted_reaper),
		region_test(test_interrupted_after_a_refusal),
		region_test(test_garbage_in_the_file),
		region_test(test_against_a_plain_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
