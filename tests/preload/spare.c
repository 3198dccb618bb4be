/* What was freed is had again without the device being asked for more. */
#include "client.h"

/* What the tenant's objects have of the card. */
static uint64_t on_card(void)
{
	uint64_t bytes = 0;

	for (int i = 0; i < HAMI_SLOTS; i++)
		bytes += __atomic_load_n(&client_own()->residency[i].card_bytes[0],
					 __ATOMIC_RELAXED);
	return bytes;
}

static CUdeviceptr take(uint64_t bytes)
{
	CUdeviceptr addr;

	OK(cuMemAlloc_v2(&addr, bytes));
	return addr;
}

/* While nothing is submitted a piece is free at once: one block does for as many as come. */
static void small(int argc, char **argv)
{
	CUdeviceptr kept;

	(void)argc;
	(void)argv;
	kept = take(4096);
	for (int i = 0; i < 20000; i++) {
		OK(cuMemFree_v2(take(MIB)));
		if (on_card() > 8 * BLOCK_BYTES) {
			fprintf(stderr, "%d: %llu MiB\n", i, (unsigned long long)(on_card() / MIB));
			_exit(1);
		}
	}
	OK(cuMemFree_v2(kept));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = { { "small", small }, { NULL, NULL } };

	setvbuf(stdout, NULL, _IOLBF, 0);
	client_start();
	return client_main(argc, argv, cases);
}
