#include "core/charge.h"

#include "base/clock.h"
#include "core/bound.h"
#include "core/watch.h"
#include "member.h"
#include "shm/kept.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#define BASE UINT64_C(0x7f0000000000)
#define BLOCK TRACK_BLOCK_BYTES

/* The card: what the driver says this process holds. */
static struct {
	_Atomic uint64_t bytes;
	_Atomic int error; /* answered instead, while not 0 */
	_Atomic int asked;
	void (*while_asked)(void); /* runs between the question and the answer, once */
} card;

static int card_bytes(const char *uuid, uint64_t *out_bytes)
{
	uint64_t bytes = atomic_load(&card.bytes);
	void (*run)(void) = card.while_asked;
	int error = atomic_load(&card.error);

	CHECK(strcmp(uuid, member_uuid(0)) == 0);
	atomic_fetch_add(&card.asked, 1);
	if (run) {
		card.while_asked = NULL;
		run();
	}
	if (error)
		return error;
	*out_bytes = bytes;
	return 0;
}

static const struct gpu_ops ops = { .process_bytes = card_bytes };

/* The clock stands still but for naps, each of which runs nap.then once. */
static struct {
	_Atomic bool is_fake;
	int64_t now_ns;
	int count;
	void (*then)(void);
} nap;

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!nap.is_fake)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = nap.now_ns / NSEC_PER_SEC;
	t->tv_nsec = nap.now_ns % NSEC_PER_SEC;
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	void (*then)(void) = nap.then;

	if (!nap.is_fake)
		return (int)syscall(SYS_nanosleep, t, left);
	nap.now_ns += t->tv_sec * NSEC_PER_SEC + t->tv_nsec;
	nap.count++;
	nap.then = NULL;
	if (then)
		then();
	return 0;
}

static struct member member;

static void start(const char *limit)
{
	member_join(&member, scratch_path("region"), limit, 0, 1);
	charge_init(&ops);
	card.error = 0;
}

static int reserve(struct charge *c, uint64_t bytes)
{
	return charge_reserve_linear(c, dev0, NULL, bytes);
}

/* An allocation that goes well. */
static void allocate(uint64_t addr, uint64_t bytes, const void *ctx)
{
	struct charge c;

	CHECK_EQ(charge_reserve_linear(&c, dev0, ctx, bytes), 0);
	CHECK_EQ(charge_commit(&c, addr, bytes), 0);
}

static void free_at(uint64_t addr)
{
	struct dev dev;
	struct track_node *node = charge_take(addr, &dev);

	CHECK(node);
	charge_end(node, dev);
}

static uint64_t data(void)
{
	return quota_held(dev0, QUOTA_DATA);
}

static uint64_t overhead(void)
{
	return quota_held(dev0, QUOTA_CONTEXT) + quota_held(dev0, QUOTA_MODULE);
}

static void linear_memory_is_charged_by_the_block(void)
{
	struct charge c;
	struct dev dev;

	start("1g");
	allocate(BASE, 1, NULL);
	CHECK_EQ(data(), BLOCK);
	allocate(BASE + 512, BLOCK / 2, NULL);
	CHECK_EQ(data(), BLOCK);
	allocate(BASE + BLOCK, 3 * BLOCK + 1, NULL);
	CHECK_EQ(data(), 5 * BLOCK);
	/* Behind the end of the large one. */
	allocate(BASE + 4 * BLOCK + 512, 512, NULL);
	CHECK_EQ(data(), 5 * BLOCK);
	CHECK(!charge_take(BASE + 1, &dev));
	free_at(BASE + BLOCK);
	CHECK_EQ(data(), 2 * BLOCK);
	free_at(BASE + 4 * BLOCK + 512);
	free_at(BASE);
	free_at(BASE + 512);
	CHECK_EQ(data(), 0);
	CHECK_EQ(reserve(&c, 7 * BLOCK), 0);
	CHECK_EQ(data(), 7 * BLOCK);
	charge_cancel(&c);
	CHECK_EQ(quota_used(dev0), 0);
}

