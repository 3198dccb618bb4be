#include "hook/ipc_socket.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { BACKLOG = 128 };

struct ipc_end ipc_socket_keep(int fd)
{
	struct stat st;

	if (sys_fstat(fd, &st) == 0)
		return (struct ipc_end){ fd, st.st_ino };
	close(fd);
	return (struct ipc_end){ .fd = -1 };
}

bool ipc_socket_is_kept(const struct ipc_end *end)
{
	struct stat st;

	return end->fd >= 0 && sys_fstat(end->fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_ino == end->inode;
}

void ipc_socket_drop(struct ipc_end *end)
{
	if (ipc_socket_is_kept(end))
		close(end->fd);
	end->fd = -1;
}

bool ipc_socket_is_peer_dead(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid > 0 &&
	       kill(peer.pid, 0) < 0 && errno == ESRCH;
}

int ipc_socket_file(const char *path, unsigned slot, struct ipc_name *out_name)
{
	struct ipc_name name = { .addr = { .sun_family = AF_UNIX }, .bytes = sizeof(name.addr) };
	int n = snprintf(name.addr.sun_path, sizeof(name.addr.sun_path), "%s.ipc%u", path, slot);

	if (n < 0 || (size_t)n >= sizeof(name.addr.sun_path))
		return -ENAMETOOLONG;
	*out_name = name;
	return 0;
}

void ipc_socket_abstract(uint64_t process, struct ipc_name *out_name)
{
	struct ipc_name name = { .addr = { .sun_family = AF_UNIX } };
	/* The first byte stays 0. */
	int n = snprintf(name.addr.sun_path + 1, sizeof(name.addr.sun_path) - 1,
			 "ration-ipc-%016" PRIx64, process);

	name.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	*out_name = name;
}

static int open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int ipc_socket_listen(const struct ipc_name *name)
{
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	if (bind(fd, (const struct sockaddr *)&name->addr, name->bytes) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int ipc_socket_connect(const struct ipc_name *name)
{
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	ipc_socket_set_patience(fd, NSEC_PER_SEC);
	if (connect(fd, (const struct sockaddr *)&name->addr, name->bytes) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

void ipc_socket_set_patience(int fd, int64_t wait_ns)
{
	const struct timeval wait = { .tv_sec = wait_ns / NSEC_PER_SEC,
				      .tv_usec = wait_ns % NSEC_PER_SEC / 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

/* Room for what comes with a message: one descriptor. */
union carried {
	struct cmsghdr header; /* for its alignment */
	char room[CMSG_SPACE(sizeof(int))];
};

int ipc_socket_send(int fd, const void *data, size_t bytes, int carried)
{
	union carried c = { .room = { 0 } };
	struct iovec part = { (void *)(uintptr_t)data, bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	if (carried >= 0) {
		message.msg_control = c.room;
		message.msg_controllen = sizeof(c.room);
		c.header.cmsg_level = SOL_SOCKET;
		c.header.cmsg_type = SCM_RIGHTS;
		c.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&c.header), &carried, sizeof(carried));
	}
	do
		n = sendmsg(fd, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EPROTO;
}

int ipc_socket_receive(int fd, void *data, size_t bytes, int *out_carried)
{
	union carried c = { .room = { 0 } };
	struct iovec part = { data, bytes };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = c.room,
				  .msg_controllen = sizeof(c.room) };
	int carried = -1;
	ssize_t n;

	do
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (message.msg_controllen >= sizeof(c.header) && c.header.cmsg_level == SOL_SOCKET &&
	    c.header.cmsg_type == SCM_RIGHTS && c.header.cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&carried, CMSG_DATA(&c.header), sizeof(carried));
	if (n == 0 || (size_t)n != bytes || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		if (carried >= 0)
			close(carried);
		return n == 0 ? -EPIPE : -EPROTO;
	}
	*out_carried = carried;
	return 0;
}
