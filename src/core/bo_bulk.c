#include "core/bo_bulk.h"

#include "core/bo_device.h"

#include <stddef.h>

void bo_bulk_init(struct bo_bulk *bulk, struct bo_device *device)
{
	*bulk = (struct bo_bulk){ .device = device };
}

void bo_bulk_set(struct bo_bulk *bulk, struct bo *bo)
{
	bo_device_lock(bo->device);
	if (!bo->is_deleted && bo->bulk != bulk) {
		bo_device_unlist(bo);
		bo->bulk = bulk;
		bo_device_list(bo);
	}
	bo_device_unlock(bo->device);
}

struct bo *bo_bulk_enter_run(struct bo *bo)
{
	struct bo_run *run = &bo->bulk->runs[bo->place][bo->priority];
	struct bo *before = run->last;

	bo->run = run;
	run->last = bo;
	if (!before)
		run->first = bo;
	return before;
}

void bo_bulk_leave_run(struct bo *bo)
{
	struct bo_run *run = bo->run;

	if (!run)
		return;
	if (run->first == run->last)
		run->first = run->last = NULL;
	else if (run->first == bo)
		run->first = TAILQ_NEXT(bo, in_list);
	else if (run->last == bo)
		run->last = TAILQ_PREV(bo, bo_list, in_list);
	bo->run = NULL;
}

/* Puts a run last in its list. It is not last yet. */
static void splice(struct bo_list *list, struct bo_run *run)
{
	struct bo *next = TAILQ_NEXT(run->last, in_list);

	next->in_list.tqe_prev = run->first->in_list.tqe_prev;
	*run->first->in_list.tqe_prev = next;
	run->last->in_list.tqe_next = NULL;
	run->first->in_list.tqe_prev = list->tqh_last;
	*list->tqh_last = run->first;
	list->tqh_last = &run->last->in_list.tqe_next;
}

void bo_bulk_touch(struct bo_bulk *bulk)
{
	bo_device_lock(bulk->device);
	for (unsigned place = 0; place < BO_PLACES; place++)
		for (unsigned i = 0; i < BO_PRIORITIES; i++) {
			struct bo_run *run = &bulk->runs[place][i];

			if (run->last && TAILQ_NEXT(run->last, in_list))
				splice(run->last->list, run);
		}
	bo_device_unlock(bulk->device);
}
