#include "core/graph.h"

#include "base/process.h"

#include "fresh.h"

static const struct dev dev0 = { 0 }, dev1 = { 1 };
static const char exec_a, exec_b, stream_a;

static const struct graph_memory freeing = { .bytes = { 100, 20 } };
static const struct graph_memory keeping = { .bytes = { 100, 20 }, .is_kept = true };
static const uint64_t all[RATION_DEVICES] = { 100, 20 }, nothing[RATION_DEVICES];

static void what_is_reserved_is_taken_over_once(void)
{
	uint64_t bytes[RATION_DEVICES] = { 0 };
	struct graph *graph;

	graph_init();
	CHECK(!graph_any());
	CHECK(!graph_launched(&exec_a, NULL, bytes));
	CHECK(!graph_take(&exec_a));
	CHECK(!graph_find(&exec_a, bytes));
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_any());
	CHECK(graph_find(&exec_a, bytes));
	CHECK(bytes[0] == 100 && bytes[1] == 20 && bytes[2] == 0);
	CHECK(graph_launched(&exec_a, NULL, bytes));
	CHECK(bytes[0] == 100 && bytes[1] == 20);
	CHECK(graph_launched(&exec_a, NULL, bytes));
	CHECK(bytes[0] == 0 && bytes[1] == 0);
	graph = graph_take(&exec_a);
	CHECK(graph && !graph_any());
	graph_end(graph, bytes);
	CHECK_EQ(bytes[0] + bytes[1], 0);
}

static void one_that_never_ran_hands_it_over_at_its_end(void)
{
	uint64_t bytes[RATION_DEVICES];
	struct graph *graph;

	graph_init();
	CHECK(graph_enter(&exec_a, &keeping, all));
	CHECK(graph_enter(&exec_b, &freeing, all));
	/* The driver did not destroy it. */
	graph_put_back(graph_take(&exec_a));
	graph = graph_take(&exec_a);
	CHECK(graph);
	graph_end(graph, bytes);
	CHECK(bytes[0] == 100 && bytes[1] == 20);
	CHECK(graph_any());
	/* It kept nothing. */
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 0);
}

/* Destroyed unseen, and the same handle again: the old reservation is the new one's. */
static void a_handle_that_comes_again(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_launched(&exec_a, NULL, bytes));
	CHECK_EQ(bytes[0], 200);
	graph_end(graph_take(&exec_a), bytes);
	CHECK(!graph_any());
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 0), 100);
}

static uint64_t lacks(const void *exec, const void *in, uint64_t held_bytes)
{
	return graph_lacks(exec, in, dev0, held_bytes);
}

/* In one stream graphs share; in two they may run at once. */
static void what_a_store_lacks(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 0), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 70), 30);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 300), 0);
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK_EQ(lacks(&exec_a, NULL, 0), 0);
	CHECK(graph_launched(&exec_a, NULL, bytes));
	CHECK_EQ(lacks(&exec_a, NULL, 100), 0);
	CHECK(graph_enter(&exec_b, &freeing, nothing));
	CHECK_EQ(lacks(&exec_b, NULL, 100), 0);
	CHECK_EQ(lacks(&exec_b, &stream_a, 100), 100);
	CHECK_EQ(lacks(&exec_b, &stream_a, 150), 50);
	CHECK_EQ(lacks(&exec_a, &stream_a, 100), 100);
	CHECK(graph_launched(&exec_b, &stream_a, bytes));
	CHECK_EQ(lacks(&exec_a, NULL, 200), 0);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 100);
	CHECK_EQ(graph_lacks(&exec_a, NULL, dev1, 20), 20);
	/* The store was trimmed: nothing runs. */
	graph_trimmed(dev0, 0);
	CHECK_EQ(lacks(&exec_a, NULL, 0), 100);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 0);
	/* What it still had then is in use. */
	graph_trimmed(dev0, 30);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 30);
	CHECK_EQ(lacks(NULL, NULL, 0), 0);
}

static void what_graphs_keep(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, &keeping, all));
	CHECK_EQ(lacks(&exec_a, NULL, 0), 0);
	CHECK(graph_launched(&exec_a, NULL, bytes));
	CHECK_EQ(lacks(&exec_a, &stream_a, 100), 0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 150), 50);
	/* Freed and trimmed; or not. */
	CHECK_EQ(lacks(&exec_a, NULL, 0), 100);
	graph_trimmed(dev0, 100);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 0);
	/* Another one in what it freed: then its own is not there. */
	CHECK(graph_enter(&exec_b, &keeping, nothing));
	CHECK_EQ(lacks(&exec_b, NULL, 100), 100);
	CHECK(graph_launched(&exec_b, NULL, bytes));
	CHECK_EQ(lacks(&exec_a, NULL, 100), 100);
	/* What a destroyed one kept is at most what the store holds. */
	graph_end(graph_take(&exec_a), bytes);
	graph_end(graph_take(&exec_b), bytes);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 300), 0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 250), 50);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 40), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 40);
	graph_trimmed(dev0, 0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 0);
}

static void stores_have_names_of_their_own(void)
{
	struct dev dev;

	graph_init();
	CHECK(graph_store(dev0) != graph_store(dev1));
	CHECK(graph_is_store(graph_store(dev1), &dev) && dev.v == 1);
	CHECK(!graph_is_store(&exec_a, &dev));
	CHECK(!graph_is_store(NULL, &dev));
}

static void a_child_has_none(void)
{
	int status;
	pid_t pid;

	graph_init();
	CHECK(graph_enter(&exec_a, &freeing, all));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		process_check();
		_exit(graph_any());
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(graph_any());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_is_reserved_is_taken_over_once),
		fresh_test(one_that_never_ran_hands_it_over_at_its_end),
		fresh_test(a_handle_that_comes_again),
		fresh_test(what_a_store_lacks),
		fresh_test(what_graphs_keep),
		fresh_test(stores_have_names_of_their_own),
		fresh_test(a_child_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
