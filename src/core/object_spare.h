/*
 * Spares: large objects that were freed and are kept whole, with their addresses, what is mapped
 * there and their memory, for the next request of their size. To keep one and to have it again
 * calls nothing of the driver.
 *
 * A spare is charged, and nobody's: the region says how much of a process's memory is (its
 * idle_blocks), and views take that off. All go before anything is refused; one that was not wanted
 * for a second goes by itself. What was freed last is had first, what was freed first goes first.
 *
 * Not kept: what others had the addresses of, and what has to wait for its work longer than it may
 * be kept. Where something of the process lies in host memory, or the card is full, none are.
 *
 * No lock inside: all under the device's mutex.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct object;
struct object_device;

TAILQ_HEAD(object_list, object);

/* Why none are kept: bits. */
enum object_spare_off {
	SPARE_OFF_HELD = 1, /* the process is held, or about to be: nothing of it is on the card */
	SPARE_OFF_FAR = 2,  /* something that is in use has no room there */
	SPARE_OFF_FULL = 4, /* the card has little left for others */
};

enum { OBJECT_SPARE_SIZES = 64 };

struct object_spares {
	struct object_list all;                       /* what was freed first comes first */
	struct object_list sizes[OBJECT_SPARE_SIZES]; /* by size, hashed; that comes last */
	uint64_t bytes;
	uint64_t bound_bytes; /* no more are kept; 0 at first */
	unsigned off;         /* enum object_spare_off; 0: they are kept */
};

void object_spare_init(struct object_device *d);

/*
 * An object that was freed, with the fence that it waits for: it is kept, or in *going; so are
 * those that have to go for it. What is in *going is the caller's, to object_large_close_all().
 */
void object_spare_give(struct object_device *d, struct object *object, uint64_t fence,
		       struct object_list *going);

/*
 * One of so many bytes that was had in the same context, whose end ends its mapping, and whose work
 * is done as far as that is known: the caller's now. Else NULL, and *out_is_waiting: one is there,
 * and it may be done.
 */
struct object *object_spare_take(struct object_device *d, const void *ctx, uint64_t bytes,
				 bool *out_is_waiting);

/* Those that were freed before then, INT64_MAX: all, are in *going. */
void object_spare_drop(struct object_device *d, int64_t before_ns, struct object_list *going);

/* What may be kept from now on, and why nothing is. What is there above that is in *going. */
void object_spare_set_bound(struct object_device *d, uint64_t bound_bytes,
			    struct object_list *going);
void object_spare_set_off(struct object_device *d, enum object_spare_off why, bool is_off,
			  struct object_list *going);