static void a_free_that_failed_is_still_charged(void)
{
	struct track_node *node;
	struct dev dev = { 9 };

	start("1g");
	allocate(BASE, 3 * BLOCK, NULL);
	node = charge_take(BASE, &dev);
	CHECK_EQ(dev.v, 0);
	CHECK_EQ(data(), 3 * BLOCK);
	charge_put_back(node, dev);
	CHECK_EQ(data(), 3 * BLOCK);
	node = charge_take(BASE, &dev);
	allocate(BASE, BLOCK, NULL);
	charge_put_back(node, dev);
	CHECK_EQ(data(), BLOCK);
	free_at(BASE);
	CHECK_EQ(data(), 0);
}

static void managed_memory_is_charged_by_the_page(void)
{
	struct charge c;

	start("1g");
	CHECK_EQ(charge_reserve_managed(&c, dev0, NULL, 1, CHARGE_MAY_WAIT), 0);
	CHECK_EQ(charge_commit(&c, BASE, 1), 0);
	CHECK_EQ(data(), 65536);
	/* No share of it is anybody's block. */
	CHECK(!track_has_block(dev0));
	CHECK_EQ(track_physical(dev0), 0);
	free_at(BASE);
	CHECK_EQ(data(), 0);
	CHECK((int)charge_reserve_managed(&c, dev0, NULL, MIB_BYTES(1024) + 1, CHARGE_MAY_WAIT) ==
	      -EDQUOT);
	CHECK((int)charge_reserve_managed(&c, dev0, NULL, UINT64_MAX, CHARGE_MAY_WAIT) == -EDQUOT);
}

static void handles_are_charged_until_the_last_use(void)
{
	uint64_t freed[RATION_DEVICES] = { 0 };
	struct handle_node *node = handle_prepare();
	struct charge c;

	start("8m");
	CHECK((int)charge_reserve_handle(&c, dev0, MIB_BYTES(9)) == -EDQUOT);
	CHECK_EQ(charge_reserve_handle(&c, dev0, MIB_BYTES(8)), 0);
	charge_cancel(&c);
	CHECK_EQ(charge_reserve_handle(&c, dev0, MIB_BYTES(8)), 0);
	charge_commit_handle(&c, 1);
	CHECK_EQ(track_physical(dev0), MIB_BYTES(8));
	handle_use(node, 1);
	handle_map(node, BASE, MIB_BYTES(8), freed);
	charge_begin();
	charge_freed_handle(handle_released(handle_release(1)));
	charge_over();
	CHECK_EQ(data(), MIB_BYTES(8));
	CHECK((int)charge_reserve_handle(&c, dev0, 1) == -EDQUOT);
	charge_begin();
	handle_unmapped(handle_unmap(BASE, MIB_BYTES(8)), freed);
	charge_freed_handles(freed);
	charge_over();
	CHECK_EQ(data(), 0);
	CHECK_EQ(track_physical(dev0), 0);
}

/* What a multicast object may hold when the handle is gone has no room for others meanwhile. */
static void bound_memory_is_charged_until_the_card_says_that_it_is_free(void)
{
	struct charge c;

	start("8m");
	card.bytes = MIB_BYTES(8);
	CHECK_EQ(charge_reserve_handle(&c, dev0, MIB_BYTES(8)), 0);
	charge_commit_handle(&c, 1);
	bound_note();
	charge_begin();
	charge_freed_handle(handle_released(handle_release(1)));
	charge_over();
	CHECK_EQ(quota_used(dev0), MIB_BYTES(8));
	CHECK((int)charge_reserve_handle(&c, dev0, MIB_BYTES(2)) == -EDQUOT);
	/* It was unbound. */
	card.bytes = 0;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(charge_reserve_handle(&c, dev0, MIB_BYTES(8)), 0);
	charge_cancel(&c);
}

static void a_context_takes_its_memory_along(void)
{
	int ctx, other;

	start("1g");
	allocate(BASE, 2 * BLOCK, &ctx);
	allocate(BASE + 2 * BLOCK, BLOCK, &other);
	charge_begin();
	charge_drop_context(&ctx, track_mark());
	charge_over();
	CHECK_EQ(data(), BLOCK);
	free_at(BASE + 2 * BLOCK);
	CHECK_EQ(quota_used(dev0), 0);
}

