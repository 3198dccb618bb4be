/*
 * Buffer objects: pieces of device memory with an address for life, and memory behind it that may
 * be exchanged. A request of the program is one object, or several that lie side by side.
 *
 * Policy alone: what memory is, how bytes are moved and when work is done is the owner's (struct
 * bo_ops). An object lies in one place at any time; a move that fails leaves it whole where it was.
 *
 * Locks, in this order: the reservation of an object (many objects only by tickets, bo_exec.h),
 * then the device's mutex, which is never held while ops are called and orders the lists, the usage
 * and what each object says of where it is. Who holds an object's reservation alone may move it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Where an object's bytes are. */
enum bo_place {
	BO_NONE, /* nowhere: no memory, nothing is mapped */
	BO_VRAM, /* device memory */
	BO_GTT,  /* host memory at the object's own device address: work reaches it over the link */
	BO_SYSTEM, /* host memory; nothing is mapped at the address */
	BO_PLACES,
};

enum { BO_PRIORITIES = 4 };

/* Memory in one place; the owner's words. */
struct bo_memory {
	uint64_t handle;
	uint64_t bytes; /* at least the object's */
};

/* How long one waits for work that is under way, and who asks that it be no longer. */
struct bo_patience {
	int64_t work_ns;
	/* Asked every millisecond or so, and while things move: true ends it. May be NULL. */
	bool (*is_over)(void *arg);
	void *arg;
};

struct bo;
struct bo_device;
struct bo_host;
struct bo_ticket;
struct bo_bulk;

/* One exchange of memory. */
struct bo_move {
	struct bo *bo;
	enum bo_place from_place, to_place;
	struct bo_memory from, to;
	/*
	 * An earlier move of the list, of which `to` is what it leaves: this one follows only when
	 * that one is over and did not fail; else it is -ECANCELED. NULL: `to` is nobody's.
	 */
	const struct bo_move *giver;
	bool has_heir; /* it is a giver */
	/*
	 * In: -ECANCELED. Out: 0, or why it lies as before; -EIO: neither way is left, nothing is
	 * mapped any more and the bytes are lost.
	 */
	int rc;
};

/* What the owner does. `owner` is bo_device_init()'s. Called without locks of this file. */
struct bo_ops {
	/*
	 * Takes memory for the object. 0, -ENOSPC without room there: then others go, if they can;
	 * or another error, for which they do not. Maps nothing.
	 */
	int (*alloc)(void *owner, const struct bo *bo, enum bo_place place,
		     struct bo_memory *out_memory);
	/* Gives memory back that nothing is mapped to. */
	void (*free)(void *owner, enum bo_place place, struct bo_memory memory);
	/*
	 * Exchanges the memory of all of them, together as far as that is cheaper: bytes are copied
	 * unless one of the places is BO_NONE, and what is mapped follows. From BO_NONE maps fresh
	 * memory; to BO_NONE unmaps, when no work can use the object any more. Each is reserved by
	 * the caller. Waits a bounded time for work that is under way. What a giver leaves is
	 * overwritten whole.
	 */
	void (*move)(void *owner, struct bo_move *moves, unsigned count);
	/*
	 * Has all work stand still until end(), of the same thread, with this patience, which is
	 * kept until then; moves in between wait for none. When it is over, what has not begun of a
	 * move and leaves BO_VRAM is -ECANCELED. 0, -EBUSY when it did not end in time, -EAGAIN
	 * during a capture. May be NULL, both: each move sees to that itself.
	 */
	int (*begin)(void *owner, const struct bo_patience *patience);
	void (*end)(void *owner);
	/* True when the work up to this fence is done. Fences ascend; 0 is done. */
	bool (*is_done)(void *owner, uint64_t fence);
	/* Waits for that until `until_ns` (clock_now_ns()). 0 or -EBUSY. */
	int (*wait)(void *owner, uint64_t fence, int64_t until_ns);
	/*
	 * False for an object that is to stay this time. May be NULL: all may go. The device's
	 * mutex is held, alone of all calls: it looks, takes no lock and calls nothing of this
	 * file.
	 */
	bool (*is_valuable)(void *owner, const struct bo *bo, enum bo_place place);
	/*
	 * Where an object goes that has to leave `place`; count 0: its bytes are not kept. May be
	 * NULL: nothing ever has to.
	 */
	const struct bo_placement *(*evict_to)(void *owner, const struct bo *bo,
					       enum bo_place place);
	/*
	 * From now on, before anything is taken, `host` counts what there is of host memory, that
	 * which is kept at hand too; it is kept. May be NULL: the owner keeps none.
	 */
	void (*set_host)(void *owner, const struct bo_host *host);
	/* Gives host memory back that is kept at hand. May be NULL. */
	void (*trim)(void *owner);
	/* Nobody has the object any more and its memory is given back. It is the owner's again. */
	void (*destroy)(void *owner, struct bo *bo);
};

