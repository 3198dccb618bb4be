/*
 * What other processes give up for this one. What they keep at hand with nothing in it
 * (core/object_spare.h) for whoever would be refused without: those of the tenant below its limit,
 * those of all tenants that can be told (shm/wanted.h) on a full card. Host memory that no object
 * has. And what objects have of the card, for what cannot move.
 *
 * The tenant's are asked by words of the region, which their workers look at (object_tick()).
 *
 * Thread safe. The caller holds no lock.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct region;
struct backing_bounds;

/* What is to be known of a card. */
struct others_ops {
	/* What it has free for anybody: 0 or -errno. */
	int (*card_free)(const char *uuid, uint64_t *out_bytes);
	/* How many processes were seen there last. */
	unsigned (*card_users)(void);
};

/*
 * Starts. The region is kept, not owned; `slot` is this process's in it. `ops` NULL: nothing is
 * known of cards.
 */
void others_init(struct region *region, unsigned slot, const struct others_ops *ops);

/*
 * Asks the tenant's for what they keep of the device, and waits a moment until they have none, or
 * so much less: false at once where they have none, or were asked in vain within the last second;
 * true when it became less.
 */
bool others_give(struct dev dev, uint64_t bytes);

/*
 * The card has no room for `bytes`: as others_give(), then asks all who can be told. True when
 * there is more room.
 */
bool others_give_card(struct dev dev, uint64_t bytes);

/* What the card has free for anybody: 0 or -ENOTSUP. */
int others_card_free(struct dev dev, uint64_t *out_bytes);

/*
 * Below a limit without room for `bytes`: the tenant's give back what they keep at hand, host
 * memory too, and are waited for a moment.
 */
void others_make_room(const struct backing_bounds *bounds, struct dev dev, uint64_t bytes);

/* Host memory has no room: what the tenant's keep of it goes back. Waits for nobody. */
void others_want_host(const struct backing_bounds *bounds);

/*
 * The tenant's have `bytes` of their objects leave the device, as far as they have any, and are
 * waited for while some do. True when what they have there became less.
 */
bool others_evict(const struct backing_bounds *bounds, struct dev dev, uint64_t bytes);

/* What is wanted so of whoever can, and that so much of it has gone. */
uint64_t others_evict_wanted(const struct backing_bounds *bounds, struct dev dev);
void others_evicted(const struct backing_bounds *bounds, struct dev dev, uint64_t bytes);
