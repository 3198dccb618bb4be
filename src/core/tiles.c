#include "core/tiles.h"

#include "base/hash.h"
#include "base/process.h"
#include "base/tree.h"
#include "core/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* state.mutex, once it is in the tables. */
struct tiles {
	RB_ENTRY(tiles) entry;
	const void *array;
	struct tiles_region region;
	uint64_t number; /* in the order in which they came */
	struct handle_node *node;
	uint64_t stream;     /* in which it is mapped (core/stage.h) */
	struct stage *since; /* behind the call that maps it */
	struct stage *till;  /* behind the one that unmaps it: it is among those that leave */
	struct tiles *next;  /* among those, or in a list of what was taken out */
};

RB_HEAD(tiles_tree, tiles);

/* An array that was seen being made. The link is first, so that what is found is known by it. */
struct tiles_made {
	struct hash_link link; /* by its handle */
	const void *array, *ctx;
	uint64_t mark; /* context_mark() when it came */
	bool is_whole;
};

struct tiles_state {
	/* Orders it; zero is an unlocked mutex. Taken before the handles and the stages. */
	pthread_mutex_t mutex;
	struct tiles_tree mapped;
	struct tiles *leaving;
	_Atomic bool is_due; /* stages of some of these may be over; atomic */
	struct hash made;
	_Atomic uint64_t last_number; /* written under mutex */
};
PROCESS_STATE(tiles_state, state);

static int order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* By array and place, and among those that begin at the same by number. */
static int compare(const struct tiles *a, const struct tiles *b)
{
	int by = order((uintptr_t)a->array, (uintptr_t)b->array);

	by = by ? by : order(a->region.kind, b->region.kind);
	by = by ? by : order(a->region.level, b->region.level);
	by = by ? by : order(a->region.layer, b->region.layer);
	for (int s = 0; s < TILES_SIDES; s++)
		by = by ? by : order(a->region.from[s], b->region.from[s]);
	return by ? by : order(a->number, b->number);
}

RB_GENERATE_STATIC(tiles_tree, tiles, entry, compare)

void tiles_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	stage_init();
}

struct tiles *tiles_prepare(void)
{
	struct tiles *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return NULL;
	mapping->node = handle_prepare();
	if (!mapping->node) {
		free(mapping);
		return NULL;
	}
	return mapping;
}

void tiles_discard(struct tiles *mapping)
{
	if (!mapping)
		return;
	handle_discard(mapping->node);
	free(mapping);
}

void tiles_use(struct tiles *mapping, uint64_t handle)
{
	handle_use_unseen(mapping->node, handle);
}

static struct handle_freed end(struct tiles *mapping)
{
	struct handle_freed freed = handle_unuse(mapping->node);

	stage_drop(mapping->since);
	stage_drop(mapping->till);
	free(mapping);
	return freed;
}

struct handle_freed tiles_refused(struct tiles *mapping)
{
	return end(mapping);
}

static void end_list(struct tiles *list, uint64_t freed_bytes[RATION_DEVICES])
{
	struct handle_freed freed;
	struct tiles *next;

	for (; list; list = next) {
		next = list->next;
		freed = end(list);
		freed_bytes[freed.dev.v] += freed.bytes;
	}
}

uint64_t tiles_mark(void)
{
	return atomic_load(&state.s.last_number);
}

/* Where [from, from + extent) ends. */
static uint64_t end_of(uint64_t from, uint64_t extent)
{
	return from > UINT64_MAX - extent ? UINT64_MAX : from + extent;
}

/* Where in the order of the tree a look begins. */
struct place {
	uint64_t from[TILES_SIDES], number;
};

/* mutex held: the first mapping at or behind that place of the region's part; NULL: none. */
static struct tiles *first_from(const void *array, const struct tiles_region *r,
				const struct place *place)
{
	struct tiles want = { .array = array, .region = *r, .number = place->number }, *m;

	for (int s = 0; s < TILES_SIDES; s++)
		want.region.from[s] = place->from[s];
	m = RB_NFIND(tiles_tree, &state.s.mapped, &want);
	return m && m->array == array && m->region.kind == r->kind && m->region.level == r->level &&
			       m->region.layer == r->layer ?
		       m :
		       NULL;
}