/* A place that would do, in order of preference. */
enum bo_want_flag {
	BO_DESIRED = 1,  /* only where there is room: nothing is evicted for it */
	BO_FALLBACK = 2, /* only when the others have no room */
};
struct bo_want {
	enum bo_place place;
	unsigned flags;
};
struct bo_placement {
	const struct bo_want *wants;
	unsigned count;
};

/* How a call may go about it. One of zeros waits at most BO_WAIT_NS and moves what it must. */
struct bo_ctx {
	struct bo_ticket *ticket; /* NULL: of one object alone */
	bool no_wait;             /* -EBUSY, or another place, in the place of waiting */
	uint64_t batch_bytes;     /* that move at a time (bo_hold.h); 0: some gigabytes */
	uint64_t moved_bytes;     /* out: added up */
};

#define BO_WAIT_NS (15 * INT64_C(1000000000))

TAILQ_HEAD(bo_list, bo);
TAILQ_HEAD(bo_round_list, bo_round);

struct bo {
	/* constant after bo_init() */
	struct bo_device *device;
	uint64_t addr, bytes;
	/* bo.c and bo_*.c alone; the device's mutex, but where the holder of the reservation alone
	 * writes (place, memory, fence), which others read under the mutex */
	enum bo_place place;
	struct bo_memory memory;
	uint64_t fence;   /* work that may use it: done before memory goes. 0: none known */
	uint32_t refs;    /* atomic; becomes 0 with the mutex, and is_deleted true */
	uint32_t pins;    /* > 0: it does not move, and is in device->pinned */
	uint8_t priority; /* below BO_PRIORITIES; the lowest goes first */
	bool is_deleted;  /* nobody has it any more, its memory waits for the fence */
	bool is_lost;     /* a move failed both ways */
	bool is_reserved;
	struct bo_ticket *holder; /* of the reservation, NULL without a ticket */
	struct bo_ticket *heir;   /* the oldest that waits for it: nobody younger gets it */
	struct bo_bulk *bulk;     /* those that are used together, NULL: none (bo_bulk.h) */
	struct bo_run *run;       /* of the bulk, that it stands in; NULL: not in an LRU list */
	struct bo_list *list;     /* that it is in: one of its device's, always */
	TAILQ_ENTRY(bo) in_list;
	void *user; /* the owner's */
};

/* One place's memory on a device. */
struct bo_manager {
	uint64_t limit_bytes;   /* UINT64_MAX: only ops->alloc() says */
	uint64_t used_bytes;    /* sum of memory.bytes of the objects there, and what is pending */
	uint64_t pending_bytes; /* being taken, or being given back */
	struct bo_list lru[BO_PRIORITIES];
};

