/*
 * What belongs on the device and what may lie elsewhere: by how often things are used. Numbers
 * alone; whoever counts uses and moves things is elsewhere.
 *
 * Time goes in rounds. Something far that is used once costs its bytes over the link; so does each
 * move. It pays to bring something near when what its uses would cost in the next rounds is clearly
 * more than the moves, its own and those of what makes room. Two means of the uses are kept, a
 * quick and a slow one: what comes must be hot by both, what goes cold by both. So a burst is no
 * reason, and who uses everything in turn, more than fits, moves nothing: all are equally hot.
 *
 * The slow mean of something new is that of the rounds that it has seen. The most that was used
 * within the time of the quick mean does not count in it for who would come: it may be the one
 * burst, or a turn that others have not had yet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One use in a round is so much. */
enum { HEAT_ONE = 1 << 12 };
/* Uses are told in parts of which so many are a use of each byte once. */
enum { HEAT_USE = 16 };

/* Of one thing. Zero: it is new. */
struct heat {
	uint32_t quick, slow; /* uses in a round, in HEAT_ONE */
	uint32_t peak;        /* the highest that `quick` was of late */
	uint32_t seen;        /* rounds, as far as they matter */
	uint32_t rounds;      /* that it was where it is */
	uint32_t rest;        /* rounds in which it is not asked to move */
	uint32_t refused;     /* how often it did not move when it was, since it did */
	bool has_moved;
};

/* A round is over, in which it was used so often, in HEAT_USE. */
void heat_tick(struct heat *heat, uint32_t uses);

/* It was moved. */
void heat_moved(struct heat *heat);

/* It was to move and did not: it is left alone for some rounds, more each time. */
void heat_refused(struct heat *heat);

/* Something that can be moved. */
struct heat_item {
	const struct heat *heat;
	uint64_t bytes;
	bool is_near; /* on the device */
	void *user;
};

/* One of the items, by its number, and how hot it is. */
struct heat_rank {
	uint32_t hot;
	unsigned item;
};

/* What to do now: those that come, and those that go to make room. */
struct heat_plan {
	struct heat_rank *comes, *goes; /* the caller's, room for as many as there are items */
	unsigned comes_count;           /* 0: nothing is to be done */
	unsigned goes_count;            /* 0: there should be room */
	uint64_t moved_bytes;           /* by all of them */
	bool pays_much;                 /* what they cost is little beside what they are worth */
};

/*
 * All that pays at this moment, with `room_bytes` free on the device: the hottest come, in the
 * place of the coldest. No more than most_bytes are moved in all, or four times as many if that
 * pays much.
 */
void heat_plan(const struct heat_item *items, unsigned count, uint64_t room_bytes,
	       uint64_t most_bytes, struct heat_plan *out);
