/*
 * What belongs on the device and what may lie elsewhere: by how often things are used. Numbers
 * alone; whoever counts uses and moves things is elsewhere.
 *
 * Time goes in rounds. Something far that is used once costs its bytes over the link; so does each
 * move. It pays to bring something near when what its uses would cost in the next rounds is clearly
 * more than the moves, its own and those of what makes room. Two means of the uses are kept, a
 * quick and a slow one: what comes must be hot by both, what goes cold by both. So a burst is no
 * reason, and who uses everything in turn, more than fits, moves nothing: all are equally hot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One use in a round is so much. */
enum { HEAT_ONE = 1 << 12 };

/* Of one thing. Zero: it is new. */
struct heat {
	uint32_t quick, slow; /* uses in a round, in HEAT_ONE */
	uint32_t rounds;      /* that it was where it is, as far as it matters */
};

/* A round is over, in which it was used so often. */
void heat_tick(struct heat *heat, uint32_t uses);

/* It was moved. */
void heat_moved(struct heat *heat);

/* Something that can be moved. */
struct heat_item {
	const struct heat *heat;
	uint64_t bytes;
	bool is_near; /* on the device */
	void *user;
};

/* What to do now. */
struct heat_plan {
	/* Of the items, by their numbers; one comes, or nothing is to be done. */
	bool is_any;
	unsigned comes;
	unsigned goes_count; /* 0: there should be room for it */
	unsigned *goes;      /* the caller's, room for as many as there are items */
};

/*
 * The most that pays at this moment, with `room_bytes` free on the device. No more than most_bytes
 * are moved in all.
 */
void heat_plan(const struct heat_item *items, unsigned count, uint64_t room_bytes,
	       uint64_t most_bytes, struct heat_plan *out);