/* What its stream has yet to come to, as the card's figure says. */
static void what_goes_by_and_by_is_charged_until_then(void)
{
	struct track_node *node;
	struct dev dev;

	start("1g");
	allocate(BASE, 3 * BLOCK, NULL);
	card.bytes = 3 * BLOCK;
	node = charge_take(BASE, &dev);
	CHECK(node != NULL);
	charge_begin();
	charge_end_later(node, dev);
	CHECK_EQ(quota_used(dev0), 3 * BLOCK);
	charge_over();
	CHECK_EQ(quota_used(dev0), 3 * BLOCK);
	card.bytes = BLOCK;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(quota_used(dev0), BLOCK);
	/* Where the card cannot be asked, nobody would say when. */
	card.error = -ENOTSUP;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), -ENOTSUP);
	allocate(BASE, BLOCK, NULL);
	node = charge_take(BASE, &dev);
	charge_end_later(node, dev);
	CHECK_EQ(quota_used(dev0), BLOCK);
	card.error = 0;
	card.bytes = 0;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(quota_used(dev0), 0);
}

static void the_limit_is_met_to_the_block(void)
{
	struct charge c;
	int pieces = 0;

	start("64m");
	card.error = -ENOTSUP;
	CHECK((int)reserve(&c, UINT64_MAX) == -EDQUOT);
	CHECK((int)reserve(&c, UINT64_MAX - BLOCK) == -EDQUOT);
	CHECK((int)reserve(&c, MIB_BYTES(64) + 1) == -EDQUOT);
	for (; reserve(&c, BLOCK) == 0; pieces++)
		CHECK_EQ(charge_commit(&c, BASE + (uint64_t)pieces * BLOCK, BLOCK), 0);
	CHECK_EQ(pieces, 32);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(64));
}

/* The limit is met; the driver may have room left in a block that it opened. */
static void small_ones_fit_into_what_is_charged(void)
{
	struct charge c;

	start("6m");
	card.error = -ENOTSUP;
	CHECK((int)reserve(&c, MIB_BYTES(6) + 1) == -EDQUOT);
	allocate(BASE, 1000, NULL);
	allocate(BASE + BLOCK, BLOCK, NULL);
	CHECK((int)reserve(&c, BLOCK / 2 + 1) == -EDQUOT);
	CHECK_EQ(reserve(&c, 1000), 0);
	/* What the driver may open is charged before it is asked. */
	CHECK_EQ(quota_used(dev0), 3 * BLOCK);
	CHECK_EQ(quota_doubted(dev0), BLOCK);
	CHECK_EQ(charge_commit(&c, BASE + 1024, 1000), 0);
	CHECK_EQ(quota_used(dev0), 2 * BLOCK);
	CHECK_EQ(quota_doubted(dev0), 0);
	free_at(BASE);
	CHECK_EQ(quota_used(dev0), 2 * BLOCK);
	free_at(BASE + 1024);
	CHECK_EQ(quota_used(dev0), BLOCK);
}

/* Without small ones the limit can be had to its last block, by others of the tenant too. */
static void a_block_is_kept_back_for_small_ones(void)
{
	struct charge c;

	start("6m");
	card.error = -ENOTSUP;
	allocate(BASE, 1000, NULL);
	CHECK_EQ(quota_share(dev0, clock_now_ns()).left_bytes, BLOCK);
	CHECK_EQ(quota_left(dev0), 2 * BLOCK);
	CHECK((int)reserve(&c, 2 * BLOCK) == -EDQUOT);
	allocate(BASE + BLOCK, BLOCK, NULL);
	CHECK((int)reserve(&c, BLOCK) == -EDQUOT);
	CHECK((int)charge_reserve_managed(&c, dev0, NULL, 1, CHARGE_MAY_WAIT) == -EDQUOT);
	CHECK((int)charge_reserve_context(dev0, BLOCK) == -EDQUOT);
	free_at(BASE);
	allocate(BASE, BLOCK, NULL);
	allocate(BASE + 2 * BLOCK, BLOCK, NULL);
	CHECK_EQ(quota_share(dev0, clock_now_ns()).left_bytes, 0);
	CHECK_EQ(quota_used(dev0), 3 * BLOCK);
	/* Another's is seen by a look at his slot, which goes with him. */
	free_at(BASE);
	kept_show(member.region.own, 7, 0, true);
	member.region.own->hint[7] = 1;
	CHECK(kept_look(member.region.own, 0));
	CHECK_EQ(quota_share(dev0, clock_now_ns()).left_bytes, 0);
	CHECK_EQ(reserve(&c, BLOCK), 0);
	CHECK(!kept_look(member.region.own, 0));
	charge_cancel(&c);
}

