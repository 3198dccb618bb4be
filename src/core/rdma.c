#include "core/rdma.h"

#include "base/log.h"
#include "base/mapped.h"
#include "base/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Whoever has mapped one of these registers memory, or is about to. */
static const char *const libraries[] = { "libibverbs.so", "libmlx5.so", "libgdrapi.so",
					 "libcufile_rdma.so" };
/* Programs are linked with this that never use it: PyTorch is. In use it has its device open. */
static const char *const storage[] = { "libcufile.so" };
#define STORAGE_DEVICE "/dev/nvidia-fs"

enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };

struct rdma_state {
	bool may_move;         /* constant after rdma_start() */
	_Atomic bool is_there; /* never cleared: what was registered may be for ever */
};
PROCESS_STATE(rdma_state, state);

void rdma_start(bool may_move)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.may_move = may_move;
}

bool rdma_is_there(void)
{
	return atomic_load_explicit(&state.s.is_there, memory_order_relaxed);
}

/* What there is, or NULL. What cannot be looked at is as if it were there. */
static const char *find(void)
{
	int which = mapped_find(libraries, LIBRARIES);

	if (which >= 0)
		return libraries[which];
	if (which != -ENOENT)
		return "what is mapped cannot be read: a library for RDMA";
	if (mapped_find(storage, 1) == 0 && mapped_has_open(STORAGE_DEVICE) != 0)
		return storage[0];
	return NULL;
}

bool rdma_look(void)
{
	const char *what;

	if (state.s.may_move || rdma_is_there())
		return !state.s.may_move;
	what = find();
	if (!what)
		return false;
	if (!atomic_exchange(&state.s.is_there, true))
		log_warn("%s may have registered memory with a device: nothing leaves the GPU "
			 "any more (RATION_RDMA=move has it leave)",
			 what);
	return true;
}
