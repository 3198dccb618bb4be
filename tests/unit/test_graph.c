#include "core/graph.h"

#include "base/process.h"

#include "fresh.h"

static const struct dev dev0 = { 0 }, dev1 = { 1 };
static const char exec_a, exec_b, stream_a;

static const struct graph_memory freeing = { .bytes = { 100, 20 } };
static const struct graph_memory keeping = { .bytes = { 100, 20 }, .is_kept = true };
static const uint64_t all[RATION_DEVICES] = { 100, 20 }, nothing[RATION_DEVICES];

/* On its way in a stream of a store that holds so much. */
static struct graph_flight fly(const void *exec, const void *in, struct dev dev,
			       uint64_t held_bytes)
{
	struct graph_look looks[RATION_DEVICES] = { { 0 } };
	struct graph_flight f;

	for (int d = 0; d < RATION_DEVICES; d++)
		looks[d].trims = graph_trims((struct dev){ d });
	looks[dev.v].held_bytes = held_bytes;
	CHECK(graph_fly(&f, exec, in, looks));
	CHECK(graph_go(&f, looks));
	return f;
}

/* False for one that is not entered. */
static bool launched(const void *exec, const void *in, uint64_t out_bytes[RATION_DEVICES])
{
	struct graph_flight f = fly(exec, in, dev0, 0);

	graph_landed(&f, true, out_bytes);
	return f.memory_bytes[0] > 0;
}

static uint64_t lacks_on(const void *exec, const void *in, struct dev dev, uint64_t held_bytes)
{
	struct graph_flight f = fly(exec, in, dev, held_bytes);
	uint64_t none[RATION_DEVICES];

	graph_landed(&f, false, none);
	return f.lack_bytes[dev.v];
}

static void trim(uint64_t held_bytes)
{
	uint64_t begun = graph_trim_begin(dev0);

	CHECK(graph_is_changing(dev0));
	graph_trim_end(dev0, begun, true, held_bytes);
	CHECK(!graph_is_changing(dev0));
}

static void what_is_reserved_is_taken_over_once(void)
{
	uint64_t bytes[RATION_DEVICES] = { 0 };
	struct graph *graph;

	graph_init();
	CHECK(!graph_any());
	CHECK(!launched(&exec_a, NULL, bytes));
	CHECK(!graph_take(&exec_a));
	CHECK(!graph_find(&exec_a, bytes));
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_any());
	CHECK(graph_find(&exec_a, bytes));
	CHECK(bytes[0] == 100 && bytes[1] == 20 && bytes[2] == 0);
	CHECK(launched(&exec_a, NULL, bytes));
	CHECK(bytes[0] == 100 && bytes[1] == 20);
	CHECK(launched(&exec_a, NULL, bytes));
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
	CHECK(launched(&exec_a, NULL, bytes));
	CHECK_EQ(bytes[0], 200);
	graph_end(graph_take(&exec_a), bytes);
	CHECK(!graph_any());
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 0), 100);
}

static uint64_t lacks(const void *exec, const void *in, uint64_t held_bytes)
{
	return lacks_on(exec, in, dev0, held_bytes);
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
	CHECK(launched(&exec_a, NULL, bytes));
	CHECK_EQ(lacks(&exec_a, NULL, 100), 0);
	CHECK(graph_enter(&exec_b, &freeing, nothing));
	CHECK_EQ(lacks(&exec_b, NULL, 100), 0);
	CHECK_EQ(lacks(&exec_b, &stream_a, 100), 100);
	CHECK_EQ(lacks(&exec_b, &stream_a, 150), 50);
	CHECK_EQ(lacks(&exec_a, &stream_a, 100), 100);
	CHECK(launched(&exec_b, &stream_a, bytes));
	CHECK_EQ(lacks(&exec_a, NULL, 200), 0);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 100);
	CHECK_EQ(lacks_on(&exec_a, NULL, dev1, 20), 20);
	/* The store was trimmed: nothing runs. */
	trim(0);
	CHECK_EQ(lacks(&exec_a, NULL, 0), 100);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 0);
	/* What it still had then is in use. */
	trim(30);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 30);
	CHECK_EQ(lacks(NULL, NULL, 0), 0);
}