/* One that has become small's own goes again when somebody looks, or is refused. */
static void what_is_kept_back_goes_with_the_last_small_one(void)
{
	start("6m");
	allocate(BASE, 1000, NULL);
	CHECK(kept_is(member.region.own, 0));
	charge_watch(dev0);
	CHECK(kept_look(member.region.own, 0));
	free_at(BASE);
	charge_watch(dev0);
	CHECK(!kept_look(member.region.own, 0));
	CHECK_EQ(quota_share(dev0, clock_now_ns()).left_bytes, 3 * BLOCK);
}

/*
 * The driver had no room and opened a block: it goes back, and meanwhile it is charged, so that no
 * look at the card takes it for something else.
 */
static void a_block_that_may_not_be_is_given_back(void)
{
	struct charge c;

	start("6m");
	card.bytes = MIB_BYTES(4);
	allocate(BASE, 1000, NULL);
	allocate(BASE + BLOCK, BLOCK, NULL);
	CHECK_EQ(reserve(&c, 1000), 0);
	card.bytes = MIB_BYTES(6);
	CHECK((int)charge_commit(&c, BASE + 5 * BLOCK, 1000) == -EDQUOT);
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
	CHECK_EQ(overhead(), 0);
	CHECK_EQ(quota_used(dev0), MIB_BYTES(6));
	card.bytes = MIB_BYTES(4);
	charge_cancel(&c);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(overhead(), 0);
	CHECK_EQ(data(), 2 * BLOCK);
}

/* There is room by the time the driver has opened one. */
static void a_block_that_may_be_by_now_stays(void)
{
	struct charge c;

	start("6m");
	card.error = -ENOTSUP;
	allocate(BASE, 1000, NULL);
	allocate(BASE + BLOCK, BLOCK, NULL);
	CHECK_EQ(reserve(&c, 1000), 0);
	free_at(BASE + BLOCK);
	CHECK_EQ(charge_commit(&c, BASE + 5 * BLOCK, 1000), 0);
	CHECK_EQ(data(), 2 * BLOCK);
	CHECK_EQ(quota_doubted(dev0), 0);
}

/* The driver padded more than was thought: the rest is reserved, or it is given back. */
static void more_than_was_asked_is_charged(void)
{
	struct charge c;

	start("8m");
	card.bytes = MIB_BYTES(6);
	CHECK_EQ(reserve(&c, BLOCK), 0);
	CHECK_EQ(charge_commit(&c, BASE, BLOCK + 1), 0);
	CHECK_EQ(data(), 2 * BLOCK);
	CHECK_EQ(reserve(&c, BLOCK), 0);
	CHECK((int)charge_commit(&c, BASE + 4 * BLOCK, 2 * BLOCK + 1) == -EDQUOT);
	charge_cancel(&c);
	CHECK_EQ(data(), 2 * BLOCK);
	CHECK_EQ(reserve(&c, BLOCK), 0);
	CHECK_EQ(charge_commit(&c, BASE + 4 * BLOCK, 3 * BLOCK / 2), 0);
	CHECK_EQ(data(), 4 * BLOCK);
	free_at(BASE);
	free_at(BASE + 4 * BLOCK);
	CHECK_EQ(data(), 0);
	CHECK_EQ(track_physical(dev0), 0);
}

static void addresses_that_come_again_were_freed_unseen(void)
{
	struct charge c;

	start("1g");
	allocate(BASE, 9 * BLOCK, NULL);
	allocate(BASE, 2 * BLOCK, NULL);
	CHECK_EQ(data(), 2 * BLOCK);
	CHECK_EQ(charge_reserve_managed(&c, dev0, NULL, BLOCK, CHARGE_MAY_WAIT), 0);
	CHECK_EQ(charge_commit(&c, BASE, BLOCK), 0);
	CHECK_EQ(data(), BLOCK);
	allocate(BASE, 1, NULL);
	CHECK_EQ(data(), BLOCK);
	CHECK_EQ(track_physical(dev0), BLOCK);
	for (uint64_t value = 1; value < 3; value++) {
		CHECK_EQ(charge_reserve_handle(&c, dev0, MIB_BYTES(32) / value), 0);
		charge_commit_handle(&c, 1);
	}
	CHECK_EQ(data(), BLOCK + MIB_BYTES(16));
	CHECK_EQ(track_physical(dev0), BLOCK + MIB_BYTES(16));
}

