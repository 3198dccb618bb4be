/* Memory that ended with a handle, with mappings or with a context: part of charge.h. */
#include "core/charge.h"

static void end_memory(struct handle_freed freed)
{
	if (handle_take_ended_import(freed.dev))
		charge_look_later(freed.dev);
	if (freed.bytes == 0)
		return;
	track_physical_add(freed.dev, -(int64_t)freed.bytes);
	if (quota_counts_contexts() &&
	    (handle_has_imports(freed.dev) || track_has_weightless(freed.dev)))
		charge_keep(freed);
	else
		quota_release(freed.dev, QUOTA_DATA, freed.bytes);
}

void charge_freed_handle(struct handle_freed freed)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };

	freed_bytes[freed.dev.v] = freed.bytes;
	charge_freed_handles(freed_bytes);
}

void charge_freed_handles(const uint64_t freed_bytes[RATION_DEVICES])
{
	for (int d = 0; d < RATION_DEVICES; d++)
		end_memory((struct handle_freed){ { d }, freed_bytes[d] });
}

void charge_stale_handles(const uint64_t freed_bytes[RATION_DEVICES])
{
	charge_freed_handles(freed_bytes);
	for (int d = 0; d < RATION_DEVICES; d++)
		if (freed_bytes[d])
			charge_look_later((struct dev){ d });
}
