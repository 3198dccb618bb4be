#include "core/exec_uses.h"

#include "base/clock.h"
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { NODES = 16 };

static const char execs[8], nodes[NODES];

/* What was noted, by address: launches, and how often. */
static struct {
	uint64_t launches, times;
} noted[64];

static void note(const struct exec_use *use, uint32_t launches)
{
	noted[use->addr].launches += launches;
	noted[use->addr].times++;
}

static int64_t now_ns = NSEC_PER_SEC;

/* As long as lists of a few uses are left alone. */
static void rest(void)
{
	now_ns += 20 * NSEC_PER_MSEC;
}

/* What one launch is noted as, at this address, beside what else was. */
static uint64_t launch(const void *exec, uint64_t addr)
{
	rest();
	memset(noted, 0, sizeof(noted));
	exec_uses_launched(exec, now_ns, note);
	return noted[addr].launches;
}

static void use(struct exec_uses *list, uint64_t addr)
{
	exec_uses_add(list, &(struct exec_use){ .addr = addr });
}

/* Nodes 0.. that use these addresses, at these depths. */
static struct exec_uses *list_of(unsigned count, const uint64_t *addrs, const unsigned *depths)
{
	struct exec_uses *list = exec_uses_new();

	for (unsigned i = 0; i < count; i++) {
		exec_uses_add_node(list, &nodes[i], depths ? depths[i] : 0);
		use(list, addrs[i]);
	}
	return list;
}

static struct exec_uses *one(const void *node, uint64_t addr)
{
	struct exec_uses *list = exec_uses_new();

	exec_uses_add_node(list, node, 0);
	if (addr)
		use(list, addr);
	return list;
}

static void what_is_not_known_uses_nothing(void **state)
{
	(void)state;
	assert_null(exec_uses_take(&execs[0]));
	exec_uses_launched(&execs[0], now_ns, note);
	exec_uses_enter(&execs[0], NULL);
	exec_uses_set_node(&execs[0], &nodes[0], NULL);
	exec_uses_set(&execs[0], NULL);
	exec_uses_free(NULL);
	exec_uses_add_node(NULL, &nodes[0], 0);
	use(NULL, 1);
	/* A use without a node is nobody's. */
	exec_uses_enter(&execs[0], exec_uses_new());
	assert_int_equal(launch(&execs[0], 0), 0);
	exec_uses_free(exec_uses_take(&execs[0]));
}

static void all_launches_are_noted_but_not_each_by_itself(void **state)
{
	struct exec_uses *list;

	(void)state;
	exec_uses_enter(&execs[0], list_of(3, (uint64_t[]){ 1, 2, 1 }, NULL));
	assert_int_equal(launch(&execs[0], 1), 2);
	assert_int_equal(noted[2].launches, 1);
	rest();
	memset(noted, 0, sizeof(noted));
	for (int i = 0; i < 1000; i++)
		exec_uses_launched(&execs[0], now_ns, note);
	rest();
	exec_uses_launched(&execs[0], now_ns, note);
	assert_int_equal(noted[2].launches, 1001);
	assert_int_equal(noted[2].times, 2);
	/* Of no other graph. */
	assert_int_equal(launch(&execs[1], 1), 0);
	/* One that was not destroyed after all. */
	list = exec_uses_take(&execs[0]);
	assert_non_null(list);
	assert_int_equal(launch(&execs[0], 1), 0);
	exec_uses_enter(&execs[0], list);
	assert_int_equal(launch(&execs[0], 1), 2);
	/* The same handle again. */
	exec_uses_enter(&execs[0], list_of(1, (uint64_t[]){ 3 }, NULL));
	assert_int_equal(launch(&execs[0], 1), 0);
	assert_int_equal(noted[3].launches, 1);
	exec_uses_free(exec_uses_take(&execs[0]));
}

static void a_long_list_is_noted_more_seldom(void **state)
{
	struct exec_uses *list = one(&nodes[0], 1);

	(void)state;
	for (int i = 0; i < 9999; i++)
		use(list, 2);
	exec_uses_enter(&execs[0], list);
	assert_int_equal(launch(&execs[0], 1), 1);
	assert_int_equal(noted[2].times, 9999);
	assert_int_equal(launch(&execs[0], 1), 0);
	assert_int_equal(launch(&execs[0], 1), 0);
	assert_int_equal(launch(&execs[0], 1), 3);
	exec_uses_free(exec_uses_take(&execs[0]));
}