static void what_no_call_shows_is_charged(void)
{
	start("64m");
	card.bytes = MIB_BYTES(20);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), MIB_BYTES(20));
	allocate(BASE, 4 * BLOCK, NULL);
	card.bytes = MIB_BYTES(29);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(quota_held(dev0, QUOTA_MODULE), MIB_BYTES(1));
	/* A figure below what we know of, as managed memory or an unseen free can make it. */
	card.bytes = MIB_BYTES(3);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(overhead(), 0);
	CHECK_EQ(data(), 4 * BLOCK);
	card.error = -ENOTSUP;
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -ENOTSUP);
	CHECK_EQ(overhead(), 0);
}

static void contexts_that_do_not_count_are_not_looked_at(void)
{
	struct charge c;

	member_join(&member, scratch_path("region"), "4m", RATION_FLAG_CONTEXT_FREE, 1);
	charge_init(&ops);
	card.bytes = MIB_BYTES(500);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	CHECK_EQ(quota_used(dev0), 0);
	CHECK_EQ(reserve(&c, MIB_BYTES(4)), 0);
	charge_cancel(&c);
	CHECK((int)reserve(&c, MIB_BYTES(6)) == -EDQUOT);
	CHECK_EQ(card.asked, 0);
}

/* A module was unloaded by a way that we do not see. */
static void a_refusal_asks_the_card_first(void)
{
	struct charge c;

	start("64m");
	card.bytes = MIB_BYTES(40);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK((int)reserve(&c, MIB_BYTES(32)) == -EDQUOT);
	CHECK_EQ(card.asked, 2);
	card.bytes = MIB_BYTES(30);
	CHECK_EQ(reserve(&c, MIB_BYTES(32)), 0);
	CHECK_EQ(overhead(), MIB_BYTES(30));
	CHECK_EQ(card.asked, 3);
	charge_cancel(&c);
	/* What fits is given without a question. */
	CHECK_EQ(reserve(&c, MIB_BYTES(32)), 0);
	CHECK_EQ(card.asked, 3);
	charge_cancel(&c);
	/* And the truth may be that there is less. */
	card.bytes = MIB_BYTES(60);
	CHECK((int)reserve(&c, MIB_BYTES(36)) == -EDQUOT);
	CHECK_EQ(overhead(), MIB_BYTES(60));
}

/*
 * Somebody else is in the midst of an allocation: a refusal waits for a moment in which it can ask.
 */
static void a_refusal_waits_to_ask(void)
{
	struct charge c;

	start("64m");
	card.bytes = MIB_BYTES(40);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	card.bytes = MIB_BYTES(30);
	nap.is_fake = true;
	nap.then = charge_over;
	charge_begin();
	CHECK_EQ(reserve(&c, MIB_BYTES(32)), 0);
	charge_cancel(&c);
	/* But not for ever. */
	charge_begin();
	CHECK((int)reserve(&c, MIB_BYTES(36)) == -EDQUOT);
	CHECK(nap.count > 1);
	CHECK(nap.now_ns <= NSEC_PER_SEC);
	charge_over();
}

static void nothing_is_sampled_while_under_way(void)
{
	struct charge c;
	struct dev dev;
	struct track_node *node;

	start("64m");
	card.bytes = MIB_BYTES(10);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	CHECK_EQ(reserve(&c, BLOCK), 0);
	card.bytes = MIB_BYTES(12);
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
	CHECK_EQ(charge_commit(&c, BASE, BLOCK), 0);
	CHECK_EQ(overhead(), MIB_BYTES(10));
	node = charge_take(BASE, &dev);
	card.bytes = MIB_BYTES(10);
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
	charge_end(node, dev);
	CHECK_EQ(overhead(), MIB_BYTES(10));
	CHECK_EQ(charge_reserve_handle(&c, dev0, BLOCK), 0);
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
	charge_cancel(&c);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(overhead(), MIB_BYTES(10));
}

