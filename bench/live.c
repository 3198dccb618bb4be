/*
 * What an allocation costs in the books alone, no driver being called, while so many others are live.
 *
 *   live REGION COUNT...
 *
 * For each COUNT fills the books with as many allocations of 512 bytes to 4 MiB, then takes some out
 * and puts others in. Prints "count alloc_ns free_ns" per line.
 */
#include "core/charge.h"
#include "shm/region.h"
#include "shm/slot.h"

#include "driver.h"

#include <errno.h>
#include <string.h>

enum { CHANGES = 100000 };

static const struct dev dev0 = { 0 };
static uint64_t next_addr = UINT64_C(0x100000000000);

static int no_figure(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	(void)out_bytes;
	return -ENOTSUP;
}

static const struct gpu_ops ops = { .process_bytes = no_figure };

struct piece {
	uint64_t addr, bytes;
};

static void join(const char *path)
{
	static struct region region;
	static struct slot slot;
	const struct region_setup setup = { .mem_spec = "8000t", .mem_source = "bench" };
	struct region_error err;

	if (region_open(path, &setup, &region, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	CHECK(region_add_device(&region, "GPU-00000000-1111-2222-3333-444444444444", 0));
	CHECK(slot_claim(&region, &slot));
	region_settle(&region);
	quota_init(&region, &slot);
	charge_init(&ops);
}

/* As a driver: small ones side by side in blocks, large ones in blocks of their own. */
static void place(struct piece *p)
{
	bool is_small = rand() % 8 != 0;

	p->bytes = is_small ? (1 + (uint64_t)rand() % 16) * 512 : (1 + (uint64_t)rand() % 4) * MIB;
	if (!is_small)
		next_addr = (next_addr + TRACK_BLOCK_BYTES - 1) / TRACK_BLOCK_BYTES *
			    TRACK_BLOCK_BYTES;
	p->addr = next_addr;
	next_addr += p->bytes;
}

static void enter(const struct piece *p)
{
	struct charge c;

	CHECK(charge_reserve_linear(&c, dev0, NULL, p->bytes));
	CHECK(charge_commit(&c, p->addr, p->bytes));
}

static void leave(const struct piece *p)
{
	struct dev dev;
	struct track_node *node = charge_take(p->addr, &dev);

	if (!node)
		driver_fail("an allocation is not in the books", 1);
	charge_end(node, dev);
}

/* The pieces that change are at random among all: the nodes are as far apart as they get. */
static void measure(struct piece *all, long count)
{
	long changes = count < CHANGES ? count : CHANGES;
	int64_t start_ns, free_ns, alloc_ns;

	for (long i = 0; i < changes; i++) {
		long k = i + (long)(((uint64_t)rand() << 20 ^ (uint64_t)rand()) %
				    (uint64_t)(count - i));
		struct piece other = all[k];

		all[k] = all[i];
		all[i] = other;
	}
	start_ns = driver_now_ns();
	for (long i = 0; i < changes; i++)
		leave(&all[i]);
	free_ns = driver_now_ns() - start_ns;
	start_ns = driver_now_ns();
	for (long i = 0; i < changes; i++)
		enter(&all[i]);
	alloc_ns = driver_now_ns() - start_ns;
	printf("%ld %.0f %.0f\n", count, (double)alloc_ns / (double)changes,
	       (double)free_ns / (double)changes);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct piece *all;
	long live = 0, most = argc > 2 ? atol(argv[argc - 1]) : 0;

	if (most <= 0) {
		fprintf(stderr, "usage: live REGION COUNT...\n");
		return 2;
	}
	all = calloc((size_t)most, sizeof(*all));
	if (!all)
		return 1;
	join(argv[1]);
	for (int a = 2; a < argc; a++) {
		for (; live < atol(argv[a]) && live < most; live++) {
			place(&all[live]);
			enter(&all[live]);
		}
		measure(all, live);
	}
	return 0;
}