static void a_node_that_was_changed_uses_something_else(void **state)
{
	(void)state;
	exec_uses_enter(&execs[0], list_of(3, (uint64_t[]){ 1, 2, 3 }, NULL));
	exec_uses_set_node(&execs[0], &nodes[1], one(&nodes[1], 9));
	assert_int_equal(launch(&execs[0], 2), 0);
	assert_int_equal(noted[9].launches, 1);
	assert_int_equal(noted[1].launches + noted[3].launches, 2);
	/* In any order, to nothing and back; others are not known. */
	exec_uses_set_node(&execs[0], &nodes[0], one(&nodes[0], 0));
	exec_uses_set_node(&execs[0], &nodes[5], one(&nodes[5], 8));
	exec_uses_set_node(&execs[0], &nodes[2], one(&nodes[2], 7));
	exec_uses_set_node(&execs[0], &nodes[1], NULL);
	assert_int_equal(launch(&execs[0], 7), 1);
	assert_int_equal(noted[1].launches + noted[9].launches + noted[8].launches, 0);
	exec_uses_set_node(&execs[0], &nodes[0], one(&nodes[0], 1));
	assert_int_equal(launch(&execs[0], 1), 1);
	exec_uses_free(exec_uses_take(&execs[0]));
}

static void a_child_graph_changes_with_all_that_is_in_it(void **state)
{
	const unsigned depths[] = { 0, 0, 1, 2, 0 };
	struct exec_uses *list;

	(void)state;
	exec_uses_enter(&execs[0], list_of(5, (uint64_t[]){ 1, 2, 3, 4, 5 }, depths));
	list = exec_uses_new();
	for (unsigned i = 0; i < 3; i++) {
		exec_uses_add_node(list, &nodes[10 + i], i);
		use(list, 10 + i);
	}
	exec_uses_set_node(&execs[0], &nodes[1], list);
	assert_int_equal(launch(&execs[0], 10), 1);
	assert_int_equal(noted[11].launches + noted[12].launches, 2);
	assert_int_equal(noted[1].launches + noted[5].launches, 2);
	assert_int_equal(noted[2].launches + noted[3].launches + noted[4].launches, 0);
	/* Its nodes are known by the names they had. */
	exec_uses_set_node(&execs[0], &nodes[3], one(&nodes[3], 20));
	exec_uses_set_node(&execs[0], &nodes[11], one(&nodes[11], 21));
	assert_int_equal(launch(&execs[0], 20), 1);
	assert_int_equal(noted[12].launches + noted[21].launches, 0);
	assert_int_equal(noted[11].launches, 1);
	/* Of another size: it is said to use all of it. */
	list = one(&nodes[1], 30);
	exec_uses_add_node(list, &nodes[2], 1);
	use(list, 31);
	exec_uses_set_node(&execs[0], &nodes[1], list);
	assert_int_equal(launch(&execs[0], 30), 1);
	assert_int_equal(noted[31].launches, 1);
	assert_int_equal(noted[10].launches + noted[11].launches + noted[20].launches, 0);
	assert_int_equal(noted[1].launches + noted[5].launches, 2);
	exec_uses_free(exec_uses_take(&execs[0]));
}

static void an_update_changes_all_and_leaves_the_names(void **state)
{
	struct exec_uses *list;

	(void)state;
	exec_uses_enter(&execs[0], list_of(2, (uint64_t[]){ 1, 2 }, NULL));
	list = one(&nodes[8], 8);
	exec_uses_add_node(list, &nodes[9], 0);
	use(list, 9);
	exec_uses_set(&execs[0], list);
	assert_int_equal(launch(&execs[0], 8), 1);
	assert_int_equal(noted[9].launches, 1);
	assert_int_equal(noted[1].launches + noted[2].launches, 0);
	exec_uses_set_node(&execs[0], &nodes[1], one(&nodes[1], 3));
	assert_int_equal(launch(&execs[0], 3), 1);
	assert_int_equal(noted[9].launches, 0);
	exec_uses_set(&execs[0], one(&nodes[0], 5));
	assert_int_equal(launch(&execs[0], 5), 1);
	assert_int_equal(noted[3].launches + noted[8].launches, 0);
	exec_uses_set(&execs[0], NULL);
	assert_int_equal(launch(&execs[0], 5), 0);
	exec_uses_free(exec_uses_take(&execs[0]));
	/* Of what was not known before. */
	exec_uses_set(&execs[0], one(&nodes[0], 6));
	assert_int_equal(launch(&execs[0], 6), 1);
	exec_uses_free(exec_uses_take(&execs[0]));
}

/* More than is kept: what came first is seen, and with its end there is room again. */
static void there_is_an_end_to_what_is_kept(void **state)
{
	enum { MANY = 3 << 20 };

	(void)state;
	for (int round = 0; round < 2; round++) {
		struct exec_uses *list = exec_uses_new(), *next;

		exec_uses_add_node(list, &nodes[0], 0);
		for (int i = 0; i < MANY; i++)
			use(list, 1);
		next = one(&nodes[1], 2);
		exec_uses_enter(&execs[0], list);
		exec_uses_enter(&execs[1], next);
		assert_in_range(launch(&execs[0], 1), 1 << 20, 1 << 21);
		list = exec_uses_new();
		for (int i = 0; i < MANY; i++)
			exec_uses_add_node(list, &nodes[2], 0);
		exec_uses_free(list);
		exec_uses_free(exec_uses_take(&execs[0]));
		exec_uses_free(exec_uses_take(&execs[1]));
	}
	exec_uses_enter(&execs[0], one(&nodes[0], 1));
	assert_int_equal(launch(&execs[0], 1), 1);
	exec_uses_free(exec_uses_take(&execs[0]));
}