/* A look that could not be taken is taken by who ends what was under way. */
static void a_look_put_off_is_not_lost(void)
{
	struct charge c;

	start("64m");
	CHECK_EQ(reserve(&c, BLOCK), 0);
	card.bytes = MIB_BYTES(33) + BLOCK;
	CHECK((int)charge_reconcile(dev0, QUOTA_CONTEXT) == -EAGAIN);
	CHECK_EQ(card.asked, 1);
	/* It may have been before the allocation was there. */
	CHECK_EQ(overhead(), MIB_BYTES(33));
	card.bytes = MIB_BYTES(32) + BLOCK;
	CHECK_EQ(charge_commit(&c, BASE, BLOCK), 0);
	CHECK_EQ(quota_held(dev0, QUOTA_CONTEXT), MIB_BYTES(32));
	CHECK_EQ(card.asked, 2);
	/* Once is enough. */
	free_at(BASE);
	CHECK_EQ(card.asked, 2);
	/* The driver itself could not say just now. */
	card.error = -EAGAIN;
	CHECK((int)charge_reconcile(dev0, QUOTA_CONTEXT) == -EAGAIN);
	card.error = 0;
	card.bytes = MIB_BYTES(34);
	charge_begin();
	charge_over();
	CHECK_EQ(overhead(), MIB_BYTES(34));
}

static void allocate_meanwhile(void)
{
	allocate(BASE, BLOCK, NULL);
	card.bytes += BLOCK;
}

static void what_changed_during_a_look_is_looked_at_again(void)
{
	start("64m");
	card.bytes = MIB_BYTES(20);
	card.while_asked = allocate_meanwhile;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	CHECK_EQ(card.asked, 2);
	CHECK_EQ(overhead(), MIB_BYTES(20));
	CHECK_EQ(data(), BLOCK);
}

static void reserve_context_meanwhile(void)
{
	CHECK_EQ(charge_reserve_context(dev0, MIB_BYTES(12)), 0);
}

/* A look that began before a context was reserved does not take it for one that is gone. */
static void what_is_reserved_for_a_context_stays(void)
{
	start("64m");
	card.bytes = MIB_BYTES(20);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	card.while_asked = reserve_context_meanwhile;
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
	CHECK_EQ(overhead(), MIB_BYTES(32));
	card.bytes = MIB_BYTES(33);
	charge_over();
	CHECK_EQ(overhead(), MIB_BYTES(33));
	CHECK((int)charge_reserve_context(dev0, MIB_BYTES(32)) == -EDQUOT);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
}

/* Two threads: contexts are reserved and given up while the other looks again and again. */
static _Atomic bool is_over;

static void *look_again_and_again(void *arg)
{
	(void)arg;
	while (!atomic_load(&is_over))
		charge_reconcile(dev0, QUOTA_MODULE);
	return NULL;
}

