#include "core/graph.h"

#include "base/process.h"

#include "fresh.h"

static const struct dev dev0 = { 0 }, dev1 = { 1 };
static const char exec_a, exec_b;

static const struct graph_memory freeing = { .bytes = { 100, 20 } };
static const struct graph_memory keeping = { .bytes = { 100, 20 }, .is_kept = true };
static const uint64_t all[RATION_DEVICES] = { 100, 20 }, nothing[RATION_DEVICES];

static void what_is_reserved_is_taken_over_once(void)
{
	uint64_t bytes[RATION_DEVICES] = { 0 };
	struct graph *graph;

	graph_init();
	CHECK(!graph_any());
	CHECK(!graph_launched(&exec_a, bytes));
	CHECK(!graph_take(&exec_a));
	CHECK(!graph_find(&exec_a, bytes));
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_any());
	CHECK(graph_find(&exec_a, bytes));
	CHECK(bytes[0] == 100 && bytes[1] == 20 && bytes[2] == 0);
	CHECK(graph_launched(&exec_a, bytes));
	CHECK(bytes[0] == 100 && bytes[1] == 20);
	CHECK(graph_launched(&exec_a, bytes));
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
	CHECK_EQ(graph_lacks(&exec_b, dev0, 0), 0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 0), 100);
}

/* Destroyed unseen, and the same handle again: the old reservation is the new one's. */
static void a_handle_that_comes_again(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_launched(&exec_a, bytes));
	CHECK_EQ(bytes[0], 200);
	graph_end(graph_take(&exec_a), bytes);
	CHECK(!graph_any());
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 0), 100);
}

/* The store is enough when it has what all that are alive want. */
static void what_a_store_lacks(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 0), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 70), 30);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 300), 0);
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK_EQ(graph_lacks(&exec_a, dev0, 0), 0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 0), 100);
	CHECK(graph_launched(&exec_a, bytes));
	CHECK_EQ(graph_lacks(&exec_a, dev0, 100), 0);
	/* Trimmed away. */
	CHECK_EQ(graph_lacks(&exec_a, dev0, 0), 100);
	CHECK_EQ(graph_lacks(&exec_a, dev0, 90), 10);
	CHECK_EQ(graph_lacks(&exec_b, dev0, 0), 0);
	/* Another one ran in the same memory: either may now find the other's work in it. */
	CHECK(graph_enter(&exec_b, &freeing, nothing));
	CHECK_EQ(graph_lacks(&exec_b, dev0, 100), 100);
	CHECK_EQ(graph_lacks(&exec_a, dev0, 100), 100);
	CHECK_EQ(graph_lacks(&exec_a, dev0, 200), 0);
	CHECK_EQ(graph_lacks(&exec_a, dev1, 20), 20);
	graph_end(graph_take(&exec_b), bytes);
	CHECK_EQ(graph_lacks(&exec_a, dev0, 100), 0);
}

static void what_a_destroyed_graph_kept(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, &keeping, all));
	CHECK(graph_launched(&exec_a, bytes));
	graph_end(graph_take(&exec_a), bytes);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 150), 50);
	/* A trim tells how much of it is left, and a store that shrank too. */
	graph_trimmed(dev0, 40);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 40);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 30), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 130), 0);
	/* One that frees all itself leaves nothing. */
	graph_trimmed(dev1, 0);
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_launched(&exec_a, bytes));
	graph_end(graph_take(&exec_a), bytes);
	CHECK_EQ(graph_lacks_for_new(dev1, &freeing, 20), 0);
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
		fresh_test(what_a_destroyed_graph_kept),
		fresh_test(stores_have_names_of_their_own),
		fresh_test(a_child_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
