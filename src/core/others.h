/*
 * What other processes keep at hand of a card with nothing in it (core/object_spare.h): they give
 * it back for whoever would be refused without, those of the tenant below its limit, and those of
 * all tenants that can be told (shm/wanted.h) on a full card.
 *
 * Thread safe. The caller holds no lock.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct region;

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
