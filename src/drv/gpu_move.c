#include "drv/gpu_move.h"

#include "base/clock.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_vmm.h"

#include <errno.h>

int gpu_move_init(struct gpu_move *m, struct gpu_store *store, struct gpu_access *access,
		  uint64_t alias_bytes, int64_t copy_ns)
{
	*m = (struct gpu_move){
		.access = access, .store = store, .alias_bytes = alias_bytes, .copy_ns = copy_ns
	};
	m->copy.ord = store->ord;
	return gpu_vmm_reserve(alias_bytes, 0, &m->alias);
}

static bool needs_copy(const struct gpu_remap *r)
{
	return r->from != r->to;
}

/* The memory that is not at the object's address while its bytes are copied. */
static const struct gpu_chunk *other(const struct gpu_remap *r)
{
	return r->was_there ? r->to : r->from;
}

/* Where that memory is reached; 0: nowhere, it is pages, or not mapped yet. */
static uint64_t other_addr(const struct gpu_move *m, const struct gpu_remap *r)
{
	return r->alias ? r->alias : gpu_store_addr(other(r), m->serial);
}

/* New memory for what has nothing at its address: the copy goes there directly. */
static void place_all(struct gpu_move *m)
{
	unsigned n;

	for (unsigned i = 0; i < m->count; i += n) {
		n = gpu_remap_run(&m->steps[i], m->count - i);
		if (!m->steps[i].was_there && m->steps[i].is_there)
			gpu_remap_place(m->access, &m->steps[i], n);
	}
}

/* Where the driver does not let a mapping go, the addresses stay with it. */
static void unalias(struct gpu_move *m, struct gpu_remap *r)
{
	if (r->alias && gpu_vmm_unmap_surely(r->alias, r->bytes) < 0)
		m->alias = 0;
	r->alias = 0;
}

/* Maps what of the other memory has no address of its own, side by side, for the device alone. */
static void alias_all(struct gpu_move *m)
{
	uint64_t end = m->alias;
	int rc;

	for (unsigned i = 0; i < m->count; i++) {
		struct gpu_remap *r = &m->steps[i];
		const struct gpu_chunk *chunk = other(r);

		if (r->rc < 0 || !needs_copy(r) || !chunk->handle || other_addr(m, r))
			continue;
		r->rc = gpu_vmm_map(end, r->bytes, chunk->handle);
		if (r->rc == 0) {
			r->alias = end;
			end += r->bytes;
		}
	}
	rc = end > m->alias ? gpu_vmm_allow(m->alias, end - m->alias, &m->copy.ord, 1) : 0;
	for (unsigned i = 0; i < m->count && rc < 0; i++)
		if (m->steps[i].alias)
			m->steps[i].rc = rc;
}

static int start_copy(struct gpu_move *m, const struct gpu_remap *r)
{
	bool is_out = other(r)->pages ? r->was_there : r->to->kind == GPU_VMM_HOST;
	uint64_t at = other_addr(m, r);
	uint64_t to = r->was_there ? at : r->addr;
	uint64_t from = r->was_there ? r->addr : at;

	return gpu_copy_start(&m->copy, is_out ? GPU_COPY_OUT : GPU_COPY_IN, to, from,
			      at ? NULL : other(r)->pages, r->bytes);
}

/* Copies all that have not failed. */
static void copy_all(struct gpu_move *m)
{
	bool are_started[GPU_MOVE_STEPS] = { false };
	int rc = gpu_copy_begin(&m->copy);
	bool has_begun = rc == 0;

	for (unsigned i = 0; i < m->count; i++) {
		struct gpu_remap *r = &m->steps[i];

		if (r->rc < 0 || !needs_copy(r))
			continue;
		r->rc = has_begun ? start_copy(m, r) : rc;
		are_started[i] = r->rc == 0;
	}
	if (!has_begun)
		return;
	rc = gpu_copy_wait(&m->copy, clock_now_ns() + m->copy_ns);
	m->is_hung = rc == -EBUSY;
	gpu_copy_end(&m->copy);
	for (unsigned i = 0; i < m->count && rc < 0; i++)
		if (are_started[i])
			m->steps[i].rc = rc;
}

static void switch_all(struct gpu_move *m)
{
	unsigned n;

	for (unsigned i = 0; i < m->count; i += n) {
		n = gpu_remap_run(&m->steps[i], m->count - i);
		if (m->steps[i].rc == 0 && m->steps[i].was_there)
			gpu_remap_switch(m->access, &m->steps[i], n);
	}
}

/* What failed before its mapping changed has nothing of the new one left. */
static void clean_all(struct gpu_move *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		struct gpu_remap *r = &m->steps[i];

		unalias(m, r);
		if (r->rc < 0 && !r->was_there)
			gpu_remap_clear(r);
	}
}

/*
 * Nothing moves. Memory that hung copies may still write, or read, is nobody else's until they are
 * over.
 */
static void hang_all(struct gpu_move *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		if (m->steps[i].rc == 0)
			m->steps[i].rc = -EBUSY;
		gpu_store_share(m->steps[i].from);
		gpu_store_share(m->steps[i].to);
	}
}

static void run_steps(struct gpu_move *m)
{
	if (!gpu_fence_context(m->copy.ord, &m->serial))
		m->serial = 0;
	place_all(m);
	alias_all(m);
	copy_all(m);
	/* The driver still has its hands on those mappings: they stay, and so does all else. */
	if (m->is_hung) {
		hang_all(m);
		return;
	}
	switch_all(m);
	clean_all(m);
}

/* What hung copies have let go of meanwhile. True when nothing is left of them. */
static bool finish_hung(struct gpu_move *m)
{
	if (!m->is_hung)
		return true;
	if (!gpu_copy_is_over(&m->copy))
		return false;
	clean_all(m);
	for (unsigned i = 0; i < m->count; i++) {
		gpu_store_give(m->store, m->steps[i].from);
		gpu_store_give(m->store, m->steps[i].to);
	}
	m->is_hung = false;
	return true;
}

static bool has_alias(struct gpu_move *m)
{
	return m->alias || gpu_vmm_reserve(m->alias_bytes, 0, &m->alias) == 0;
}

/* Takes as many as the alias has room for. */
static unsigned fill_steps(struct gpu_move *m, struct bo_move *moves, unsigned count)
{
	uint64_t bytes = 0;

	m->count = 0;
	while (m->count < count && m->count < GPU_MOVE_STEPS &&
	       bytes + moves[m->count].bo->bytes <= m->alias_bytes) {
		bytes += moves[m->count].bo->bytes;
		gpu_remap_init(&m->steps[m->count], &moves[m->count]);
		m->count++;
	}
	return m->count;
}

unsigned gpu_move_run(struct gpu_move *m, struct bo_move *moves, unsigned count)
{
	unsigned lost = 0, n;

	for (unsigned i = 0; i < count; i += n) {
		n = 1;
		moves[i].rc = -EBUSY;
		if (!finish_hung(m) || !has_alias(m))
			continue;
		n = fill_steps(m, &moves[i], count - i);
		if (n == 0) {
			moves[i].rc = -EINVAL;
			n = 1;
			continue;
		}
		run_steps(m);
		for (unsigned k = 0; k < n; k++) {
			m->steps[k].move->rc = m->steps[k].rc;
			lost += m->steps[k].rc == -EIO;
		}
	}
	return lost;
}