static void what_graphs_keep(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, &keeping, all));
	CHECK_EQ(lacks(&exec_a, NULL, 0), 0);
	CHECK(launched(&exec_a, NULL, bytes));
	CHECK_EQ(lacks(&exec_a, &stream_a, 100), 0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 150), 50);
	/* Freed and trimmed; or not. */
	CHECK_EQ(lacks(&exec_a, NULL, 0), 100);
	trim(100);
	CHECK_EQ(lacks(&exec_a, NULL, 100), 0);
	/* Another one in what it freed: then its own is not there. */
	CHECK(graph_enter(&exec_b, &keeping, nothing));
	CHECK_EQ(lacks(&exec_b, NULL, 100), 100);
	CHECK(launched(&exec_b, NULL, bytes));
	CHECK_EQ(lacks(&exec_a, NULL, 100), 100);
	/* What a destroyed one kept is at most what the store holds. */
	graph_end(graph_take(&exec_a), bytes);
	graph_end(graph_take(&exec_b), bytes);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 300), 0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 250), 50);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 40), 100);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 40);
	trim(0);
	CHECK_EQ(graph_lacks_for_new(dev0, &freeing, 100), 0);
}

/* What a launch in the driver takes, no other may count on; whether the store has it yet or not. */
static void launches_at_once(void)
{
	uint64_t bytes[RATION_DEVICES], none[RATION_DEVICES];
	struct graph_flight first, second, again;
	struct graph_look looks[RATION_DEVICES] = { { 0 } };
	uint64_t begun;
	char other;

	graph_init();
	CHECK(graph_enter(&exec_a, &freeing, all));
	CHECK(graph_enter(&exec_b, &freeing, nothing));
	first = fly(&exec_a, NULL, dev0, 0);
	CHECK(first.lack_bytes[0] == 0 && !first.is_beside);
	CHECK(graph_is_changing(dev0));
	CHECK_EQ(lacks(&exec_b, &stream_a, 0), 100);
	CHECK_EQ(lacks(&exec_b, &stream_a, 100), 100);
	CHECK_EQ(lacks(&exec_b, &stream_a, 150), 50);
	second = fly(&exec_b, &stream_a, dev0, 100);
	CHECK(second.lack_bytes[0] == 100 && second.is_beside);
	/* The reservation is the first one's. */
	again = fly(&exec_a, &stream_a, dev0, 200);
	CHECK_EQ(again.lack_bytes[0], 100);
	graph_landed(&again, false, none);
	graph_landed(&first, true, bytes);
	CHECK_EQ(bytes[0], 100);
	graph_landed(&second, true, bytes);
	CHECK_EQ(bytes[0], 0);
	CHECK(!graph_is_changing(dev0));
	CHECK_EQ(lacks(&exec_b, &stream_a, 200), 0);
	/* Destroyed on its way. */
	first = fly(&exec_a, NULL, dev0, 200);
	graph_end(graph_take(&exec_a), bytes);
	graph_landed(&first, true, bytes);
	CHECK_EQ(lacks(&exec_b, &stream_a, 200), 0);
	/* A trim beside a launch knows nothing anew. */
	begun = graph_trim_begin(dev0);
	first = fly(&exec_b, &stream_a, dev0, 200);
	graph_landed(&first, true, bytes);
	graph_trim_end(dev0, begun, true, 0);
	CHECK_EQ(lacks(&exec_b, &other, 100), 100);
	/* Trimmed since it was looked at, or since the reservation. */
	for (int d = 0; d < RATION_DEVICES; d++)
		looks[d].trims = graph_trims((struct dev){ d });
	CHECK(graph_fly(&second, &exec_b, NULL, looks));
	trim(0);
	CHECK(!graph_go(&second, looks));
	graph_landed(&second, false, none);
	CHECK(!graph_fly(&first, &exec_b, NULL, looks));
	graph_landed(&first, false, none);
	CHECK(!graph_is_changing(dev0));
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
		fresh_test(launches_at_once),
		fresh_test(stores_have_names_of_their_own),
		fresh_test(a_child_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
