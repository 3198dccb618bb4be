/* The objects of a context, which end with it. */
#pragma once

/*
 * A context that is about to end with all its objects: taken out before the driver's call, NULL
 * when it has none. Then it ended, or it did not.
 */
struct object_context;
struct object_context *object_context_take(const void *ctx);
void object_context_end(struct object_context *context);
void object_context_put_back(struct object_context *context);
