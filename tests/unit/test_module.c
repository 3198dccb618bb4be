#include "core/context.h"
#include "core/library.h"
#include "core/lodger.h"
#include "core/module.h"
#include "core/untold.h"

#include "fresh.h"

static char handles[2000], library, ctx, other_ctx;
static const struct dev dev0 = { 0 }, dev1 = { 1 };

static void its_code_comes_once(void)
{
	const struct module_facts facts = { .dev = { 1 }, .ctx = &ctx, .code_bytes = 5000 };
	struct module_facts found;

	module_init();
	CHECK(!module_find(&handles[0], &found));
	module_came(&handles[0]);
	CHECK(!module_find(&handles[0], &found));
	CHECK(!module_any(facts.dev));
	module_enter(&handles[0], &facts);
	CHECK(module_any(facts.dev));
	CHECK(module_find(&handles[0], &found));
	CHECK(found.dev.v == 1 && found.ctx == &ctx && !found.owner && !found.has_code);
	CHECK_EQ(found.code_bytes, 5000);
	module_came(&handles[0]);
	CHECK(module_find(&handles[0], &found) && found.has_code);
	/* The handle is given again. */
	module_enter(&handles[0], &facts);
	CHECK(module_find(&handles[0], &found) && !found.has_code);
	module_over(module_take(&handles[0]), true);
	module_over(module_take(&handles[0]), true);
	CHECK(!module_any(facts.dev));
	CHECK(!module_find(&handles[0], &found));
}

static void they_end_with_what_they_are_of(void)
{
	struct module_facts found;

	module_init();
	for (int i = 0; i < 2000; i++)
		module_enter(&handles[i],
			     &(struct module_facts){ .owner = i % 2 ? &library : NULL,
						     .ctx = i % 3 ? &ctx : &other_ctx });
	CHECK(!module_take_library(NULL));
	module_end_context(NULL, UINT64_MAX);
	module_over(module_take_library(&library), true);
	for (int i = 0; i < 2000; i++)
		CHECK(module_find(&handles[i], &found) == (i % 2 == 0));
	module_end_context(&ctx, UINT64_MAX);
	for (int i = 0; i < 2000; i++)
		CHECK(module_find(&handles[i], &found) == (i % 6 == 0));
}

static void a_library_has_its_code_later(void)
{
	library_init();
	library_note(&library, (struct library_need){ .bytes = 100, .code_bytes = 7 });
	CHECK(!library_any(dev1));
	CHECK(!library_is_in(&library, &ctx, LIBRARY_DATA));
	library_enter(&library, &ctx, dev1, LIBRARY_DATA);
	CHECK(library_any(dev1) && !library_any(dev0));
	CHECK(library_is_in(&library, &ctx, LIBRARY_DATA));
	CHECK(!library_is_in(&library, &ctx, LIBRARY_CODE));
	library_enter(&library, &ctx, dev1, LIBRARY_CODE);
	library_enter(&library, &ctx, dev1, LIBRARY_DATA);
	CHECK(library_is_in(&library, &ctx, LIBRARY_CODE));
	CHECK(!library_is_in(&library, &other_ctx, LIBRARY_DATA));
	library_enter(&library, &other_ctx, dev0, LIBRARY_CODE);
	CHECK(library_any(dev0));
	CHECK(library_is_in(&library, &other_ctx, LIBRARY_DATA));
	/* The next context may have the same handle. */
	library_end_context(&ctx, UINT64_MAX);
	CHECK(!library_any(dev1) && library_any(dev0));
	CHECK(!library_is_in(&library, &ctx, LIBRARY_DATA));
	CHECK(library_is_in(&library, &other_ctx, LIBRARY_CODE));
	CHECK_EQ(library_need(&library).bytes, 100);
	CHECK_EQ(library_need(&library).code_bytes, 7);
	library_over(library_take(&library), true);
	CHECK(!library_any(dev0));
	CHECK(!library_is_in(&library, &other_ctx, LIBRARY_DATA));
	CHECK_EQ(library_need(&library).bytes, 0);
}

