/*
 * Functions that the program was given and may launch: whether the local memory that their
 * threads need is there. While one of them is not known to have it, the gate is watched
 * (core/gate.h), so that
 * its launch goes by the slow way and is told from the others.
 *
 * A handle is a function's (of one context), a kernel's or an executable graph's (of any). Thread
 * safe: looking up takes no lock, changing one mutex.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What a handle is. */
enum function_kind { FUNCTION_OF_CONTEXT, FUNCTION_KERNEL, FUNCTION_GRAPH };

/* Starts: fork children begin with nothing. */
void function_init(void);

/*
 * The program is about to get this handle, of a module or library `owner` (NULL: of none). It
 * counts as never launched, whatever was known of it. Without memory for it nobody watches: what
 * it takes is
 * found by the driver's figure.
 */
void function_enter(const void *handle, enum function_kind kind, const void *owner);

/*
 * Its threads need so much local memory; `has_room`: every context that it may run in has that, and
 * a kernel's library.
 */
void function_tell(const void *handle, const void *ctx, uint32_t thread_bytes, bool has_room);

/*
 * What was told; false when nothing was. What the handle is, FUNCTION_OF_CONTEXT when it is
 * unknown. Whose it is, NULL when it is unknown.
 */
bool function_thread_bytes(const void *handle, uint32_t *out_thread_bytes);
enum function_kind function_kind(const void *handle);
const void *function_owner(const void *handle);

/* True when nothing is to be done for its launch; also for NULL. */
bool function_is_settled(const void *handle);

/*
 * A kernel that is not settled has all that it needs in this context (NULL: in none) until room is
 * lost there. And whether it has: a look as of function_is_settled().
 */
void function_place(const void *handle, const void *ctx);
bool function_has_place(const void *handle, const void *ctx);

/* True while there is a function that is not settled. */
bool function_any(void);

/*
 * A context has local memory for threads of `thread_bytes`, the context that has least for those of
 * `least_bytes`: settles what fits, and nothing else. A library's kernel is only settled by being
 * told of, since its library has to be in every context too.
 */
void function_room(const void *ctx, uint32_t thread_bytes, uint32_t least_bytes);

/* A new context, in which no library is: their kernels are not settled until launched again. */
void function_context_came(void);

/* The most that was told of any function so far, bytes for each thread. */
uint32_t function_most(void);

/*
 * An owner is about to go, or did not: what it has may be another's as soon as the driver has it
 * back, so it goes by an address of the caller's meanwhile.
 */
void function_rename_owner(const void *was, const void *to);

/*
 * A handle ended, or all of a module or library, or all of a context that had come by `mark`
 * (context_mark() before it went).
 */
void function_end(const void *handle);
void function_end_owner(const void *owner);
void function_end_context(const void *ctx, uint64_t mark);
