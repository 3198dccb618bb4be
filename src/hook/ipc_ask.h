/* What the exporter of a handle gives to who opens it. */
#pragma once

#include "hook/ipc_handle.h"
#include "hook/ipc_socket.h"

/*
 * Asks for the memory of a handle, by the socket beside the region at `path` (NULL: there is none)
 * or the other. A connection in *out_fd, for ipc_ask_chunk() and then ipc_socket_keep() or close(),
 * and what there is of chunks, as far as it makes sense. 0; -ENOENT when the exporter is gone or
 * has freed it; -EBUSY when it does not answer.
 */
int ipc_ask(const struct ipc_handle *handle, const char *path, int *out_fd,
	    struct ipc_answer *out_answer);

/* The next chunk, with its descriptor, the caller's. 0, -ENOENT, -EBUSY. */
int ipc_ask_chunk(int fd, struct ipc_chunk *out_chunk, int *out_carried);

/* The memory is not used any more. */
void ipc_ask_end(struct ipc_end *end);

/* True when the exporter keeps the memory no longer, nor is charged for it: it has ended. */
bool ipc_ask_is_over(const struct ipc_end *end);
