/*
 * Memory for an object in one of the places that would do.
 */
#pragma once

#include "core/bo_round.h"

enum bo_room_pass {
	BO_ROOM_FREE,  /* only where there is room; BO_FALLBACK places are not asked */
	BO_ROOM_EVICT, /* others have to go; BO_DESIRED places are not asked */
};

/* True when the object lies in a place that the pass would ask. */
bool bo_room_has(const struct bo *bo, const struct bo_placement *placement, enum bo_room_pass pass);

/*
 * Takes memory in the first place that has room or, in the second pass, can be given room. Not
 * where the round is evicting from. 0; -ENOSPC; -EBUSY when it could be had but for work or objects
 * that are in use now; -EDEADLK as bo_reserve(); or what ops->alloc() says.
 */
int bo_room_find(const struct bo *bo, const struct bo_placement *placement, enum bo_room_pass pass,
		 struct bo_round *round, enum bo_place *out_place, struct bo_memory *out_memory);

/*
 * Memory for a reserved object in one of the places, which it is to be moved to; its work is done.
 * 0; 1 when there is nothing to move; -ENOSPC, or an error as bo_validate().
 */
int bo_room_prepare(struct bo *bo, const struct bo_placement *placement, struct bo_round *round,
		    enum bo_place *out_place, struct bo_memory *out_memory);

/*
 * The same where the memory is another's, who is about to leave it: takes none. 0: it is to move,
 * and its work is done.
 */
int bo_room_follow(struct bo *bo, const struct bo_placement *placement, struct bo_round *round);
