#include "drv/gpu_move.h"

#include "base/clock.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_vmm.h"

#include <errno.h>

/* Some of the steps, side by side in the list. */
struct part {
	unsigned from, to;
	unsigned number; /* of its copies, and its share of the aliases */
	bool is_copied;  /* they are over; what is mapped has not followed yet */
};

/* Those that are started and not finished, the oldest first. */
struct window {
	struct part parts[GPU_COPY_PARTS];
	unsigned count;
	unsigned number; /* of the next */
};

static int reserve_alias(struct gpu_move *m)
{
	return m->alias ? 0 : gpu_vmm_reserve(GPU_COPY_PARTS * m->alias_bytes, 0, &m->alias);
}

int gpu_move_init(struct gpu_move *m)
{
	m->copy.ord = m->store->ord;
	return reserve_alias(m);
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
static void place_part(struct gpu_move *m, const struct part *part)
{
	unsigned n;

	for (unsigned i = part->from; i < part->to; i += n) {
		n = gpu_remap_run(&m->steps[i], part->to - i);
		if (m->steps[i].rc == 0 && !m->steps[i].was_there && m->steps[i].is_there)
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
static void alias_part(struct gpu_move *m, const struct part *part)
{
	uint64_t begin = 0, end = 0;
	int rc = 0;

	for (unsigned i = part->from; i < part->to; i++) {
		struct gpu_remap *r = &m->steps[i];
		const struct gpu_chunk *chunk = other(r);

		if (r->rc < 0 || !needs_copy(r) || !chunk->handle || other_addr(m, r))
			continue;
		if (!begin) {
			r->rc = reserve_alias(m);
			if (r->rc == 0)
				begin = end = m->alias + part->number * m->alias_bytes;
		}
		if (r->rc == 0)
			r->rc = gpu_vmm_map(end, r->bytes, chunk->handle);
		if (r->rc == 0) {
			r->alias = end;
			end += r->bytes;
		}
	}
	if (end > begin)
		rc = gpu_vmm_allow(begin, end - begin, &m->copy.ord, 1);
	for (unsigned i = part->from; i < part->to && rc < 0; i++)
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

/* Maps what is needed and starts the copies of all that have not failed; copy_rc: why none can. */
static void start_part(struct gpu_move *m, const struct part *part, int copy_rc)
{
	place_part(m, part);
	alias_part(m, part);
	for (unsigned i = part->from; i < part->to; i++) {
		struct gpu_remap *r = &m->steps[i];

		if (r->rc < 0 || !needs_copy(r))
			continue;
		r->rc = copy_rc < 0 ? copy_rc : start_copy(m, r);
		r->is_copied = r->rc == 0;
	}
	if (copy_rc == 0)
		gpu_copy_end_part(&m->copy, part->number);
}

static void switch_part(struct gpu_move *m, const struct part *part)
{
	unsigned n;

	for (unsigned i = part->from; i < part->to; i += n) {
		n = gpu_remap_run(&m->steps[i], part->to - i);
		if (m->steps[i].rc == 0 && m->steps[i].was_there)
			gpu_remap_switch(m->access, &m->steps[i], n);
	}
}

/* What failed before its mapping changed has nothing of the new one left. */
static void clean(struct gpu_move *m, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		struct gpu_remap *r = &m->steps[i];

		unalias(m, r);
		if (r->rc < 0 && !r->was_there)
			gpu_remap_clear(r);
	}
}

/* Waits for its copies, if any. -EBUSY: they hang, and all stays. */
static int wait_part(struct gpu_move *m, struct part *part, int copy_rc)
{
	int rc = 0;

	if (copy_rc == 0)
		rc = gpu_copy_wait(&m->copy, part->number, clock_now_ns() + m->copy_ns);
	if (rc == -EBUSY)
		return rc;
	for (unsigned i = part->from; i < part->to && rc < 0; i++)
		if (m->steps[i].is_copied)
			m->steps[i].rc = rc;
	part->is_copied = true;
	return 0;
}

/*
 * Nothing of those moves, and the driver still has its hands on their mappings: they stay. Memory
 * that hung copies may still write, or read, is nobody else's until they are over.
 */
static void hang(struct gpu_move *m, unsigned from, unsigned to)
{
	m->hung_from = from;
	m->hung_to = to;
	for (unsigned i = from; i < m->count; i++)
		if (m->steps[i].rc == 0)
			m->steps[i].rc = -EBUSY;
	for (unsigned i = from; i < to; i++) {
		gpu_store_share(m->steps[i].from);
		gpu_store_share(m->steps[i].to);
	}
}

static bool is_heir(const struct gpu_remap *r)
{
	return r->move->giver != NULL;
}

/* The part from step `from` on: heirs, or others. */
static struct part part_at(const struct gpu_move *m, unsigned from, unsigned number)
{
	const struct bo_move *first = m->steps[from].move;
	uint64_t most_bytes = m->part_bytes, bytes = 0;
	struct part part = { .from = from, .to = from, .number = number };

	if (first->has_heir || first->giver)
		most_bytes /= 2;
	do
		bytes += m->steps[part.to++].bytes;
	while (part.to < m->count && is_heir(&m->steps[part.to]) == is_heir(&m->steps[from]) &&
	       bytes + m->steps[part.to].bytes <= most_bytes);
	return part;
}

/* The step that leaves its memory to an heir; NULL: it was one of an earlier list. */
static const struct gpu_remap *giver_of(const struct gpu_move *m, const struct gpu_remap *heir)
{
	const struct bo_move *first = m->steps[0].move, *giver = heir->move->giver;

	return giver >= first ? &m->steps[giver - first] : NULL;
}

/* Whether it has left it. */
static int giver_rc(const struct gpu_move *m, const struct gpu_remap *heir)
{
	const struct gpu_remap *giver = giver_of(m, heir);

	return giver ? giver->rc : heir->move->giver->rc;
}

/* True when the bytes of all that they are to have the memory of are copied out of it. */
static bool has_been_left(const struct gpu_move *m, const struct part *part, const struct window *w)
{
	for (unsigned i = part->from; i < part->to && is_heir(&m->steps[i]); i++) {
		const struct gpu_remap *giver = giver_of(m, &m->steps[i]);

		for (unsigned k = 0; giver && k < w->count; k++)
			if (!w->parts[k].is_copied && giver >= &m->steps[w->parts[k].from] &&
			    giver < &m->steps[w->parts[k].to])
				return false;
	}
	return true;
}

/* True when no more is to leave the device than has begun to. */
static bool is_over(const struct gpu_move *m, const struct part *part)
{
	const struct bo_patience *patience = m->patience;

	return part->from > 0 && m->steps[part->from].move->from_place == BO_VRAM && patience &&
	       patience->is_over && patience->is_over(patience->arg);
}

/* Whose giver stayed does not move, nor who leaves when that is over. */
static void cancel_part(struct gpu_move *m, const struct part *part)
{
	bool is_all = is_over(m, part);

	for (unsigned i = part->from; i < part->to; i++) {
		struct gpu_remap *r = &m->steps[i];

		if (is_all || (is_heir(r) && giver_rc(m, r) < 0))
			r->rc = -ECANCELED;
	}
}

/* The heir of a step whose copy into what it is to have was started; NULL: none, or not yet. */
static struct gpu_remap *heir_of(struct gpu_move *m, const struct gpu_remap *giver,
				 const struct window *w)
{
	unsigned end = w->parts[w->count - 1].to;

	for (unsigned i = (unsigned)(giver - m->steps) + 1; giver->move->has_heir && i < end; i++)
		if (m->steps[i].is_copied && is_heir(&m->steps[i]) &&
		    giver_of(m, &m->steps[i]) == giver)
			return &m->steps[i];
	return NULL;
}

/*
 * Those that left but whose new memory could not be mapped have their old again; where the heir's
 * bytes are in it by then, or on their way, their own are copied back from where they went. What
 * that cannot be done for is lost.
 */
static void take_back(struct gpu_move *m, const struct part *part, const struct window *w)
{
	for (unsigned i = part->from; i < part->to; i++) {
		struct gpu_remap *r = &m->steps[i];
		struct gpu_remap *heir = r->rc < 0 && r->rc != -EIO && r->is_copied ?
						 heir_of(m, r, w) :
						 NULL;
		int rc;

		if (!heir)
			continue;
		heir->rc = -ECANCELED;
		rc = gpu_copy_start(&m->copy, GPU_COPY_IN, r->addr, other_addr(m, r),
				    other_addr(m, r) ? NULL : other(r)->pages, r->bytes);
		/* Behind the heir's copy, which is in the same stream. */
		if (rc == 0)
			rc = gpu_copy_wait(&m->copy, GPU_COPY_PARTS, clock_now_ns() + m->copy_ns);
		if (rc == 0)
			continue;
		gpu_remap_clear(r);
		r->rc = -EIO;
	}
}

/* The oldest, whose copies are over: what is mapped follows. */
static void finish_oldest(struct gpu_move *m, struct window *w)
{
	struct part part = w->parts[0];

	switch_part(m, &part);
	take_back(m, &part, w);
	clean(m, part.from, part.to);
	w->count--;
	for (unsigned i = 0; i < w->count; i++)
		w->parts[i] = w->parts[i + 1];
}

/* The oldest whose copies are not over. -EBUSY: they hang; all before it is finished then. */
static int wait_oldest(struct gpu_move *m, struct window *w, int copy_rc)
{
	unsigned i = 0;
	int rc;

	while (w->parts[i].is_copied)
		i++;
	rc = wait_part(m, &w->parts[i], copy_rc);
	while (rc < 0 && w->parts[0].is_copied)
		finish_oldest(m, w);
	return rc;
}

/*
 * Part after part. Some are started before the oldest is waited for; and what is mapped follows
 * while others are copied, since that takes the driver nearly as long.
 */
static void run_parts(struct gpu_move *m, int copy_rc)
{
	struct window w = { .count = 0 };
	unsigned from = 0;
	int rc = 0;

	while (rc == 0 && (from < m->count || w.count)) {
		struct part part = { 0 };

		if (from < m->count)
			part = part_at(m, from, w.number);
		if (from < m->count && w.count < GPU_COPY_PARTS && has_been_left(m, &part, &w)) {
			cancel_part(m, &part);
			start_part(m, &part, copy_rc);
			w.parts[w.count++] = part;
			w.number = (w.number + 1) % GPU_COPY_PARTS;
			from = part.to;
		} else if (w.parts[0].is_copied) {
			finish_oldest(m, &w);
		} else {
			rc = wait_oldest(m, &w, copy_rc);
		}
	}
	if (rc < 0)
		hang(m, w.parts[0].from, w.parts[w.count - 1].to);
}

static void run_steps(struct gpu_move *m)
{
	int copy_rc;

	if (!gpu_fence_context(m->copy.ord, &m->serial))
		m->serial = 0;
	copy_rc = gpu_copy_begin(&m->copy);
	run_parts(m, copy_rc);
	if (copy_rc == 0)
		gpu_copy_end(&m->copy);
}

/* What hung copies have let go of meanwhile. True when nothing is left of them. */
static bool finish_hung(struct gpu_move *m)
{
	if (m->hung_to == m->hung_from)
		return true;
	if (!gpu_copy_is_over(&m->copy))
		return false;
	clean(m, m->hung_from, m->hung_to);
	for (unsigned i = m->hung_from; i < m->hung_to; i++) {
		gpu_store_give(m->store, m->steps[i].from);
		gpu_store_give(m->store, m->steps[i].to);
	}
	m->hung_from = m->hung_to;
	return true;
}

unsigned gpu_move_run(struct gpu_move *m, struct bo_move *moves, unsigned count)
{
	unsigned lost = 0, n;

	for (unsigned i = 0; i < count; i += n) {
		n = count - i < m->most_steps ? count - i : m->most_steps;
		for (unsigned k = 0; k < n; k++)
			moves[i + k].rc = -EBUSY;
		if (!finish_hung(m))
			continue;
		m->count = n;
		for (unsigned k = 0; k < n; k++)
			gpu_remap_init(&m->steps[k], &moves[i + k]);
		run_steps(m);
		for (unsigned k = 0; k < n; k++) {
			moves[i + k].rc = m->steps[k].rc;
			lost += m->steps[k].rc == -EIO;
		}
	}
	return lost;
}
