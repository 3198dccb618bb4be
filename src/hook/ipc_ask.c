#include "hook/ipc_ask.h"

#include "base/clock.h"
#include "core/root.h"
#include "hook/ipc_socket.h"

#include <errno.h>
#include <unistd.h>

/* Between two looks at whether the exporter lives, and until it is given up. */
#define LOOK_NS (200 * NSEC_PER_MSEC)
#define GIVE_UP_NS (15 * NSEC_PER_SEC)
/* After an exporter broke off. */
#define NAP_NS (20 * NSEC_PER_MSEC)
#define AGAIN_NS (4 * NSEC_PER_SEC)
/* Nothing has its name: it is gone, or just about to take the name again. */
#define GONE_NS (200 * NSEC_PER_MSEC)

static int receive(int fd, void *data, size_t bytes, int *out_carried)
{
	int64_t until_ns = clock_now_ns() + GIVE_UP_NS;
	int rc;

	do
		rc = ipc_socket_receive(fd, data, bytes, out_carried);
	while (rc == -EAGAIN && !ipc_socket_is_peer_dead(fd) && clock_now_ns() < until_ns);
	/* A socket may be held by a fork child of who made it, which answers nobody. */
	if (rc == -EAGAIN)
		return ipc_socket_is_peer_dead(fd) ? -ENOENT : -EBUSY;
	return rc < 0 ? -EPIPE : 0;
}

static bool makes_sense(const struct ipc_answer *a)
{
	return a->count && a->bytes && a->whole_bytes <= INT64_MAX &&
	       a->offset_bytes < a->whole_bytes && a->bytes <= a->whole_bytes - a->offset_bytes;
}

static int connect_to(void *arg)
{
	return ipc_socket_connect(arg);
}

/*
 * 0 with the connection; -ENOENT: there is nothing of the name; -ECONNREFUSED: nobody listens;
 * -EPERM: another process does; -EPIPE: it broke off; -EIDRM: it has no such object any more;
 * -EBUSY.
 */
static int ask_at(const struct ipc_name *name, const struct ipc_handle *handle, int *out_fd,
		  struct ipc_answer *out_answer)
{
	int fd = root_do(connect_to, (void *)(uintptr_t)name), carried = -1, rc;

	if (fd < 0)
		return fd == -EAGAIN ? -EBUSY : fd == -ECONNREFUSED ? fd : -ENOENT;
	ipc_socket_set_patience(fd, LOOK_NS);
	rc = ipc_socket_send(fd, handle, sizeof(*handle), -1);
	rc = rc < 0 ? -EPIPE : receive(fd, out_answer, sizeof(*out_answer), &carried);
	if (carried >= 0)
		close(carried);
	if (rc == 0 && out_answer->rc < 0)
		rc = out_answer->rc == -EPERM ? -EPERM : -EIDRM;
	if (rc == 0 && !makes_sense(out_answer))
		rc = -EIDRM;
	if (rc < 0)
		close(fd);
	else
		*out_fd = fd;
	return rc;
}

static int ask_once(const struct ipc_handle *handle, const char *path, int *out_fd,
		    struct ipc_answer *out_answer)
{
	struct ipc_name name;
	bool was_closed = false;
	int rc;

	if (path && ipc_socket_file(path, handle->slot, &name) == 0) {
		rc = ask_at(&name, handle, out_fd, out_answer);
		was_closed = rc == -ECONNREFUSED;
		if (rc != -EPERM && rc != -ENOENT && !was_closed)
			return rc;
	}
	ipc_socket_abstract(handle->process, &name);
	rc = ask_at(&name, handle, out_fd, out_answer);
	if (rc != -ENOENT && rc != -ECONNREFUSED)
		return rc;
	/* The file is there: it is dead, or its program has closed the socket. */
	return was_closed ? -EPIPE : -ENOENT;
}

int ipc_ask(const struct ipc_handle *handle, const char *path, int *out_fd,
	    struct ipc_answer *out_answer)
{
	int rc = ask_once(handle, path, out_fd, out_answer);
	int64_t until_ns = clock_now_ns() + (rc == -EPIPE ? AGAIN_NS : GONE_NS);

	/* Where its program has closed the socket it makes another when it sees that. */
	if (rc == -EPIPE || rc == -ENOENT)
		do {
			clock_sleep_ns(NAP_NS);
			rc = ask_once(handle, path, out_fd, out_answer);
		} while ((rc == -EPIPE || rc == -ENOENT) && clock_now_ns() < until_ns);
	return rc == -EPERM || rc == -EPIPE || rc == -EIDRM ? -ENOENT : rc;
}

int ipc_ask_chunk(int fd, struct ipc_chunk *out_chunk, int *out_carried)
{
	int rc = receive(fd, out_chunk, sizeof(*out_chunk), out_carried);

	if (rc == -EPIPE || (rc == 0 && *out_carried < 0))
		return -ENOENT;
	return rc;
}

void ipc_ask_end(struct ipc_end *end)
{
	char over = 0;

	if (ipc_socket_is_kept(end))
		ipc_socket_send(end->fd, &over, sizeof(over), -1);
	ipc_socket_drop(end);
}

bool ipc_ask_is_over(const struct ipc_end *end)
{
	char byte;

	return !ipc_socket_is_kept(end) || ipc_socket_is_peer_dead(end->fd) ||
	       recv(end->fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) == 0;
}
