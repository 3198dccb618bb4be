/*
 * A driver in one process, for the hooks to stand on: linear memory in blocks of 2 MiB that small
 * requests share, managed memory, handles with references and mappings, contexts and modules that
 * cost memory. It keeps the books that the charges are compared with.
 *
 * Thread safe. Its calls stand in `real`; init_member() and its like are the model's own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MODEL_CONTEXT_BYTES (UINT64_C(12) << 20)
#define MODEL_BLOCK_BYTES (UINT64_C(2) << 20)

/* What the process holds, by the driver's own books. */
struct model_books {
	uint64_t blocks_bytes;
	uint64_t handles_bytes;
	uint64_t managed_bytes;
	uint64_t overhead_bytes; /* contexts and modules */
	uint64_t most_bytes;     /* the most of the first three together, ever */
	int contexts_made;       /* ever */
};

/* Starts the driver anew, with a card of `card_bytes` for blocks and handles. */
void model_start(uint64_t card_bytes);

/* Joins the tenant, as init.c does at the first call; also in a fork child. */
void model_join(const char *region, const char *limit);

/* The next call of this thread that gives or takes memory fails and does nothing. */
void model_fail_next(void);

/*
 * Runs `fn` when the next call of this thread that gives or takes memory is done in the driver and
 * has not come back yet: what another thread may do in the middle of a hook.
 */
void model_after_next(void (*fn)(void));

/*
 * Imports: of a handle of this process, as its own value says, or (0) of memory of another process.
 * How the driver does it is not written anywhere: an import has a value of its own or the same, and
 * foreign memory is in the figure of this process or not.
 */
struct model_imports {
	bool have_same_value;
	uint64_t foreign_bytes; /* that the figure grows by */
};
void model_set_imports(struct model_imports how);

/* What the card answers when it is asked for the figure of this process: 0, or -ENOTSUP. */
void model_answer(int error);

/* Makes the context current to this thread. */
void model_set_current(void *ctx);

/* Frees linear or managed memory by a way that no hook sees. */
void model_free_unseen(uint64_t addr);

struct model_books model_look(void);
