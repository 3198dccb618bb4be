#include "drv/gpu_remap.h"

#include <errno.h>

/* How often what must succeed is tried. */
enum { UNDO_TRIES = 3 };

void gpu_access_init(struct gpu_access *access, struct cuda_ord ord)
{
	*access = (struct gpu_access){ .ords = { ord }, .count = 1 };
	pthread_mutex_init(&access->mutex, NULL);
}

int gpu_access_allow(struct gpu_access *access, uint64_t addr, uint64_t bytes)
{
	struct cuda_ord ords[GPU_VMM_DEVICES];
	unsigned count;

	pthread_mutex_lock(&access->mutex);
	count = access->count;
	for (unsigned i = 0; i < count; i++)
		ords[i] = access->ords[i];
	pthread_mutex_unlock(&access->mutex);
	return gpu_vmm_allow(addr, bytes, ords, count);
}

static bool is_mapped_in(enum bo_place place)
{
	return place == BO_VRAM || place == BO_GTT;
}

void gpu_remap_init(struct gpu_remap *r, struct bo_move *move)
{
	*r = (struct gpu_remap){
		.move = move,
		.addr = move->bo->addr,
		.bytes = move->bo->bytes,
		.from = (struct gpu_chunk *)(uintptr_t)move->from.handle,
		.to = (struct gpu_chunk *)(uintptr_t)move->to.handle,
		.was_there = is_mapped_in(move->from_place),
		.is_there = is_mapped_in(move->to_place),
	};
	r->state = r->was_there ? GPU_REMAP_OLD : GPU_REMAP_NONE;
}

unsigned gpu_remap_run(const struct gpu_remap *r, unsigned count)
{
	unsigned n = 1;

	while (n < count && r[0].rc == 0 && r[n].rc == 0 && r[n].was_there == r[0].was_there &&
	       r[n].is_there == r[0].is_there && r[n].addr == r[n - 1].addr + r[n - 1].bytes)
		n++;
	return n;
}

static uint64_t run_bytes(const struct gpu_remap *run, unsigned count)
{
	return run[count - 1].addr + run[count - 1].bytes - run[0].addr;
}

static int allow(struct gpu_access *access, const struct gpu_remap *run, unsigned count)
{
	return gpu_access_allow(access, run[0].addr, run_bytes(run, count));
}

static int map(struct gpu_remap *r, const struct gpu_chunk *chunk, enum gpu_remap_state state)
{
	int rc = gpu_vmm_map(r->addr, r->bytes, chunk->handle);

	if (rc == 0)
		r->state = state;
	return rc;
}

static int unmap(struct gpu_remap *r)
{
	int rc = gpu_vmm_unmap(r->addr, r->bytes);

	if (rc == 0)
		r->state = GPU_REMAP_NONE;
	return rc;
}

int gpu_remap_clear(struct gpu_remap *r)
{
	int rc = r->state == GPU_REMAP_NONE ? 0 : gpu_vmm_unmap_surely(r->addr, r->bytes);

	if (rc == 0)
		r->state = GPU_REMAP_NONE;
	return rc;
}

/* The old memory of each goes, in one call where the driver does that. */
static int unmap_run(struct gpu_remap *run, unsigned count)
{
	int rc = 0;

	if (count > 1 && gpu_vmm_unmap(run[0].addr, run_bytes(run, count)) == 0) {
		for (unsigned i = 0; i < count; i++)
			run[i].state = GPU_REMAP_NONE;
		return 0;
	}
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = unmap(&run[i]);
	return rc;
}

static void fail(struct gpu_remap *run, unsigned count, int rc)
{
	for (unsigned i = 0; i < count; i++)
		run[i].rc = rc;
}

/* What is found there is left over from a mapping that the driver did not let go. */
static int map_new(struct gpu_remap *r)
{
	int rc = map(r, r->to, GPU_REMAP_NEW);

	if (rc == -EINVAL && unmap(r) == 0)
		rc = map(r, r->to, GPU_REMAP_NEW);
	return rc;
}

void gpu_remap_place(struct gpu_access *access, struct gpu_remap *run, unsigned count)
{
	int rc = 0;

	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = map_new(&run[i]);
	if (rc == 0)
		rc = allow(access, run, count);
	if (rc == 0)
		return;
	fail(run, count, rc);
	for (unsigned i = 0; i < count; i++)
		gpu_remap_clear(&run[i]);
}

/* The old memory at the address of each, as far as the driver lets it. 0 when it is at all. */
static int map_old(struct gpu_remap *run, unsigned count)
{
	int rc = 0, worst = 0;

	for (unsigned i = 0; i < count; i++) {
		rc = run[i].state == GPU_REMAP_NEW ? unmap(&run[i]) : 0;
		if (run[i].state == GPU_REMAP_NONE)
			rc = map(&run[i], run[i].from, GPU_REMAP_OLD);
		if (rc < 0)
			worst = rc;
	}
	return worst;
}

/* Each for itself, when all together did not go. */
static void undo_one(struct gpu_access *access, struct gpu_remap *r)
{
	for (int i = 0; i < UNDO_TRIES; i++)
		if (map_old(r, 1) == 0 && allow(access, r, 1) == 0)
			return;
	gpu_remap_clear(r);
	r->rc = -EIO;
}

static void undo(struct gpu_access *access, struct gpu_remap *run, unsigned count)
{
	for (int i = 0; i < UNDO_TRIES; i++)
		if (map_old(run, count) == 0 && allow(access, run, count) == 0)
			return;
	for (unsigned i = 0; i < count; i++)
		undo_one(access, &run[i]);
}

void gpu_remap_switch(struct gpu_access *access, struct gpu_remap *run, unsigned count)
{
	int rc = unmap_run(run, count);

	for (unsigned i = 0; i < count && rc == 0 && run[i].is_there; i++)
		rc = map(&run[i], run[i].to, GPU_REMAP_NEW);
	if (rc == 0 && run[0].is_there)
		rc = allow(access, run, count);
	if (rc == 0)
		return;
	fail(run, count, rc);
	undo(access, run, count);
}