/* The first side in which the mapping does not begin inside the region; TILES_SIDES: none. */
static int side_outside(const struct tiles *mapping, const struct tiles_region *r)
{
	const uint64_t *at = mapping->region.from;
	int side = 0;

	while (side < TILES_SIDES && at[side] >= r->from[side] &&
	       at[side] < end_of(r->from[side], r->extent[side]))
		side++;
	return side;
}

/* mutex held: the first mapping from that place on that begins inside the region; NULL: none. */
static struct tiles *next_inside(const void *array, const struct tiles_region *r,
				 struct place place)
{
	struct tiles *m;

	while ((m = first_from(array, r, &place))) {
		const uint64_t *at = m->region.from;
		int side = side_outside(m, r);

		if (side == TILES_SIDES)
			return m;
		if (side == 0 && at[0] >= r->from[0])
			return NULL;
		place.number = 0;
		for (int s = 0; s < TILES_SIDES; s++)
			place.from[s] = s < side ? at[s] : r->from[s];
		/* Behind it in a row or a slice: on with the one after. */
		if (at[side] >= r->from[side])
			place.from[side - 1]++;
	}
	return NULL;
}

static struct place place_behind(const struct tiles *mapping)
{
	struct place place = { .number = mapping->number + 1 };

	for (int s = 0; s < TILES_SIDES; s++)
		place.from[s] = mapping->region.from[s];
	return place;
}

/* Of one that begins inside it. */
static bool is_inside(const struct tiles *mapping, const struct tiles_region *r)
{
	const struct tiles_region *m = &mapping->region;

	for (int s = 0; s < TILES_SIDES; s++)
		if (end_of(m->from[s], m->extent[s]) > end_of(r->from[s], r->extent[s]))
			return false;
	return true;
}

/* What a call that begins at `mark` and that `stage` is behind finds mapped for sure. */
static bool is_before(const struct tiles *mapping, uint64_t mark, struct stage *stage)
{
	uint64_t stream = stage_stream(stage);

	if (!stage || mapping->number > mark)
		return false;
	return (stream && stream == mapping->stream) || stage_state(mapping->since) == STAGE_PASSED;
}

/* mutex held: the mapping, which is in neither, goes where it belongs. */
static void insert(struct tiles *m)
{
	if (!m->till) {
		RB_INSERT(tiles_tree, &state.s.mapped, m);
		return;
	}
	m->next = state.s.leaving;
	state.s.leaving = m;
	/* Who sees it end after this says so. */
	if (stage_state(m->till) != STAGE_RUNNING)
		tiles_note_end();
}

/* mutex held. */
static void unmap(const void *array, const struct tiles_region *r, uint64_t mark,
		  struct stage *stage)
{
	struct place place = { .number = 0 };
	struct tiles *m;

	for (int s = 0; s < TILES_SIDES; s++)
		place.from[s] = r->from[s];
	while ((m = next_inside(array, r, place))) {
		place = place_behind(m);
		if (!is_inside(m, r) || !is_before(m, mark, stage))
			continue;
		RB_REMOVE(tiles_tree, &state.s.mapped, m);
		m->till = stage_share(stage);
		insert(m);
	}
}

/* mutex held. */
static struct tiles_made *find_made(const void *array)
{
	return (struct tiles_made *)hash_find(&state.s.made, (uintptr_t)array);
}

/* mutex held. */
static void make_step(const struct tiles_step *step, uint64_t mark, struct stage *stage)
{
	static const struct tiles_region whole = { .kind = TILES_WHOLE, .extent = { 1, 1, 1 } };
	const struct tiles_made *made = find_made(step->array);
	const struct tiles_region *region = made && made->is_whole ? &whole : &step->region;
	struct tiles *m = step->mapping;

	unmap(step->array, region, mark, stage);
	if (!m)
		return;
	m->array = step->array;
	m->region = *region;
	m->stream = stage_stream(stage);
	m->since = stage_share(stage);
	m->number = atomic_load(&state.s.last_number) + 1;
	atomic_store(&state.s.last_number, m->number);
	insert(m);
}

void tiles_call(const struct tiles_step *steps, unsigned count, uint64_t mark, struct stage *stage)
{
	pthread_mutex_lock(&state.s.mutex);
	for (unsigned i = 0; i < count; i++)
		make_step(&steps[i], mark, stage);
	pthread_mutex_unlock(&state.s.mutex);
}

