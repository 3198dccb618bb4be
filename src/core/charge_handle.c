/*
 * Memory that ended with a handle, with mappings or with a context, or that goes by and by: part of
 * charge.h.
 */
#include "core/charge.h"

#include "core/bound.h"
#include "core/given.h"
#include "core/handed.h"
#include "core/hole.h"
#include "core/lodger.h"
#include "core/small.h"

static void end_memory(struct handle_freed freed)
{
	if (handle_take_ended_import(freed.dev))
		charge_look_later(freed.dev);
	if (freed.bytes == 0)
		return;
	track_physical_add(freed.dev, -(int64_t)freed.bytes);
	freed.bytes = handed_keep(freed.dev, freed.bytes);
	if (quota_counts_contexts() &&
	    (handle_has_imports(freed.dev) || bound_any() || track_has_weightless(freed.dev)))
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

void charge_end_later(struct track_node *node, struct dev dev)
{
	uint64_t bytes = handed_keep(dev, track_end(node).bytes);

	if (charge_may_look(dev))
		charge_keep((struct handle_freed){ dev, bytes });
	else
		quota_release(dev, QUOTA_DATA, bytes);
	small_settle(dev);
	charge_over();
}

void charge_lent_end(uint64_t addr)
{
	given_freed(addr);
	lent_end(addr);
	lent_claim_all();
}

void charge_drop_context(const void *ctx, uint64_t mark)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };

	track_drop_context(ctx, mark, freed_bytes);
	hole_drop(NULL);
	for (int d = 0; d < RATION_DEVICES; d++)
		quota_release((struct dev){ d }, QUOTA_DATA,
			      handed_keep((struct dev){ d }, freed_bytes[d]));
}

void charge_settle(struct dev dev)
{
	handed_settle(dev);
	if (lodger_stays(dev))
		charge_watch(dev);
}
