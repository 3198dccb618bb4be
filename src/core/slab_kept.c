#include "core/slab_kept.h"

#include <string.h>

static struct slab_kept_run take_out(struct slab_kept *kept, uint32_t i)
{
	struct slab_kept_run run = kept->runs[i];

	kept->chunks -= run.count;
	if (i < --kept->used)
		memmove(&kept->runs[i], &kept->runs[i + 1], (kept->used - i) * sizeof(run));
	return run;
}

bool slab_kept_pop(struct slab_kept *kept, struct slab_kept_run *out_run)
{
	if (kept->used == 0)
		return false;
	*out_run = take_out(kept, 0);
	return true;
}

bool slab_kept_give_way(struct slab_kept *kept, uint32_t count, struct slab_kept_run *out_run)
{
	return (kept->used == SLAB_KEPT_RUNS || kept->chunks + count > SLAB_KEPT_CHUNKS) &&
	       slab_kept_pop(kept, out_run);
}

void slab_kept_put(struct slab_kept *kept, struct slab_kept_run run)
{
	kept->runs[kept->used++] = run;
	kept->chunks += run.count;
}

bool slab_kept_take(struct slab_kept *kept, uint32_t count, struct slab_kept_run *out_run)
{
	for (uint32_t i = kept->used; i-- > 0;)
		if (kept->runs[i].count == count) {
			*out_run = take_out(kept, i);
			return true;
		}
	return false;
}
