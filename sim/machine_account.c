/* Who holds how much of a device. */
#include "machine_export.h"
#include "machine_file.h"
#include "machine_import.h"

#include <errno.h>

static int take(int i, uint64_t bytes, uint64_t managed_bytes)
{
	struct machine_self *self = machine_self();
	struct machine_state *state = &self->file->state[i];
	struct machine_share *share = &self->file->slot[self->slot].share[i];
	const uint64_t size_bytes = machine_device(i)->memory_bytes;
	uint64_t used_bytes, kept_bytes;
	int err = -ENOMEM;

	machine_lock(i, -1);
	used_bytes = atomic_load_explicit(&state->used_bytes, memory_order_relaxed);
	kept_bytes = machine_export_kept(i);
	if (used_bytes + kept_bytes <= size_bytes &&
	    bytes <= size_bytes - used_bytes - kept_bytes) {
		/* The share first: a total that lacks it is repaired from the shares. */
		atomic_fetch_add_explicit(&share->used_bytes, bytes, memory_order_relaxed);
		atomic_fetch_add_explicit(&share->managed_bytes, managed_bytes,
					  memory_order_relaxed);
		used_bytes += bytes;
		atomic_store_explicit(&state->used_bytes, used_bytes, memory_order_release);
		if (used_bytes > atomic_load_explicit(&state->most_bytes, memory_order_relaxed))
			atomic_store_explicit(&state->most_bytes, used_bytes, memory_order_relaxed);
		err = 0;
	}
	machine_unlock(i);
	return err;
}

/* More than there ever was, with what the dead have not given back yet. */
static bool is_most(int i, uint64_t bytes)
{
	const struct machine_state *state = &machine_self()->file->state[i];

	return atomic_load_explicit(&state->used_bytes, memory_order_relaxed) + bytes >
	       atomic_load_explicit(&state->most_bytes, memory_order_relaxed);
}

static int take_or_reap(int i, uint64_t bytes, uint64_t managed_bytes)
{
	int err;

	if (i < 0 || i >= machine_count())
		return -ENODEV;
	/* Who died has given its memory back by then: the figure says what the living have. */
	if (is_most(i, bytes))
		machine_process_reap();
	err = take(i, bytes, managed_bytes);
	if (err != -ENOMEM)
		return err;
	machine_process_reap();
	return take(i, bytes, managed_bytes);
}

int machine_take(int i, uint64_t bytes)
{
	return take_or_reap(i, bytes, 0);
}

int machine_take_managed(int i, uint64_t bytes)
{
	return take_or_reap(i, bytes, bytes);
}

static bool give(int i, uint64_t bytes, uint64_t managed_bytes, uint64_t export)
{
	struct machine_self *self = machine_self();
	struct machine_state *state;
	struct machine_share *share;
	bool is_imported = false;
	uint64_t held_bytes;

	if (i < 0 || i >= machine_count())
		return false;
	state = &self->file->state[i];
	share = &self->file->slot[self->slot].share[i];
	machine_lock(i, -1);
	if (export) {
		machine_export_end(export);
		is_imported = machine_import_last(export) != 0;
	}
	held_bytes = atomic_load_explicit(&share->used_bytes, memory_order_relaxed);
	if (bytes > held_bytes)
		bytes = held_bytes;
	atomic_fetch_sub_explicit(&share->managed_bytes, managed_bytes, memory_order_relaxed);
	atomic_store_explicit(&share->used_bytes, held_bytes - bytes, memory_order_relaxed);
	atomic_fetch_sub_explicit(&state->used_bytes, bytes, memory_order_release);
	machine_unlock(i);
	return is_imported;
}

void machine_give(int i, uint64_t bytes)
{
	(void)give(i, bytes, 0, 0);
}

bool machine_give_exported(int i, uint64_t bytes, uint64_t export)
{
	return give(i, bytes, 0, export);
}

void machine_give_managed(int i, uint64_t bytes)
{
	(void)give(i, bytes, bytes, 0);
}

uint64_t machine_used(int i)
{
	struct machine_state *state;
	uint64_t bytes;

	if (i < 0 || i >= machine_count())
		return 0;
	machine_process_reap();
	state = &machine_self()->file->state[i];
	if (!machine_export_is_any())
		return atomic_load_explicit(&state->used_bytes, memory_order_acquire);
	machine_lock(i, -1);
	bytes = atomic_load_explicit(&state->used_bytes, memory_order_relaxed) +
		machine_export_kept(i);
	machine_unlock(i);
	return bytes < machine_device(i)->memory_bytes ? bytes : machine_device(i)->memory_bytes;
}

void machine_set_context(int i, bool has_context)
{
	struct machine_self *self = machine_self();
	uint64_t bit;

	if (i < 0 || i >= machine_count())
		return;
	bit = UINT64_C(1) << i;
	if (has_context)
		atomic_fetch_or(&self->file->slot[self->slot].contexts, bit);
	else
		atomic_fetch_and(&self->file->slot[self->slot].contexts, ~bit);
}
