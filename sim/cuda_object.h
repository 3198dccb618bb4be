/*
 * Which handles exist: a set of (address, kind), so that a wild or dead handle is an error and not
 * a crash. The driver's lock protects it.
 */
#pragma once

#include <stdbool.h>

enum object_kind {
	OBJECT_NONE,
	OBJECT_STREAM,
	OBJECT_EVENT,
	OBJECT_MODULE,
	OBJECT_LIBRARY,
	OBJECT_FUNCTION,
	OBJECT_KERNEL,
	OBJECT_HANDLE,
	OBJECT_POOL,
	OBJECT_GRAPH,
	OBJECT_GRAPH_NODE,
	OBJECT_GRAPH_EXEC,
	OBJECT_ARRAY,
	OBJECT_MIPMAP,
	OBJECT_EXTERNAL,
	OBJECT_RESOURCE,
};

/* Adds a new object. 0 or -ENOMEM. */
int cuda_object_add(enum object_kind kind, const void *object);

/* Removes an object that is there. */
void cuda_object_remove(const void *object);

/* True when `object` is one of this kind. */
bool cuda_object_is(enum object_kind kind, const void *object);
