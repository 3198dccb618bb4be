#include "machine_import.h"

#include "machine_export.h"
#include "machine_file.h"

#include <errno.h>
#include <stddef.h>

static struct machine_import *at(uint32_t index)
{
	return &machine_self()->file->import[index];
}

static uint32_t own(void)
{
	return (uint32_t)machine_self()->slot + 1;
}

static uint32_t end(void)
{
	uint32_t count = atomic_load(&machine_self()->file->imports_end);

	return count < MACHINE_IMPORTS ? count : MACHINE_IMPORTS;
}

/* The lock of its device is held. 0, or the entry's index + 1. */
static uint32_t take_from(uint32_t first, int i, uint64_t export)
{
	struct machine_file *file = machine_self()->file;

	for (uint32_t index = first; index < MACHINE_IMPORTS; index++) {
		struct machine_import *import = at(index);
		uint32_t owner = 0, seen = end();

		/* Before it is taken: what the dead have is looked for up to there. */
		while (seen <= index &&
		       !atomic_compare_exchange_weak(&file->imports_end, &seen, index + 1))
			;
		if (atomic_load(&import->owner) ||
		    !atomic_compare_exchange_strong(&import->owner, &owner, own()))
			continue;
		atomic_store(&import->device, (uint32_t)i);
		atomic_store(&import->number, atomic_fetch_add(&file->imports_made, 1));
		atomic_store(&import->export, export);
		atomic_store(&file->imports_free, index + 1);
		return index + 1;
	}
	return 0;
}

static uint32_t take_entry(int i, uint64_t export)
{
	uint32_t import = take_from(atomic_load(&machine_self()->file->imports_free), i, export);

	return import ? import : take_from(0, i, export);
}

/* The name first: an entry without one is nobody's import. */
static void free_entry(struct machine_import *import, uint32_t owner)
{
	atomic_store(&import->export, 0);
	(void)atomic_compare_exchange_strong(&import->owner, &owner, 0);
	if (import - at(0) < (ptrdiff_t)atomic_load(&machine_self()->file->imports_free))
		atomic_store(&machine_self()->file->imports_free, (uint32_t)(import - at(0)));
}

static int import_if(bool (*is_there)(uint64_t export), uint64_t export, uint32_t *out_import)
{
	int i = machine_export_device(export), err = -ESTALE;
	uint32_t import;

	if (i < 0)
		return err;
	machine_lock(i, -1);
	if (is_there(export)) {
		import = take_entry(i, export);
		err = import ? 0 : -ENOSPC;
	}
	machine_unlock(i);
	if (!err)
		*out_import = import;
	return err;
}

static bool has_place(uint64_t export)
{
	return machine_export_device(export) >= 0;
}

static bool is_had(uint64_t export)
{
	return has_place(export) &&
	       (!machine_export_is_orphan(export) || machine_import_last(export));
}

int machine_import_new(uint64_t export, uint32_t *out_import)
{
	return import_if(has_place, export, out_import);
}

int machine_import_open(uint64_t export, uint32_t *out_import)
{
	return import_if(is_had, export, out_import);
}

bool machine_import_is_any(uint64_t export)
{
	int i = machine_export_device(export);
	bool is_any;

	if (i < 0)
		return false;
	machine_process_reap();
	machine_lock(i, -1);
	is_any = machine_import_last(export) != 0;
	machine_unlock(i);
	return is_any;
}

void machine_import_end(uint32_t import)
{
	uint32_t index = import - 1, i;

	if (index >= end() || atomic_load(&at(index)->owner) != own())
		return;
	i = atomic_load(&at(index)->device);
	if (i >= (uint32_t)machine_count())
		return;
	machine_lock((int)i, -1);
	free_entry(at(index), own());
	machine_unlock((int)i);
}

/* An entry without a name was left half taken or half free, and may be freed under any lock. */
void machine_import_end_all(int slot, int i)
{
	uint32_t count = end(), owner = (uint32_t)slot + 1;

	for (uint32_t index = 0; index < count; index++) {
		struct machine_import *import = at(index);
		uint32_t seen = owner;

		if (atomic_load(&import->owner) != owner)
			continue;
		if (!atomic_load(&import->export))
			(void)atomic_compare_exchange_strong(&import->owner, &seen, 0);
		else if (atomic_load(&import->device) == (uint32_t)i)
			free_entry(import, owner);
	}
}

uint32_t machine_import_last(uint64_t export)
{
	uint32_t count = end(), last = 0;
	uint64_t number = 0;

	for (uint32_t index = 0; index < count; index++) {
		const struct machine_import *import = at(index);

		if (atomic_load(&import->export) != export ||
		    (last && atomic_load(&import->number) < number))
			continue;
		last = atomic_load(&import->owner);
		number = atomic_load(&import->number);
	}
	return last;
}
