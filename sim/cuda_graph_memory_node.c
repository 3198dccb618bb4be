/* Nodes that allocate and free memory, from calls of their own and from capture. */
#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_device.h"
#include "cuda_graph.h"
#include "cuda_graph_memory.h"
#include "cuda_object.h"
#include "cuda_stream.h"
#include "cuda_work.h"

static CUresult check_params(const CUDA_MEM_ALLOC_NODE_PARAMS *p, uint64_t *out_devices)
{
	if (!p || p->bytesize == 0 || (p->accessDescCount && !p->accessDescs) ||
	    p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    p->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cuda_device_is_valid(p->poolProps.location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	*out_devices = (uint64_t)1 << p->poolProps.location.id;
	for (size_t i = 0; i < p->accessDescCount; i++) {
		const CUmemAccessDesc *desc = &p->accessDescs[i];

		if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !cuda_device_is_valid(desc->location.id) ||
		    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
		*out_devices |= (uint64_t)1 << desc->location.id;
	}
	return CUDA_SUCCESS;
}

/* An allocation of a graph, as the work of its node. */
static CUresult new_alloc(const struct CUgraph_st *graph, const CUDA_MEM_ALLOC_NODE_PARAMS *p,
			  struct cuda_work **out_work)
{
	struct cuda_graph_memory *m;
	uint64_t devices;
	CUresult res = check_params(p, &devices);

	if (res != CUDA_SUCCESS)
		return res;
	m = cuda_graph_memory_new(p, graph->id, devices);
	*out_work = m ? cuda_graph_memory_alloc_work(m) : NULL;
	return *out_work ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Does the graph have a node that frees this? */
static bool has_free(const struct CUgraph_st *graph, const struct cuda_graph_memory *m)
{
	for (int i = 0; i < graph->count; i++)
		if (cuda_graph_memory_of(graph->node[i]->work, CU_GRAPH_NODE_TYPE_MEM_FREE) == m)
			return true;
	return false;
}

/* An allocation is freed by its own graph or by others, never by both, and once in each. */
static CUresult new_free(const struct CUgraph_st *graph, CUdeviceptr address,
			 struct cuda_work **out_work)
{
	struct cuda_graph_memory *m = cuda_graph_memory_find(address);
	bool is_owner = m && m->owner_id == graph->id;

	if (!m || has_free(graph, m) || (is_owner ? m->is_freed_by_other : m->is_freed_by_owner))
		return CUDA_ERROR_INVALID_VALUE;
	*out_work = cuda_graph_memory_free_work(m);
	if (!*out_work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->is_freed_by_owner |= is_owner;
	m->is_freed_by_other |= !is_owner;
	return CUDA_SUCCESS;
}

static CUresult add_alloc(struct CUgraph_st *graph, CUDA_MEM_ALLOC_NODE_PARAMS *p,
			  CUgraphNode *out_node)
{
	struct cuda_work *work;
	CUresult res = new_alloc(graph, p, &work);

	if (res != CUDA_SUCCESS)
		return res;
	p->dptr = work->memory->params.dptr;
	return cuda_graph_add(graph, work, out_node);
}

static CUresult add_free(struct CUgraph_st *graph, CUdeviceptr address, CUgraphNode *out_node)
{
	struct cuda_work *work;
	CUresult res = new_free(graph, address, &work);

	return res == CUDA_SUCCESS ? cuda_graph_add(graph, work, out_node) : res;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out_node, CUgraph graph,
				const CUgraphNode *dependencies, size_t count,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddMemAllocNode, out_node, graph,
					    dependencies, count);

	return res == CUDA_SUCCESS ? cuda_call_end(add_alloc(graph, params, out_node)) : res;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *out_node, CUgraph graph,
			       const CUgraphNode *dependencies, size_t count, CUdeviceptr address)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddMemFreeNode, out_node, graph,
					    dependencies, count);

	return res == CUDA_SUCCESS ? cuda_call_end(add_free(graph, address, out_node)) : res;
}

static CUresult add_fill(struct CUgraph_st *graph, const CUDA_MEMSET_NODE_PARAMS_v2 *p,
			 CUgraphNode *out_node)
{
	const CUDA_MEMSET_NODE_PARAMS fill = { .dst = p->dst,
					       .pitch = p->pitch,
					       .value = p->value,
					       .elementSize = p->elementSize,
					       .width = p->width,
					       .height = p->height };

	return cuda_graph_add_fill(graph, &fill, p->ctx, out_node);
}

/* Of the nodes that this call can add, those of allocations, copies and fills are here. */
static CUresult add_node(enum cuda_id id, CUgraphNode *out_node, CUgraph graph,
			 const CUgraphNode *dependencies, size_t count, CUgraphNodeParams *p)
{
	CUresult res = cuda_graph_begin_add(id, out_node, graph, dependencies, count);
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;

	if (res != CUDA_SUCCESS)
		return res;
	if (!p)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (p->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return cuda_call_end(add_free(graph, p->free.dptr, out_node));
	if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		return cuda_call_end(cuda_graph_add_copy(graph, &p->memcpy.copyParams,
							 p->memcpy.copyCtx, out_node));
	if (p->type == CU_GRAPH_NODE_TYPE_MEMSET)
		return cuda_call_end(add_fill(graph, &p->memset, out_node));
	if (p->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){ .poolProps = p->alloc.poolProps,
					      .accessDescs = p->alloc.accessDescs,
					      .accessDescCount = p->alloc.accessDescCount,
					      .bytesize = p->alloc.bytesize };
	res = add_alloc(graph, &alloc, out_node);
	if (res == CUDA_SUCCESS)
		p->alloc.dptr = alloc.dptr;
	return cuda_call_end(res);
}

CUresult cuGraphAddNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			size_t count, CUgraphNodeParams *params)
{
	return add_node(CUDA_ID_cuGraphAddNode, out_node, graph, dependencies, count, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	(void)edges;
	return add_node(CUDA_ID_cuGraphAddNode_v2, out_node, graph, dependencies, count, params);
}

/* Starts a question about a node of this type. */
static CUresult begin_node(enum cuda_id id, CUgraphNode node, CUgraphNodeType type, const void *out,
			   struct cuda_graph_memory **out_memory)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	*out_memory = cuda_object_is(OBJECT_GRAPH_NODE, node) ?
			      cuda_graph_memory_of(node->work, type) :
			      NULL;
	return *out_memory && out ? CUDA_SUCCESS : cuda_call_end(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out_params)
{
	struct cuda_graph_memory *m;
	CUresult res = begin_node(CUDA_ID_cuGraphMemAllocNodeGetParams, node,
				  CU_GRAPH_NODE_TYPE_MEM_ALLOC, out_params, &m);

	if (res != CUDA_SUCCESS)
		return res;
	*out_params = m->params;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *out_address)
{
	struct cuda_graph_memory *m;
	CUresult res = begin_node(CUDA_ID_cuGraphMemFreeNodeGetParams, node,
				  CU_GRAPH_NODE_TYPE_MEM_FREE, out_address, &m);

	if (res != CUDA_SUCCESS)
		return res;
	*out_address = m->params.dptr;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuda_graph_memory_capture_alloc(struct CUstream_st *stream, CUdevice dev, size_t bytes,
					 uint64_t *out_address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev } },
		.bytesize = bytes
	};
	struct cuda_work *work;
	CUdeviceptr address;
	CUresult res = new_alloc(cuda_capture_graph(stream), &p, &work);

	if (res != CUDA_SUCCESS)
		return res;
	address = work->memory->params.dptr;
	res = cuda_capture_add(stream, work);
	if (res == CUDA_SUCCESS)
		*out_address = address;
	return res;
}

CUresult cuda_graph_memory_capture_free(struct CUstream_st *stream, CUdeviceptr address)
{
	struct cuda_work *work;
	CUresult res = new_free(cuda_capture_graph(stream), address, &work);

	return res == CUDA_SUCCESS ? cuda_capture_add(stream, work) : res;
}
