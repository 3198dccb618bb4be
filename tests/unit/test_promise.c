/* Heaps that are to come: what is awaited, for whom, and what a look at the card says of it. */
#include "core/promise.h"
#include "fresh.h"

#include <errno.h>

#define MIB (UINT64_C(1) << 20)

static const struct dev dev0 = { 0 }, dev1 = { 1 };
static char ctx, other_ctx, module, library;

/* What is awaited where nothing has come. */
static uint64_t awaited(struct dev dev)
{
	return promise_look(dev, UINT64_MAX / 2, 0);
}

static void awaited_for_its_owners(void)
{
	promise_init();
	CHECK(promise_is_wanted(&ctx));
	CHECK_EQ(promise_make(&ctx, dev0, &module, 66 * MIB), 0);
	CHECK(!promise_is_wanted(&ctx) && promise_is_wanted(&other_ctx));
	CHECK_EQ(promise_make(&ctx, dev0, &library, 0), 0);
	CHECK_EQ(awaited(dev0), 66 * MIB);
	CHECK_EQ(promise_bytes(dev0), 66 * MIB);
	CHECK_EQ(awaited(dev1), 0);
	CHECK_EQ(promise_bytes(dev1), 0);
	promise_end_owner(&module);
	promise_end_owner(NULL);
	CHECK_EQ(awaited(dev0), 66 * MIB);
	promise_end_owner(&library);
	CHECK_EQ(awaited(dev0), 0);
	CHECK(promise_is_wanted(&ctx));
}

static void until_it_has_come(void)
{
	promise_init();
	promise_make(&ctx, dev0, &module, 66 * MIB);
	promise_make(&other_ctx, dev0, &module, 130 * MIB);
	/* 500 were there, with what is awaited 696: less than that has brought nothing. */
	CHECK_EQ(promise_look(dev0, 696 * MIB, 500 * MIB), 196 * MIB);
	CHECK_EQ(promise_look(dev0, 696 * MIB, 560 * MIB), 196 * MIB);
	CHECK_EQ(promise_look(dev1, 696 * MIB, 900 * MIB), 0);
	CHECK_EQ(promise_look(dev0, 696 * MIB, 565 * MIB), 130 * MIB);
	CHECK_EQ(promise_look(dev0, 695 * MIB, 695 * MIB), 0);
	/* It is there, whoever comes or goes, until its context ends. */
	promise_make(&ctx, dev0, &library, 66 * MIB);
	promise_change(&ctx, 10 * MIB);
	promise_end_owner(&module);
	CHECK_EQ(awaited(dev0), 0);
	CHECK(!promise_is_wanted(&ctx));
	promise_end_context(&ctx);
	CHECK(promise_is_wanted(&ctx) && !promise_is_wanted(&other_ctx));
	promise_end_context(NULL);
}

/* What was reserved for something else comes in part. */
static void beside_something_else(void)
{
	promise_init();
	promise_make(&ctx, dev0, &module, 66 * MIB);
	/* 500 were there and 20 reserved: up to 22 more may be that. */
	promise_may_lack(dev0, 20 * MIB);
	CHECK_EQ(promise_look(dev0, 586 * MIB, 522 * MIB), 66 * MIB);
	/* That was of one look. */
	CHECK_EQ(promise_look(dev0, 586 * MIB, 566 * MIB), 66 * MIB);
	promise_may_lack(dev0, 20 * MIB);
	CHECK_EQ(promise_look(dev0, 586 * MIB, 566 * MIB), 0);
	/* More than the heap may all be something else. */
	promise_make(&other_ctx, dev0, &module, 66 * MIB);
	promise_may_lack(dev0, 80 * MIB);
	CHECK_EQ(promise_look(dev0, 646 * MIB, 570 * MIB), 66 * MIB);
	promise_end_context(&ctx);
	promise_end_context(&other_ctx);
}

/* Where no look at the card will say that it has come. */
static void kept(void)
{
	promise_init();
	promise_keep(&ctx);
	CHECK(promise_is_wanted(&ctx));
	promise_make(&ctx, dev0, &module, 66 * MIB);
	promise_keep(&ctx);
	CHECK_EQ(promise_bytes(dev0), 0);
	promise_end_owner(&module);
	CHECK(!promise_is_wanted(&ctx));
	promise_end_context(&ctx);
	CHECK(promise_is_wanted(&ctx));
}

