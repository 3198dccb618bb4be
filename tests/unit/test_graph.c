#include "core/graph.h"

#include "base/process.h"

#include "fresh.h"

static const struct dev dev0 = { 0 }, dev1 = { 1 };
static const char exec_a, exec_b;

static uint64_t want[RATION_DEVICES] = { 100, 20 };

static void what_is_reserved_is_taken_over_once(void)
{
	struct graph_part parts[RATION_DEVICES];
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(!graph_any());
	CHECK(!graph_launched(&exec_a, parts));
	CHECK(!graph_leave(&exec_a, bytes));
	CHECK(graph_enter(&exec_a, want));
	CHECK(graph_any());
	CHECK(!graph_missing(&exec_a, bytes));
	CHECK(graph_launched(&exec_a, parts));
	CHECK_EQ(parts[0].reserved_bytes, 100);
	CHECK_EQ(parts[1].reserved_bytes, 20);
	CHECK(parts[0].has_memory && parts[1].has_memory && !parts[2].has_memory);
	CHECK(graph_launched(&exec_a, parts));
	CHECK_EQ(parts[0].reserved_bytes, 0);
	CHECK(parts[0].has_memory);
	CHECK(graph_leave(&exec_a, bytes));
	CHECK_EQ(bytes[0] + bytes[1], 0);
	CHECK(!graph_any());
}

static void one_that_never_ran_hands_it_over_at_its_end(void)
{
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, want));
	CHECK(graph_enter(&exec_b, want));
	CHECK(graph_leave(&exec_a, bytes));
	CHECK_EQ(bytes[0], 100);
	CHECK_EQ(bytes[1], 20);
	CHECK(graph_any());
	CHECK(graph_leave(&exec_b, bytes));
	CHECK(!graph_any());
}

/* Destroyed unseen, and the same handle again: the old reservation is the new one's. */
static void a_handle_that_comes_again(void)
{
	struct graph_part parts[RATION_DEVICES];
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, want));
	CHECK(graph_enter(&exec_a, want));
	CHECK(graph_launched(&exec_a, parts));
	CHECK_EQ(parts[0].reserved_bytes, 200);
	CHECK(graph_leave(&exec_a, bytes));
	CHECK(!graph_any());
}

static void a_trim_makes_the_next_launch_reserve_again(void)
{
	struct graph_part parts[RATION_DEVICES];
	uint64_t bytes[RATION_DEVICES];

	graph_init();
	CHECK(graph_enter(&exec_a, want));
	/* It has its reservation still. */
	graph_trimmed(dev0);
	CHECK(!graph_missing(&exec_a, bytes));
	CHECK(graph_launched(&exec_a, parts));
	CHECK(!graph_missing(&exec_a, bytes));
	graph_trimmed(dev1);
	CHECK(graph_missing(&exec_a, bytes));
	CHECK_EQ(bytes[0], 0);
	CHECK_EQ(bytes[1], 20);
	/* A launch that failed changes nothing. */
	CHECK(graph_missing(&exec_a, bytes));
	CHECK(graph_launched(&exec_a, parts));
	CHECK(!graph_missing(&exec_a, bytes));
	CHECK(!graph_missing(&exec_b, bytes));
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
	CHECK(graph_enter(&exec_a, want));
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
		fresh_test(a_trim_makes_the_next_launch_reserve_again),
		fresh_test(stores_have_names_of_their_own),
		fresh_test(a_child_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
