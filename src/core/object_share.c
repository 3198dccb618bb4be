#include "core/object_share.h"

#include "core/object.h"
#include "core/object_large.h"
#include "core/object_small.h"

#include <errno.h>
#include <stdlib.h>

/* device's mutex: a reference to each, so that they stay there without it. */
static unsigned get(struct range_node *node, const struct object_info *info, struct bo **out_bos,
		    unsigned most)
{
	return node->color == OBJECT_REGION ?
		       object_small_get((struct object_region *)node, info->addr, info->bytes,
					out_bos, most) :
		       backing_get(((struct object *)node)->backing, info->addr, info->bytes,
				   out_bos, most);
}

static bool find(struct object_device *d, uint64_t addr, uint64_t id, struct range_node **out_node,
		 struct object_info *out_info)
{
	return object_device_find(d, addr, out_node, out_info) && out_info->addr == addr &&
	       out_info->id == id && out_info->is_pinned;
}

static void put(struct object_share *share, unsigned pinned)
{
	for (unsigned i = 0; i < share->count; i++) {
		if (i < pinned)
			bo_unpin(share->bos[i]);
		bo_put(share->bos[i]);
	}
	free(share);
}

/* With pins of its own: whoever frees the object ends its. */
static int pin(struct object_share *share)
{
	for (unsigned i = 0; i < share->count; i++) {
		int rc = backing_pin_object(share->bos[i]);

		if (rc < 0) {
			put(share, i);
			return rc;
		}
	}
	return 0;
}

int object_share_begin(uint64_t addr, uint64_t id, struct object_share **out_share)
{
	struct object_device *d = object_device_at(addr);
	struct object_share *share = NULL;
	struct object_info info;
	struct range_node *node;
	unsigned most;
	int rc = -ENOENT;

	if (!d)
		return rc;
	pthread_mutex_lock(&d->mutex);
	if (find(d, addr, id, &node, &info)) {
		most = (unsigned)(info.bytes / SLAB_BLOCK_BYTES) + 2;
		share = malloc(sizeof(*share) + most * sizeof(share->bos[0]));
		rc = share ? 0 : -ENOMEM;
	}
	if (share) {
		share->count = get(node, &info, share->bos, most);
		share->offset_bytes = info.addr - share->bos[0]->addr;
		share->bytes = info.bytes;
	}
	pthread_mutex_unlock(&d->mutex);
	rc = rc == 0 ? pin(share) : rc;
	if (rc == 0)
		*out_share = share;
	return rc;
}

void object_share_end(struct object_share *share)
{
	put(share, share->count);
}

void object_share_forget(struct object_share *share)
{
	free(share);
}