/* The driver says of each whether it has come. */
static void one_by_one(void)
{
	struct promise p = { .number = 0 };
	uint64_t first;
	char going;

	promise_init();
	CHECK(!promise_next(dev0, 0, &p));
	promise_make(&ctx, dev0, &module, 66 * MIB);
	promise_make(&other_ctx, dev0, &module, 10 * MIB);
	CHECK(!promise_next(dev1, 0, &p));
	CHECK(promise_next(dev0, 0, &p) && p.ctx == &ctx);
	first = p.number;
	CHECK(promise_next(dev0, first, &p) && p.ctx == &other_ctx);
	CHECK(!promise_next(dev0, p.number, &p));
	/* Nobody is to ask in one that may end. */
	promise_rename(&ctx, &going);
	CHECK(promise_next(dev0, 0, &p) && p.ctx == &other_ctx);
	promise_rename(&going, &ctx);
	CHECK(promise_next(dev0, 0, &p) && p.ctx == &ctx && p.number == first);
	promise_come(p.number);
	CHECK_EQ(promise_bytes(dev0), 10 * MIB);
	CHECK(!promise_is_wanted(&ctx));
	promise_end_context(&ctx);
	/* Another context of that handle awaits its own. */
	promise_make(&ctx, dev0, &library, 66 * MIB);
	promise_come(first);
	CHECK_EQ(promise_bytes(dev0), 76 * MIB);
}

static void of_another_size(void)
{
	promise_init();
	promise_change(&ctx, 10 * MIB);
	CHECK_EQ(awaited(dev0), 0);
	promise_make(&ctx, dev0, &module, 66 * MIB);
	promise_change(&ctx, 10 * MIB);
	CHECK_EQ(awaited(dev0), 10 * MIB);
	promise_end_context(&ctx);
	CHECK_EQ(awaited(dev0), 0);
	/* Its owner is of nobody's concern any more. */
	promise_end_owner(&module);
}

/* Nobody awaits it by then for whom it was reserved: it is to be reserved again. */
static void gone_since(void)
{
	promise_init();
	CHECK_EQ(promise_make(&ctx, dev0, &library, 0), -ENODATA);
	CHECK(promise_is_wanted(&ctx));
	CHECK_EQ(promise_make(&ctx, dev0, &library, 66 * MIB), 0);
	promise_end_owner(&library);
	CHECK_EQ(awaited(dev0), 0);
}

/* What has a handle that another had is another. */
static void of_a_handle_that_is_anothers_now(void)
{
	char going;

	promise_init();
	promise_make(&ctx, dev0, &module, 66 * MIB);
	promise_rename(&module, &going);
	promise_make(&ctx, dev0, &module, 0);
	promise_end_owner(&going);
	CHECK_EQ(awaited(dev0), 66 * MIB);
	promise_rename(&ctx, &going);
	CHECK(promise_is_wanted(&ctx));
	promise_make(&ctx, dev0, &library, 10 * MIB);
	CHECK_EQ(awaited(dev0), 76 * MIB);
	promise_end_context(&going);
	CHECK_EQ(awaited(dev0), 10 * MIB);
	promise_rename(NULL, &going);
	promise_end_owner(&library);
	CHECK_EQ(awaited(dev0), 0);
}

/* It did not go, and was awaited by its own name meanwhile. */
static void still_there(void)
{
	char going;

	promise_init();
	promise_make(&ctx, dev0, &module, 66 * MIB);
	promise_rename(&ctx, &going);
	promise_make(&ctx, dev0, &library, 66 * MIB);
	promise_rename(&going, &ctx);
	CHECK_EQ(awaited(dev0), 66 * MIB);
	promise_end_owner(&module);
	CHECK_EQ(awaited(dev0), 66 * MIB);
	promise_look(dev0, 66 * MIB, 66 * MIB);
	CHECK_EQ(awaited(dev0), 0);
	promise_rename(&ctx, &going);
	promise_make(&ctx, dev0, &module, 66 * MIB);
	promise_rename(&going, &ctx);
	CHECK_EQ(awaited(dev0), 0);
	promise_end_owner(&module);
	CHECK(!promise_is_wanted(&ctx));
	promise_end_context(&ctx);
	CHECK(promise_is_wanted(&ctx));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(awaited_for_its_owners),
		fresh_test(until_it_has_come),
		fresh_test(of_another_size),
		fresh_test(one_by_one),
		fresh_test(beside_something_else),
		fresh_test(kept),
		fresh_test(gone_since),
		fresh_test(of_a_handle_that_is_anothers_now),
		fresh_test(still_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
