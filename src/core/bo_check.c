#include "core/bo_check.h"

#include "base/log.h"
#include "core/bo_bulk.h"
#include "core/bo_round.h"

#include <stddef.h>

/* Which objects a list is for. */
enum kind { LRU, PINNED, DELETED, UNPLACED };

static enum kind kind_of(const struct bo *bo)
{
	if (bo->is_deleted)
		return DELETED;
	if (bo->pins)
		return PINNED;
	return bo->place == BO_NONE ? UNPLACED : LRU;
}

static const char *check_memory(const struct bo *bo)
{
	if (bo->place < BO_NONE || bo->place >= BO_PLACES)
		return "an object is in a place that there is not";
	if (bo->place == BO_NONE && (bo->memory.handle || bo->memory.bytes))
		return "an object that is nowhere has memory";
	if (bo->place != BO_NONE && bo->memory.bytes < bo->bytes)
		return "an object has too little memory";
	if (bo->is_lost && bo->place != BO_NONE)
		return "a lost object is somewhere";
	if (bo->holder && !bo->is_reserved)
		return "a ticket has an object that is not reserved";
	return NULL;
}

/* Of one that is in a list: true when who stands before and after it is as its run says. */
static bool stands_in_run(const struct bo *bo)
{
	const struct bo_run *run = bo->run;
	const struct bo *next = TAILQ_NEXT(bo, in_list);
	const struct bo *before = TAILQ_PREV(bo, bo_list, in_list);

	if (!run)
		return true;
	return (run->first == bo) == (!before || before->run != run) &&
	       (run->last == bo) == (!next || next->run != run);
}

static const char *check_bulk(const struct bo *bo, enum kind kind)
{
	const struct bo_run *run = NULL;

	if (kind == LRU && bo->bulk)
		run = &bo->bulk->runs[bo->place][bo->priority];
	if (bo->run != run)
		return "an object is in another run than its bulk's";
	if (kind == DELETED && bo->bulk)
		return "a deleted object is in a bulk";
	return stands_in_run(bo) ? NULL : "a bulk does not stand together";
}

/* Adds to bytes[] what the objects of a list have. */
static const char *check_list(const struct bo_device *device, const struct bo_list *list,
			      enum kind kind, uint64_t *bytes)
{
	struct bo *const *link = &list->tqh_first;
	const struct bo *bo;
	const char *wrong;

	TAILQ_FOREACH(bo, list, in_list) {
		if (bo->device != device || bo->list != list)
			return "an object is in a list that it does not know of";
		if (bo->in_list.tqe_prev != link)
			return "a list is torn";
		if (kind_of(bo) != kind)
			return "an object is in a list where it does not belong";
		wrong = check_memory(bo);
		if (!wrong)
			wrong = check_bulk(bo, kind);
		if (wrong)
			return wrong;
		bytes[bo->place] += bo->memory.bytes;
		link = &bo->in_list.tqe_next;
	}
	return list->tqh_last == link ? NULL : "a list has another end";
}

static const char *check_lru(const struct bo_device *device, unsigned place, unsigned priority,
			     uint64_t *bytes)
{
	const struct bo_list *list = &device->managers[place].lru[priority];
	const char *wrong = check_list(device, list, LRU, bytes);
	const struct bo *bo;

	if (wrong)
		return wrong;
	TAILQ_FOREACH(bo, list, in_list)
		if (bo->place != place || bo->priority != priority)
			return "an object is in the list of another place or priority";
	return NULL;
}

static uint64_t taken_bytes(const struct bo_device *device, unsigned place)
{
	const struct bo_round *taker;
	uint64_t bytes = 0;

	TAILQ_FOREACH(taker, &device->takers, in_takers)
		bytes += taker->taken_bytes[place];
	return bytes;
}

const char *bo_check(const struct bo_device *device)
{
	uint64_t bytes[BO_PLACES] = { 0 };
	const char *wrong = check_list(device, &device->pinned, PINNED, bytes);

	if (!wrong)
		wrong = check_list(device, &device->deleted, DELETED, bytes);
	if (!wrong)
		wrong = check_list(device, &device->unplaced, UNPLACED, bytes);
	for (unsigned place = 0; place < BO_PLACES && !wrong; place++)
		for (unsigned i = 0; i < BO_PRIORITIES && !wrong; i++)
			wrong = check_lru(device, place, i, bytes);
	for (unsigned place = 0; place < BO_PLACES && !wrong; place++) {
		const struct bo_manager *manager = &device->managers[place];

		if (manager->used_bytes != bytes[place] + manager->pending_bytes)
			wrong = "what is used is not what the objects have";
		else if (taken_bytes(device, place) > manager->pending_bytes)
			wrong = "an attempt has taken what is not pending";
	}
	return wrong;
}

void bo_check_log(const struct bo_device *device)
{
	const char *wrong = bo_check(device);

	if (wrong)
		log_error("buffer objects: %s", wrong);
}