static void what_was_refused_is_there(void)
{
	const struct module_facts facts = { .dev = { 1 }, .ctx = &ctx };
	struct module_facts found;

	library_init();
	library_refuse(&library, &ctx, dev1, LIBRARY_DATA);
	CHECK(!library_is_in(&library, &ctx, LIBRARY_DATA));
	CHECK(library_is_there(&library, &ctx, LIBRARY_DATA));
	CHECK(!library_is_there(&library, &ctx, LIBRARY_CODE));
	CHECK(!library_is_there(&library, &other_ctx, LIBRARY_DATA));
	CHECK(library_any(dev1));
	library_enter(&library, &ctx, dev1, LIBRARY_DATA);
	CHECK(library_is_in(&library, &ctx, LIBRARY_DATA));
	library_refuse(&library, &ctx, dev1, LIBRARY_CODE);
	CHECK(library_is_in(&library, &ctx, LIBRARY_DATA));
	CHECK(!library_is_in(&library, &ctx, LIBRARY_CODE));
	CHECK(library_is_there(&library, &ctx, LIBRARY_CODE));
	library_over(library_take(&library), true);
	CHECK(!library_is_there(&library, &ctx, LIBRARY_DATA) && !library_any(dev1));
	module_init();
	module_refuse(&handles[0]);
	module_enter(&handles[0], &facts);
	module_refuse(&handles[0]);
	CHECK(module_find(&handles[0], &found) && found.is_refused && !found.has_code);
	module_came(&handles[0]);
	CHECK(module_find(&handles[0], &found) && found.has_code);
	module_over(module_take(&handles[0]), true);
}

/* What the driver did not unload is known as before. */
static void what_is_not_unloaded(void)
{
	const struct module_facts facts = { .dev = { 1 }, .ctx = &ctx, .owner = &library };
	struct library_place *places;
	struct module_facts found;
	struct module *modules;

	module_init();
	library_init();
	library_note(&library, (struct library_need){ .bytes = 100, .code_bytes = 7 });
	library_enter(&library, &ctx, dev1, LIBRARY_CODE);
	for (int i = 0; i < 2; i++) {
		module_enter(&handles[i], &facts);
		module_came(&handles[i]);
	}
	modules = module_take_library(&library);
	places = library_take(&library);
	CHECK(!module_any(dev1) && !library_any(dev1));
	CHECK(!library_is_in(&library, &ctx, LIBRARY_DATA));
	/* Seen again meanwhile, and in another context. */
	module_enter(&handles[0], &(struct module_facts){ .dev = dev1, .ctx = &ctx });
	library_enter(&library, &ctx, dev1, LIBRARY_DATA);
	library_enter(&library, &other_ctx, dev1, LIBRARY_DATA);
	module_over(modules, false);
	library_over(places, false);
	for (int i = 0; i < 2; i++)
		CHECK(module_find(&handles[i], &found) && found.has_code &&
		      found.owner == &library);
	CHECK(library_is_in(&library, &ctx, LIBRARY_CODE));
	CHECK(library_is_in(&library, &other_ctx, LIBRARY_DATA));
	CHECK_EQ(library_need(&library).code_bytes, 7);
	module_over(module_take_library(&library), true);
	library_over(library_take(&library), true);
	CHECK(!module_any(dev1) && !library_any(dev1));
}

static void what_is_untold_ends_once(void)
{
	struct untold_bytes all = { 0 };
	const uint64_t *bytes = all.module;

	untold_init();
	untold_add(&library, &ctx, dev0, 10);
	untold_add(&library, &ctx, dev0, 0);
	untold_add(&library, &other_ctx, dev1, 20);
	untold_add(&handles[0], &ctx, dev0, 40);
	untold_add(&handles[1], NULL, dev1, 80);
	untold_take(NULL, &all);
	untold_take_context(NULL, UINT64_MAX, &all);
	CHECK(bytes[0] == 0 && bytes[1] == 0);
	untold_take(&library, &all);
	CHECK(bytes[0] == 10 && bytes[1] == 20);
	untold_take(&library, &all);
	untold_take_context(&ctx, UINT64_MAX, &all);
	CHECK(bytes[0] == 50 && bytes[1] == 20);
	untold_take(&handles[0], &all);
	untold_take(&handles[1], &all);
	CHECK(bytes[0] == 50 && bytes[1] == 100);
	CHECK(all.managed[0] == 0 && all.managed[1] == 0);
}