void tiles_note_end(void)
{
	atomic_store(&state.s.is_due, true);
}

bool tiles_is_due(void)
{
	return atomic_load_explicit(&state.s.is_due, memory_order_relaxed);
}

/* mutex held: nobody knows when it goes, so that it is as before. */
static void stay(struct tiles *mapping)
{
	stage_drop(mapping->till);
	mapping->till = NULL;
	insert(mapping);
}

void tiles_settle(uint64_t freed_bytes[RATION_DEVICES])
{
	struct tiles **link = &state.s.leaving, *over = NULL, *m;

	atomic_store(&state.s.is_due, false);
	pthread_mutex_lock(&state.s.mutex);
	while ((m = *link)) {
		enum stage_state was = stage_state(m->till);

		if (was == STAGE_RUNNING) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		if (was == STAGE_LOST) {
			stay(m);
			continue;
		}
		m->next = over;
		over = m;
	}
	pthread_mutex_unlock(&state.s.mutex);
	end_list(over, freed_bytes);
}

/* mutex held: takes all mappings of the array out, in front of `list`. */
static struct tiles *take_mappings(const void *array, struct tiles *list)
{
	struct tiles want = { .array = array }, **link = &state.s.leaving, *m, *next;

	for (m = RB_NFIND(tiles_tree, &state.s.mapped, &want); m && m->array == array; m = next) {
		next = RB_NEXT(tiles_tree, &state.s.mapped, m);
		RB_REMOVE(tiles_tree, &state.s.mapped, m);
		m->next = list;
		list = m;
	}
	while ((m = *link)) {
		if (m->array != array) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		m->next = list;
		list = m;
	}
	return list;
}

/* mutex held. */
static struct tiles_array take(const void *array)
{
	struct tiles_array taken = { take_mappings(array, NULL), find_made(array) };

	if (taken.made)
		hash_remove(&state.s.made, &taken.made->link);
	return taken;
}

struct tiles_array tiles_take(const void *array)
{
	struct tiles_array taken;

	pthread_mutex_lock(&state.s.mutex);
	taken = take(array);
	pthread_mutex_unlock(&state.s.mutex);
	return taken;
}

void tiles_ended(struct tiles_array array, uint64_t freed_bytes[RATION_DEVICES])
{
	end_list(array.list, freed_bytes);
	free(array.made);
}

void tiles_put_back(struct tiles_array array)
{
	struct tiles *next;

	pthread_mutex_lock(&state.s.mutex);
	for (struct tiles *m = array.list; m; m = next) {
		next = m->next;
		insert(m);
	}
	if (array.made)
		hash_insert(&state.s.made, &array.made->link);
	pthread_mutex_unlock(&state.s.mutex);
}

void tiles_made(const void *array, const void *ctx, bool is_whole,
		uint64_t freed_bytes[RATION_DEVICES])
{
	struct tiles_made *made = calloc(1, sizeof(*made));
	struct tiles_array old;

	pthread_mutex_lock(&state.s.mutex);
	old = take(array);
	if (made) {
		made->link.key = (uintptr_t)array;
		made->array = array;
		made->ctx = ctx;
		made->mark = context_mark();
		made->is_whole = is_whole;
		hash_insert(&state.s.made, &made->link);
	}
	pthread_mutex_unlock(&state.s.mutex);
	tiles_ended(old, freed_bytes);
}

/* Of a context that ended. */
struct ending {
	struct context_gone gone;
	struct tiles *list;
};

/* mutex held. */
static void end_if_in(struct hash_link *link, void *arg)
{
	struct tiles_made *made = (struct tiles_made *)link;
	struct ending *ending = arg;

	if (!context_is_gone(&ending->gone, made->ctx, made->mark))
		return;
	ending->list = take_mappings(made->array, ending->list);
	hash_remove(&state.s.made, link);
	free(made);
}

void tiles_end_context(const void *ctx, uint64_t mark, uint64_t freed_bytes[RATION_DEVICES])
{
	struct ending ending = { .gone = { ctx, mark } };

	pthread_mutex_lock(&state.s.mutex);
	if (ctx)
		hash_each(&state.s.made, end_if_in, &ending);
	pthread_mutex_unlock(&state.s.mutex);
	end_list(ending.list, freed_bytes);
}
