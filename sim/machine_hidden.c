#include "machine_hidden.h"

#include "machine_file.h"

static _Atomic uint64_t *hidden_bytes(int i)
{
	struct machine_self *self = machine_self();

	return &self->file->slot[self->slot].share[i].managed_bytes;
}

void machine_hide(int i, uint64_t bytes)
{
	machine_lock(i, -1);
	atomic_fetch_add_explicit(hidden_bytes(i), bytes, memory_order_relaxed);
	machine_unlock(i);
}

void machine_show(int i, uint64_t bytes)
{
	machine_lock(i, -1);
	atomic_fetch_sub_explicit(hidden_bytes(i), bytes, memory_order_relaxed);
	machine_unlock(i);
}
