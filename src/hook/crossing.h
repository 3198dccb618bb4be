/*
 * Far copies and fills (hook/peer.h), each as the driver can do it: a copy with both sides'
 * contexts named, a fill in the object's own. They keep their place in the stream of the call, pass
 * the gate and are measured.
 */
#pragma once

#include "hook/peer.h"

/* Which form of a call: one that waits or not, whose default stream is all threads' or the own. */
enum crossing { CROSSING_NOW, CROSSING_NOW_OWN, CROSSING_LATER, CROSSING_LATER_OWN };

/* The stream is of no meaning to the first two. */
CUresult crossing_copy_box(const CUDA_MEMCPY3D_PEER *box, CUstream stream, enum crossing form);
CUresult crossing_copy(const struct peer_ways *ways, CUstream stream, enum crossing form);

/*
 * A fill in the order of the stream, of an object of context `ctx`. It never waits for it: nor does
 * the driver for one of device memory.
 */
CUresult crossing_fill(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx, CUstream stream,
		       bool is_own);

/*
 * A node of a graph that copies so, behind others. CUDA_ERROR_NOT_SUPPORTED where the driver cannot
 * make one of two contexts' memory: before CUDA 12.3.
 */
CUresult crossing_add_copy(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *edges, size_t count,
			   const CUDA_MEMCPY3D_PEER *box, CUcontext ctx);