/* The objects of this process on one device. */
struct bo_device {
	/* constant */
	const struct bo_ops *ops;
	void *owner;
	/* Called with the mutex at the end of each change. Tests look there; else NULL. */
	void (*on_change)(const struct bo_device *device);
	pthread_mutex_t mutex;
	/* the mutex */
	struct bo_manager managers[BO_PLACES];
	struct bo_list pinned;
	struct bo_list deleted;      /* is_deleted, oldest first */
	struct bo_list unplaced;     /* in BO_NONE and neither of those */
	unsigned waiters;            /* for `ended` to change */
	unsigned ending;             /* out of `deleted`, whose destroy() is not over */
	unsigned ended;              /* a futex: ends of reservations, and gains */
	struct bo_round_list takers; /* attempts that have memory pending (bo_round.h) */
	uint64_t gains;              /* counts what may give room to who was refused */
};

void bo_device_init(struct bo_device *device, const struct bo_ops *ops, void *owner);

/* Finishes what can be. 0, or -EBUSY when objects are left: it stays as it is. */
int bo_device_fini(struct bo_device *device);

/* Bytes that may lie in a place. What lies there already stays. */
void bo_device_set_limit(struct bo_device *device, enum bo_place place, uint64_t bytes);
uint64_t bo_device_used(struct bo_device *device, enum bo_place place);

/*
 * An object without memory, in BO_NONE, with one reference: the caller's to fill with
 * bo_validate().
 */
void bo_init(struct bo *bo, struct bo_device *device, uint64_t addr, uint64_t bytes,
	     unsigned priority);

struct bo *bo_get(struct bo *bo);

/*
 * Gives a reference back, the last one never of an object that the caller has reserved. With it the
 * memory goes, as soon as its fence is done; until then it counts, and bo_reap() or who needs its
 * memory finishes it. ops->destroy() ends it.
 */
void bo_put(struct bo *bo);

/* Finishes deleted objects whose fences are done. True when others are left. */
bool bo_reap(struct bo_device *device);

/* Notes that work up to `fence` may use it. Any thread. */
void bo_add_fence(struct bo *bo, uint64_t fence);

/* Waits for what is noted, up to BO_WAIT_NS. 0 or -EBUSY, at once with ctx->no_wait. */
int bo_wait(struct bo *bo, const struct bo_ctx *ctx);

/*
 * Has the object for the caller alone. 0; -EBUSY with ctx->no_wait; -EALREADY when the ticket has
 * it; -EDEADLK when an older ticket has it: the caller gives all it has back and begins again;
 * -EBUSY after BO_WAIT_NS. ctx NULL: waits, without a ticket.
 */
int bo_reserve(struct bo *bo, struct bo_ctx *ctx);

/* Ends that; the object was used: as bo_touch(). */
void bo_unreserve(struct bo *bo);

/*
 * Sees that a reserved object lies in one of the places: where it does, nothing is done; else it is
 * moved to the first that has room, and if none has, others are evicted to make it. 0; -ENOMEM when
 * there is none; -EINVAL when it is pinned elsewhere; -EBUSY when work did not end in time; the
 * errors of a move. A placement of nothing gives its memory back, and its bytes.
 */
int bo_validate(struct bo *bo, const struct bo_placement *placement, struct bo_ctx *ctx);

/*
 * The same for several of a device, all reserved, with one move for all that has to be moved: 0, or
 * the first error, when some may have been moved.
 */
int bo_validate_all(struct bo *const *objects, unsigned count, const struct bo_placement *placement,
		    struct bo_ctx *ctx);

/* Keeps a reserved object where it is, counted. Any thread ends that, reserved or not. */
void bo_pin(struct bo *bo);
void bo_unpin(struct bo *bo);

/* It was used just now: of its priority, or of its bulk, it goes last. Any thread. */
void bo_touch(struct bo *bo);

/* From now on it goes after all of lower priority. Any thread. */
void bo_set_priority(struct bo *bo, unsigned priority);

/*
 * Moves the least recently used of a place elsewhere, together, until `bytes` went or all that can.
 * 0 with what went, which may be more by a part of the last and less when some could not; -ENOMEM
 * when nothing could go, -EBUSY when what could was in use too long; -EDEADLK as bo_reserve().
 */
int bo_evict(struct bo_device *device, enum bo_place place, uint64_t bytes, struct bo_ctx *ctx,
	     uint64_t *out_bytes);