static void what_is_reserved_stays_in_a_race(void)
{
	enum { ROUNDS = 20000 };
	pthread_t thread;

	start("64m");
	card.bytes = MIB_BYTES(20);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	CHECK(pthread_create(&thread, NULL, look_again_and_again, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(charge_reserve_context(dev0, MIB_BYTES(12)), 0);
		CHECK_EQ(overhead(), MIB_BYTES(32));
		quota_release(dev0, QUOTA_CONTEXT, MIB_BYTES(12));
		charge_over();
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	CHECK_EQ(overhead(), MIB_BYTES(20));
}

static void look_meanwhile(void)
{
	card.bytes = MIB_BYTES(50);
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
}

/* Two threads look; the one that asked first is answered last. */
static void an_old_look_does_not_replace_a_new_one(void)
{
	start("64m");
	card.bytes = MIB_BYTES(20);
	card.while_asked = look_meanwhile;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(overhead(), MIB_BYTES(50));
}

static void a_child_has_nothing(void)
{
	struct track_node *node;
	struct charge under_way, c;
	struct member own;
	struct dev dev;
	int status;
	pid_t pid;

	start("64m");
	allocate(BASE, 4 * BLOCK, NULL);
	CHECK_EQ(charge_reserve_handle(&c, dev0, 4 * BLOCK), 0);
	charge_commit_handle(&c, 1);
	/* It is forked in the midst of an allocation. */
	CHECK_EQ(reserve(&under_way, BLOCK), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		member_join(&own, scratch_path("region"), NULL, 0, 1);
		charge_init(&ops);
		card.bytes = MIB_BYTES(7);
		CHECK(!charge_take(BASE, &dev));
		CHECK(!handle_release(1));
		CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
		CHECK_EQ(overhead(), MIB_BYTES(7));
		allocate(BASE, BLOCK, NULL);
		CHECK_EQ(data(), BLOCK);
		CHECK_EQ(quota_used(dev0), 10 * BLOCK + MIB_BYTES(7));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(charge_commit(&under_way, BASE + 8 * BLOCK, BLOCK), 0);
	CHECK_EQ(data(), 9 * BLOCK);
	node = charge_take(BASE, &dev);
	CHECK(node);
	charge_end(node, dev);
	CHECK_EQ(data(), 5 * BLOCK);
}

static void who_watches_an_idle_program_looks_less_often(void)
{
	struct watch watch = { 0 };
	unsigned looks = 0;

	CHECK(watch_is_due(&watch, 7));
	CHECK(watch_is_due(&watch, 7) && watch_is_due(&watch, 7));
	for (int round = 0; round < 80; round++)
		looks += watch_is_due(&watch, 7);
	CHECK_EQ(looks, 10);
	CHECK(watch_is_due(&watch, 8) && watch_is_due(&watch, 8));
}

static void who_watches_in_a_crowd_looks_less_often(void)
{
	CHECK_EQ(watch_every_ns(0), 100 * NSEC_PER_MSEC);
	CHECK_EQ(watch_every_ns(31), 100 * NSEC_PER_MSEC);
	/* All of them together then look at most 320 times a second, however many they are. */
	for (unsigned n = 32; n < 5000; n++)
		CHECK(n * NSEC_PER_SEC / watch_every_ns(n) <= 320);
	CHECK(watch_every_ns(UINT32_MAX) > 0);
	CHECK_EQ(watch_busy_every_ns(1), NSEC_PER_SEC);
	for (unsigned n = 1; n < 5000; n++)
		CHECK(n * NSEC_PER_SEC / watch_busy_every_ns(n) <= 8);
	CHECK(watch_busy_every_ns(UINT32_MAX) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(linear_memory_is_charged_by_the_block),
		fresh_test(a_free_that_failed_is_still_charged),
		fresh_test(managed_memory_is_charged_by_the_page),
		fresh_test(handles_are_charged_until_the_last_use),
		fresh_test(bound_memory_is_charged_until_the_card_says_that_it_is_free),
		fresh_test(a_context_takes_its_memory_along),
		fresh_test(what_goes_by_and_by_is_charged_until_then),
		fresh_test(the_limit_is_met_to_the_block),
		fresh_test(small_ones_fit_into_what_is_charged),
		fresh_test(a_block_is_kept_back_for_small_ones),
		fresh_test(what_is_kept_back_goes_with_the_last_small_one),
		fresh_test(a_block_that_may_be_by_now_stays),
		fresh_test(a_block_that_may_not_be_is_given_back),
		fresh_test(more_than_was_asked_is_charged),
		fresh_test(addresses_that_come_again_were_freed_unseen),
		fresh_test(what_no_call_shows_is_charged),
		fresh_test(contexts_that_do_not_count_are_not_looked_at),
		fresh_test(a_refusal_asks_the_card_first),
		fresh_test(a_refusal_waits_to_ask),
		fresh_test(nothing_is_sampled_while_under_way),
		fresh_test(a_look_put_off_is_not_lost),
		fresh_test(what_changed_during_a_look_is_looked_at_again),
		fresh_test(what_is_reserved_for_a_context_stays),
		fresh_test(what_is_reserved_stays_in_a_race),
		fresh_test(an_old_look_does_not_replace_a_new_one),
		fresh_test(who_watches_in_a_crowd_looks_less_often),
		fresh_test(who_watches_an_idle_program_looks_less_often),
		fresh_test(a_child_has_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
