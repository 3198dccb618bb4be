/*
 * What executable graphs use of objects, node by node: known when they are made or changed, noted
 * when they are launched. Addresses are kept, not objects: what is freed meanwhile is nothing's.
 *
 * A list is made by one thread, then entered. Thread safe from then on; a launch does not wait for
 * another that notes. What all lists hold is bounded: what is beyond that is not seen. Fork
 * children begin with nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Something that a node uses. */
struct exec_use {
	uint64_t addr;
	uint64_t bytes; /* from there; 0: all of the object in which it lies */
	uint64_t kind;  /* of launches (core/link_cost.h); 0: each byte is used once */
};

struct exec_uses;

void exec_uses_init(void);

/* A list with nothing in it; NULL when host memory is out. It is freed, entered or handed over. */
struct exec_uses *exec_uses_new(void);
void exec_uses_free(struct exec_uses *list);

/*
 * One more node of the graph, as far as it can be kept. `depth`: of how many child graphs it is a
 * part; those of a child graph come behind its own node.
 */
void exec_uses_add_node(struct exec_uses *list, const void *node, unsigned depth);

/* The last node that was added uses this too. Without a list or a node nothing is done. */
void exec_uses_add(struct exec_uses *list, const struct exec_use *use);

/*
 * An executable graph was made, which uses that. The list, which may be NULL, is no longer the
 * caller's.
 */
void exec_uses_enter(const void *exec, struct exec_uses *list);

/*
 * It is about to be destroyed: what it uses is taken out, NULL when nothing is known. It is freed,
 * or entered again if the graph lives on.
 */
struct exec_uses *exec_uses_take(const void *exec);

/*
 * It was changed: a node, which is the list's first, and those of its child graph use what the list
 * says; or all of them do. They keep the names they had, by which further changes know them. Where
 * the list has another number of nodes, the first is said to use all of it. The list, which may be
 * NULL, is no longer the caller's.
 */
void exec_uses_set_node(const void *exec, const void *node, struct exec_uses *list);
void exec_uses_set(const void *exec, struct exec_uses *list);

/* Takes a use by so many launches. */
typedef void exec_uses_fn(const struct exec_use *use, uint32_t launches);

/*
 * It is launched, now. Not each launch is noted by itself: those of 20 ms together, of a long list
 * those of more, so that noting takes a small part of the time.
 */
void exec_uses_launched(const void *exec, int64_t now_ns, exec_uses_fn *note);
