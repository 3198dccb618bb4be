/*
 * Stages: how far streams have come with what was given to them. A stage has a mark of the driver's
 * (drv/gpu_event.h) behind some of a stream's work; it is passed when the stream has come to that.
 *
 * A stream has two marks at a time, whatever is given to it: the older one stays where it is until
 * it is passed, so that this comes to pass in a stream that is never idle; the newer one is moved
 * on behind what comes.
 *
 * Thread safe; nothing here calls the driver but what stage_settle() is given.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stage;

enum stage_state {
	STAGE_RUNNING,
	STAGE_PASSED,
	STAGE_LOST, /* nobody can say any more whether it is passed, nor ever will */
};

/* Starts: fork children begin with nothing. */
void stage_init(void);

/*
 * The stage of a stream whose mark is to be moved on behind what was just given to it; NULL: the
 * next is a new one. Streams are told by numbers that no other stream has or had; 0 is none that is
 * known.
 */
struct stage *stage_join(uint64_t stream);

/*
 * A new one with this mark, to be put there. NULL: there are too many, or there is no memory; the
 * mark stays the caller's.
 */
struct stage *stage_make(uint64_t stream, uint64_t mark);

/* Of a stage that was joined or made. */
uint64_t stage_mark(const struct stage *stage);

/*
 * The mark was put there, or could not be: then the stage is lost. The caller has a share of it
 * until stage_drop().
 */
void stage_put(struct stage *stage, bool is_put);

/* One share more, and one less. NULL is fine. */
struct stage *stage_share(struct stage *stage);
void stage_drop(struct stage *stage);

/* NULL is lost. */
enum stage_state stage_state(struct stage *stage);

/* The stream's number, constant; NULL has 0. */
uint64_t stage_stream(const struct stage *stage);

/* True while marks are to be asked. One load. */
bool stage_any(void);

/*
 * Asks them, and gives those back of which it is known then. Both may call the driver. True when
 * there were some.
 */
bool stage_settle(enum stage_state (*ask)(uint64_t mark), void (*give)(uint64_t mark));
