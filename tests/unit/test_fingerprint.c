#include "drv/fingerprint.h"

#include "drv/real.h"

#include "check.h"

enum { PROCESSES = 3, SIZES = 64 };

struct real real;

/* A card with some processes, pids from 100 on; `ours` of them is who takes. */
static struct {
	uint64_t used_bytes[PROCESSES];
	int ours;
	int others_rounds; /* so many rounds another one moves in our place */
	int noisy_rounds;  /* so many rounds something else of ours comes and stays */
	uint64_t taken[SIZES];
	int takes;
} card;

static nvmlReturn_t list(nvmlDevice_t dev, unsigned int *inout_count, nvmlProcessInfo_t *out)
{
	(void)dev;
	*inout_count = PROCESSES;
	for (unsigned i = 0; i < PROCESSES; i++)
		out[i] = (nvmlProcessInfo_t){ .pid = 100 + i, .usedGpuMemory = card.used_bytes[i] };
	return NVML_SUCCESS;
}

static int mover(void)
{
	return card.takes <= card.others_rounds ? (card.ours + 1) % PROCESSES : card.ours;
}

static bool take(void *arg, uint64_t bytes)
{
	(void)arg;
	assert_true(card.takes < SIZES);
	card.taken[card.takes++] = bytes;
	card.used_bytes[mover()] += bytes;
	card.used_bytes[card.ours] += card.takes <= card.noisy_rounds;
	return true;
}

static bool give(void *arg)
{
	(void)arg;
	card.used_bytes[mover()] -= card.taken[card.takes - 1];
	return true;
}

static int begin(void **state)
{
	(void)state;
	memset(&card, 0, sizeof(card));
	card.ours = 1;
	real = (struct real){ .nvmlDeviceGetComputeRunningProcesses_v3 = list };
	return 0;
}

static unsigned find(uint64_t seed)
{
	const struct fingerprint f = {
		.take = take, .give = give, .blocks_most = 16, .seed = seed
	};

	return fingerprint_find(NULL, &f);
}

static void test_three_rounds_that_agree(void **state)
{
	(void)state;
	assert_int_equal(find(1), 101);
	assert_int_equal(card.takes, 3);
	for (int i = 0; i < card.takes; i++)
		assert_true(card.taken[i] > 0 && card.taken[i] % (2 << 20) == 0 &&
			    card.taken[i] <= 32 << 20);
}

/* Two that begin together take other sizes, or each would see the other's rise for its own. */
static void test_sizes_of_another_seed(void **state)
{
	uint64_t first[3];

	(void)state;
	find(1);
	memcpy(first, card.taken, sizeof(first));
	card.takes = 0;
	find(2);
	assert_memory_not_equal(first, card.taken, sizeof(first));
}

/* One round that names another begins the count anew. */
static void test_a_row_that_moved_by_chance(void **state)
{
	(void)state;
	card.others_rounds = 2;
	assert_int_equal(find(1), 101);
	assert_int_equal(card.takes, 5);
}

/* What hides the rise in some rounds is waited for, but not for ever. */
static void test_rounds_that_say_nothing(void **state)
{
	(void)state;
	card.noisy_rounds = 4;
	assert_int_equal(find(1), 101);
	card.takes = 0;
	card.noisy_rounds = SIZES;
	assert_int_equal(find(1), 0);
	assert_true(card.takes < SIZES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_three_rounds_that_agree, begin),
		cmocka_unit_test_setup(test_sizes_of_another_seed, begin),
		cmocka_unit_test_setup(test_a_row_that_moved_by_chance, begin),
		cmocka_unit_test_setup(test_rounds_that_say_nothing, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
