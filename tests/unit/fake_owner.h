/*
 * Who owns buffer objects, in place of the driver: memory in some places with contents, mappings,
 * fences, and calls that fail when they are told to. Thread safe. In threads nothing of cmocka's
 * may fail, so what is wrong is remembered: owner_wrong().
 */
#pragma once

#include "core/bo.h"

enum { OWNER_MEMORIES = 4096, OWNER_WORDS = 4 };

/* An object with what it should hold. */
struct owned {
	struct bo bo;
	uint64_t mapped; /* handle of the memory that its address leads to, 0: none */
	uint64_t seed;   /* of its contents, 0: none are kept */
	bool is_kept;    /* not valuable to evict */
	bool is_destroyed;
	int move_rc; /* of its next move to somewhere, if not 0 */
};

struct owner {
	struct bo_device device;
	pthread_mutex_t mutex;
	/* constant while objects are used: as the test wants it */
	uint64_t room[BO_PLACES]; /* bytes that alloc() has to give */
	uint64_t unit;            /* of memory.bytes: they are rounded up to it; 0: as they are */
	int alloc_rc[BO_PLACES];  /* what alloc() answers, if not 0 */
	int wait_rc;              /* of wait(); 0: the work ends then */
	bool yields;              /* lets other threads run within its calls */
	void (*during_move)(void *arg); /* called in move(), without the mutex, if not NULL */
	void *during_move_arg;
	int begin_rc; /* what begin() answers */
	const struct bo_placement *evict_to[BO_PLACES];
	/* the mutex */
	struct {
		enum bo_place place; /* BO_NONE: free */
		uint64_t bytes, words[OWNER_WORDS];
		bool is_mapped;
	} memories[OWNER_MEMORIES];
	uint64_t taken[BO_PLACES];
	unsigned takes[BO_PLACES];          /* that gave something */
	uint64_t done;                      /* fences up to this */
	unsigned moves;                     /* calls of move() */
	unsigned moved;                     /* objects in them */
	unsigned waits;                     /* calls of wait() */
	unsigned begun;                     /* calls of begin() that succeeded */
	bool is_still;                      /* after one, until end() */
	const struct bo_patience *patience; /* of that one; NULL: it asks nobody */
	unsigned moved_out;                 /* of this call of move(): asked before each but one */
	unsigned destroyed;
	unsigned steps;      /* calls that may fail: alloc, wait, each object of a move */
	unsigned fail_at;    /* the step that fails, from 1; 0: none */
	unsigned fail_every; /* so do all whose number this divides; 0: none */
	int fail_rc;         /* so, if it is an object's move */
	const char *wrong;   /* what was found first */
};

/* Placements of one place, and of none. */
extern const struct bo_placement owner_in[BO_PLACES], owner_nowhere;

/*
 * Setup and teardown of a test: *state is an owner that began, and nothing may be left of it.
 */
int owner_setup(void **state);
int owner_teardown(void **state);

/* VRAM goes to GTT, GTT to SYSTEM, SYSTEM stays. Each change of the device is checked. */
void owner_begin(struct owner *owner);

/* Nothing may be left. */
void owner_end(struct owner *owner);

/* What was wrong up to now, NULL: nothing. */
const char *owner_wrong(struct owner *owner);

/* An object of these bytes with priority 0, in BO_NONE. */
void owner_make(struct owner *owner, struct owned *owned, uint64_t bytes);

/* The same with memory in a place, filled. */
void owner_make_in(struct owner *owner, struct owned *owned, uint64_t bytes, enum bo_place place);

/* Reserves, validates and gives back. */
int owner_place(struct owned *owned, const struct bo_placement *placement, struct bo_ctx *ctx);

/* Writes contents, as the program that uses the object; it has memory. */
void owner_fill(struct owner *owner, struct owned *owned, uint64_t seed);

/* Looks whether they are there, and mapped. */
void owner_look(struct owner *owner, struct owned *owned);

/* True when it is the test's again. */
bool owner_is_destroyed(struct owner *owner, const struct owned *owned);

/* The work up to this fence is done. */
void owner_finish(struct owner *owner, uint64_t fence);