/* A list's nodes, as a test knows them. */
struct model {
	unsigned count, depths[NODES];
	uint64_t addrs[NODES]; /* 0: it uses nothing */
};

static struct exec_uses *make(const struct model *m)
{
	struct exec_uses *list = exec_uses_new();

	for (unsigned i = 0; i < m->count; i++) {
		exec_uses_add_node(list, &nodes[i], m->depths[i]);
		if (m->addrs[i])
			use(list, m->addrs[i]);
	}
	return list;
}

static unsigned random_below(unsigned *seed, unsigned end)
{
	return (unsigned)rand_r(seed) % end;
}

static void change(struct model *m, unsigned *seed)
{
	unsigned at = random_below(seed, m->count), end = at + 1;
	struct exec_uses *list = exec_uses_new();

	while (end < m->count && m->depths[end] > m->depths[at])
		end++;
	if (random_below(seed, 4) == 0)
		at = 0, end = m->count;
	for (unsigned i = at; i < end; i++) {
		m->addrs[i] = random_below(seed, 60);
		exec_uses_add_node(list, &nodes[(i + 3) % NODES], m->depths[i]);
		if (m->addrs[i])
			use(list, m->addrs[i]);
	}
	if (end - at == m->count)
		exec_uses_set(&execs[0], list);
	else
		exec_uses_set_node(&execs[0], &nodes[at], list);
}

static void any_changes_come_out_as_they_should(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 30; round++) {
		struct model m = { .count = 1 + round % NODES };
		uint64_t want[64] = { 0 };
		unsigned seed = round + 1;

		for (unsigned i = 0; i < m.count; i++) {
			m.depths[i] = i ? random_below(&seed, m.depths[i - 1] + 2) : 0;
			m.addrs[i] = random_below(&seed, 60);
		}
		exec_uses_enter(&execs[0], make(&m));
		for (unsigned i = 0; i < 40; i++)
			change(&m, &seed);
		for (unsigned i = 0; i < m.count; i++)
			want[m.addrs[i]] += m.addrs[i] != 0;
		launch(&execs[0], 0);
		for (unsigned i = 0; i < 64; i++)
			assert_int_equal(noted[i].launches, want[i]);
		exec_uses_free(exec_uses_take(&execs[0]));
	}
}

static _Atomic uint64_t launches_noted;

static void count(const struct exec_use *use_, uint32_t launches)
{
	if (use_->addr == 1)
		atomic_fetch_add(&launches_noted, launches);
}

enum { LAUNCHES = 20000 };

static void *launch_much(void *arg)
{
	for (int i = 0; i < LAUNCHES; i++) {
		exec_uses_launched(&execs[0], i * NSEC_PER_MSEC, count);
		exec_uses_launched(&execs[1 + i % 7], i * NSEC_PER_MSEC, count);
	}
	return arg;
}

/* Its own graph comes and goes, and changes; the others' and everybody's changes too. */
static void *change_much(void *arg)
{
	unsigned own = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < LAUNCHES / 4; i++) {
		exec_uses_enter(&execs[own], list_of(3, (uint64_t[]){ 2, 3, 4 }, NULL));
		exec_uses_set_node(&execs[own], &nodes[i % 3], one(&nodes[0], 5));
		exec_uses_set_node(&execs[0], &nodes[1], one(&nodes[1], i % 2 ? 6 : 0));
		exec_uses_set(&execs[1 + i % 7], list_of(3, (uint64_t[]){ 7, 8, 9 }, NULL));
		exec_uses_free(exec_uses_take(&execs[1 + (i + 3) % 7]));
		exec_uses_free(exec_uses_take(&execs[own]));
	}
	return NULL;
}

static void threads_launch_what_others_change_and_end(void **state)
{
	pthread_t threads[5];

	(void)state;
	exec_uses_enter(&execs[0], list_of(3, (uint64_t[]){ 1, 2, 3 }, NULL));
	for (uintptr_t i = 0; i < 5; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i < 3 ? launch_much : change_much, (void *)(i + 1)),
				 0);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	exec_uses_launched(&execs[0], INT64_MAX / 2, count);
	assert_int_equal(atomic_load(&launches_noted), 3 * LAUNCHES + 1);
	for (int i = 0; i < 8; i++)
		exec_uses_free(exec_uses_take(&execs[i]));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_known_uses_nothing),
		cmocka_unit_test(all_launches_are_noted_but_not_each_by_itself),
		cmocka_unit_test(a_long_list_is_noted_more_seldom),
		cmocka_unit_test(a_node_that_was_changed_uses_something_else),
		cmocka_unit_test(a_child_graph_changes_with_all_that_is_in_it),
		cmocka_unit_test(an_update_changes_all_and_leaves_the_names),
		cmocka_unit_test(there_is_an_end_to_what_is_kept),
		cmocka_unit_test(any_changes_come_out_as_they_should),
		cmocka_unit_test(threads_launch_what_others_change_and_end),
	};

	exec_uses_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
