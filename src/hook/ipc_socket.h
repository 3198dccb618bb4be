/*
 * Sockets between processes that share memory. Each message is whole, and may carry a descriptor.
 *
 * An exporter has two names: a file beside its region, which reaches from one container to another
 * that has the region, and one that has no file, which reaches other tenants of the same network.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * A socket of ours for longer than a call. The program may close it, and have another file by its
 * number.
 */
struct ipc_end {
	int fd; /* -1: none */
	uint64_t inode;
};

/* Keeps a descriptor. -1 of one that cannot be known again, which is closed. */
struct ipc_end ipc_socket_keep(int fd);

/* True while it is the socket that was kept. */
bool ipc_socket_is_kept(const struct ipc_end *end);

/* Closes it, if it is. */
void ipc_socket_drop(struct ipc_end *end);

/* The process at the other side is gone, as far as one can tell. */
bool ipc_socket_is_peer_dead(int fd);

struct ipc_name {
	struct sockaddr_un addr;
	socklen_t bytes;
};

/* The file of a slot's owner beside the region at `path`. 0; -ENAMETOOLONG when it has no room. */
int ipc_socket_file(const char *path, unsigned slot, struct ipc_name *out_name);

/* The other one, of the process with this number. */
void ipc_socket_abstract(uint64_t process, struct ipc_name *out_name);

/* A socket that listens under the name. The descriptor or -errno. */
int ipc_socket_listen(const struct ipc_name *name);

/* A connection to who listens there. The descriptor or -errno. */
int ipc_socket_connect(const struct ipc_name *name);

/* Bounds what the other side may make us wait for one message. */
void ipc_socket_set_patience(int fd, int64_t wait_ns);

/* One message, with a descriptor, or -1 for none. 0 or -errno. */
int ipc_socket_send(int fd, const void *data, size_t bytes, int carried);

/*
 * One message of exactly so many bytes, with the descriptor that came with it, the caller's, in
 * *out_carried, or -1. 0, -EAGAIN when none came in time, -EPIPE when the other side is gone,
 * -EPROTO for another message, or -errno.
 */
int ipc_socket_receive(int fd, void *data, size_t bytes, int *out_carried);