static void managed_variables_apart(void)
{
	struct untold_bytes all = { 0 };

	untold_init();
	untold_add(&library, &ctx, dev0, 10);
	CHECK(!untold_has_managed(&library));
	untold_add_managed(&library, NULL, dev0, 100);
	untold_add_managed(&handles[0], &ctx, dev1, 200);
	CHECK(untold_has_managed(&library) && !untold_has_managed(&handles[1]));
	untold_take_context(&ctx, UINT64_MAX, &all);
	CHECK(all.module[0] == 10 && all.managed[0] == 0 && all.managed[1] == 200);
	untold_rename(&library, &handles[1]);
	CHECK(untold_has_managed(&handles[1]) && !untold_has_managed(&library));
	untold_take(&handles[1], &all);
	CHECK(all.module[0] == 10 && all.managed[0] == 100 && all.managed[1] == 200);
}

/* A context that was made meanwhile has the handle of one that ended: what came to it stays. */
static void what_is_anothers_by_now_stays(void)
{
	const struct module_facts facts = { .dev = { 1 }, .ctx = &ctx };
	struct untold_bytes all = { 0 };
	uint64_t mark;
	struct module_facts found;

	context_init();
	module_init();
	library_init();
	lodger_init();
	untold_init();
	context_enter(&ctx, dev1, 0);
	for (int i = 0; i < 2; i++) {
		module_enter(&handles[i], &facts);
		lodger_enter(&handles[i], &ctx, dev1, 4096);
	}
	library_enter(&library, &ctx, dev1, LIBRARY_CODE);
	untold_add(&handles[0], &ctx, dev1, 10);
	mark = context_mark();
	context_enter(&ctx, dev1, 0);
	library_end_context(&ctx, UINT64_MAX);
	library_enter(&library, &ctx, dev1, LIBRARY_CODE);
	module_enter(&handles[1], &facts);
	lodger_enter(&handles[1], &ctx, dev1, 4096);
	untold_add(&handles[1], &ctx, dev1, 20);
	library_end_context(&ctx, mark);
	module_end_context(&ctx, mark);
	lodger_end_context(&ctx, mark);
	untold_take_context(&ctx, mark, &all);
	CHECK(library_is_in(&library, &ctx, LIBRARY_CODE));
	CHECK(!module_find(&handles[0], &found) && module_find(&handles[1], &found));
	CHECK(lodger_any(dev1));
	CHECK_EQ(all.module[1], 10);
	mark = context_mark();
	lodger_end_context(&ctx, mark);
	CHECK(!lodger_any(dev1));
}

/* An unload that the driver refuses leaves it charged for its owner. */
static void what_is_untold_of_an_owner_that_stays(void)
{
	struct untold_bytes all = { 0 };
	char going;

	untold_init();
	untold_add(&library, &ctx, dev0, 10);
	untold_rename(NULL, &going);
	untold_rename(&library, &going);
	/* Another has its handle. */
	untold_add(&library, &ctx, dev0, 20);
	untold_rename(&going, &library);
	untold_take(&library, &all);
	CHECK_EQ(all.module[0], 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(its_code_comes_once),
		fresh_test(they_end_with_what_they_are_of),
		fresh_test(a_library_has_its_code_later),
		fresh_test(what_was_refused_is_there),
		fresh_test(what_is_not_unloaded),
		fresh_test(what_is_untold_ends_once),
		fresh_test(managed_variables_apart),
		fresh_test(what_is_anothers_by_now_stays),
		fresh_test(what_is_untold_of_an_owner_that_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
