#include "hook/ipc_export.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/handed.h"
#include "core/object_pin.h"
#include "core/object_share.h"
#include "core/quota.h"
#include "drv/gpu_bo.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"
#include "hook/ipc_socket.h"
#include "hook/thread.h"
#include "shm/region.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

/* For one message of who asks. Others wait meanwhile. */
#define PATIENCE_NS NSEC_PER_SEC
#define STOP_WAIT_NS (50 * NSEC_PER_MSEC)
/* After which it is looked again where accepting fails. */
#define NAP_NS (10 * NSEC_PER_MSEC)
/* How often it is looked whether the sockets are still there. */
enum { LOOK_MS = 1000 };

enum { BY_FILE, BY_NUMBER, NAMES };

/* Who has opened a handle and not closed it. */
struct importer {
	struct ipc_end end;
	struct object_share *share; /* what it has */
	struct importer *next;
};

struct ipc_export_state {
	struct region *region; /* constant after ipc_export_start() */
	pthread_mutex_t mutex; /* orders starting; zero is an unlocked one */
	/* constant once `serves` is true */
	uint64_t process, secret[2];
	struct ipc_name names[NAMES]; /* bytes 0: none */
	/* the thread's, once there is one */
	struct ipc_end listeners[NAMES];
	struct importer *importers;
	struct pollfd *polled; /* room for `room` of them */
	unsigned room;
	_Atomic bool serves;   /* mutex to set it: there is a thread */
	_Atomic bool is_over;  /* the process ends */
	_Atomic unsigned busy; /* 1: the thread may be calling the driver; a futex */
	_Atomic bool is_told;  /* that memory cannot be shared */
};
PROCESS_STATE(ipc_export_state, state);

static _Atomic bool has_exit_handler; /* once for a program and its fork children */

void ipc_export_start(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.region = region;
}

const struct region *ipc_export_region(void)
{
	return state.s.region;
}

bool ipc_export_is_own(const struct ipc_handle *handle)
{
	return atomic_load(&state.s.serves) && handle->process == state.s.process;
}

bool ipc_export_can(struct dev dev)
{
	struct cuda_ord ord;

	return device_ordinal(dev, &ord) && gpu_vmm_can_export(ord);
}

/* The object is pinned, so that its memory is what the others map. */
static int send_chunks(int fd, const struct object_share *share)
{
	int rc = 0;

	for (unsigned i = 0; i < share->count && rc == 0; i++) {
		const struct ipc_chunk chunk = { share->bos[i]->memory.bytes };
		int carried = -1;

		rc = gpu_bo_export(share->bos[i], &carried);
		if (rc < 0)
			break;
		rc = ipc_socket_send(fd, &chunk, sizeof(chunk), carried);
		close(carried);
	}
	return rc;
}

static int refuse(const struct ipc_handle *asked)
{
	return asked->magic != IPC_HANDLE_MAGIC || asked->process != state.s.process ||
			       asked->secret[0] != state.s.secret[0] ||
			       asked->secret[1] != state.s.secret[1] ?
		       -EPERM :
		       0;
}

/* Gives what is asked for. NULL when that cannot be. */
static struct object_share *answer(int fd, const struct ipc_handle *asked)
{
	struct ipc_answer answer = { .rc = refuse(asked) };
	struct object_share *share = NULL;

	if (answer.rc == 0)
		answer.rc = object_share_begin(asked->addr, asked->id, &share);
	if (answer.rc == 0) {
		answer.count = share->count;
		answer.offset_bytes = share->offset_bytes;
		answer.bytes = share->bytes;
		answer.region_dev = state.s.region->place.st_dev;
		answer.region_inode = state.s.region->place.st_ino;
		for (unsigned i = 0; i < share->count; i++)
			answer.whole_bytes += share->bos[i]->memory.bytes;
	}
	if (ipc_socket_send(fd, &answer, sizeof(answer), -1) == 0 && share &&
	    send_chunks(fd, share) == 0)
		return share;
	if (share)
		object_share_end(share);
	return NULL;
}

/* The driver may be called between the two: the end of the process waits a moment for that. */
static bool begin_busy(void)
{
	atomic_store(&state.s.busy, 1);
	return !atomic_load(&state.s.is_over);
}

static void end_busy(void)
{
	atomic_store(&state.s.busy, 0);
	sys_futex_wake_all(&state.s.busy);
}

static void serve(int fd)
{
	struct importer *importer = calloc(1, sizeof(*importer));
	struct ipc_handle asked;
	int carried = -1;

	ipc_socket_set_patience(fd, PATIENCE_NS);
	if (!importer || ipc_socket_receive(fd, &asked, sizeof(asked), &carried) < 0)
		goto out_close;
	if (carried >= 0)
		close(carried);
	if (begin_busy())
		importer->share = answer(fd, &asked);
	end_busy();
	if (!importer->share)
		goto out_close;
	importer->end = ipc_socket_keep(fd);
	importer->next = state.s.importers;
	state.s.importers = importer;
	return;

out_close:
	free(importer);
	close(fd);
}

static void end_importer(struct importer **link)
{
	struct importer *importer = *link;

	*link = importer->next;
	ipc_socket_drop(&importer->end);
	if (begin_busy())
		object_share_end(importer->share);
	else
		object_share_forget(importer->share);
	end_busy();
	free(importer);
}

/* Ends those that have said so or are gone. A fork child may hold a dead one's descriptor. */
static void look_at_importers(void)
{
	struct importer **link = &state.s.importers;

	while (*link) {
		struct ipc_end *end = &(*link)->end;
		char byte;

		if (!ipc_socket_is_kept(end) || ipc_socket_is_peer_dead(end->fd) ||
		    recv(end->fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
			end_importer(link);
		else
			link = &(*link)->next;
	}
}

static void listen_at(int which)
{
	const struct ipc_name *name = &state.s.names[which];
	int fd;

	state.s.listeners[which].fd = -1;
	if (!name->bytes)
		return;
	/* Of a slot's former owner, or ours that the program has closed. */
	if (which == BY_FILE)
		unlink(name->addr.sun_path);
	fd = ipc_socket_listen(name);
	if (fd >= 0)
		state.s.listeners[which] = ipc_socket_keep(fd);
}

static void accept_one(const struct ipc_end *listener)
{
	int fd = ipc_socket_is_kept(listener) ? accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC) :
						-1;

	/* Out of descriptors, perhaps: the other side waits. */
	if (fd < 0)
		clock_sleep_ns(NAP_NS);
	else
		serve(fd);
}

/* What is to be polled; how many. Of the importers those that there is memory to poll. */
static unsigned gather(void)
{
	unsigned n = NAMES;

	for (int i = 0; i < NAMES; i++) {
		if (!ipc_socket_is_kept(&state.s.listeners[i]))
			listen_at(i);
		state.s.polled[i] = (struct pollfd){ .fd = state.s.listeners[i].fd,
						     .events = POLLIN };
	}
	for (const struct importer *m = state.s.importers; m; m = m->next) {
		if (n == state.s.room) {
			struct pollfd *more = realloc(state.s.polled, 2 * n * sizeof(*more));

			if (!more)
				break;
			state.s.polled = more;
			state.s.room = 2 * n;
		}
		state.s.polled[n++] = (struct pollfd){ .fd = m->end.fd, .events = POLLIN };
	}
	return n;
}

static void *run(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)arg;
	prctl(PR_SET_NAME, "ration-ipc");
	/* A call of ours must not invalidate a global capture of the program. */
	if (real.cuThreadExchangeStreamCaptureMode)
		real.cuThreadExchangeStreamCaptureMode(&mode);
	while (!atomic_load(&state.s.is_over)) {
		int n = poll(state.s.polled, gather(), LOOK_MS);

		for (int i = 0; n > 0 && i < NAMES; i++)
			if (state.s.polled[i].revents)
				accept_one(&state.s.listeners[i]);
		look_at_importers();
	}
	return NULL;
}

/* The driver must not be called any more when it is torn down. */
static void stop(void)
{
	if (!atomic_load(&state.s.serves))
		return;
	atomic_store(&state.s.is_over, true);
	if (state.s.names[BY_FILE].bytes)
		unlink(state.s.names[BY_FILE].addr.sun_path);
	if (atomic_load(&state.s.busy))
		sys_futex_wait(&state.s.busy, 1, STOP_WAIT_NS);
}

/* state.mutex: once, so that a handle stays good when the thread could not be started at first. */
static int name_process(void)
{
	uint64_t random[3];

	if (state.s.process)
		return 0;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	state.s.process = random[0] | 1;
	state.s.secret[0] = random[1];
	state.s.secret[1] = random[2];
	if (ipc_socket_file(state.s.region->path, (unsigned)quota_slot(), &state.s.names[BY_FILE]) <
	    0)
		state.s.names[BY_FILE].bytes = 0;
	ipc_socket_abstract(state.s.process, &state.s.names[BY_NUMBER]);
	return 0;
}

/* state.mutex. */
static int start_serving(void)
{
	int rc = name_process();

	if (rc < 0)
		return rc;
	if (!state.s.polled) {
		state.s.polled = malloc(NAMES * sizeof(*state.s.polled));
		state.s.room = NAMES;
	}
	if (!state.s.polled)
		return -ENOMEM;
	for (int i = 0; i < NAMES; i++)
		listen_at(i);
	rc = -ENOTSUP;
	if (state.s.listeners[BY_FILE].fd >= 0 || state.s.listeners[BY_NUMBER].fd >= 0)
		rc = -thread_start(run);
	if (rc == 0) {
		atomic_store(&state.s.serves, true);
		if (!atomic_exchange(&has_exit_handler, true))
			atexit(stop);
		return 0;
	}
	for (int i = 0; i < NAMES; i++)
		ipc_socket_drop(&state.s.listeners[i]);
	return rc;
}

static int see_that_it_serves(void)
{
	int rc = 0;

	if (atomic_load(&state.s.serves))
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	if (!atomic_load(&state.s.serves))
		rc = start_serving();
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

/* Some memory may have been made without descriptors, where the driver refused them. */
static int try_to_export(const struct object_share *share)
{
	int rc = 0, fd;

	for (unsigned i = 0; i < share->count && rc == 0; i++) {
		rc = gpu_bo_export(share->bos[i], &fd);
		if (rc == 0)
			close(fd);
	}
	return rc;
}

static int refuse_handle(const struct object_info *object, int rc)
{
	if (!atomic_exchange(&state.s.is_told, true))
		log_warn("device %d (%.12s): memory cannot be shared by cuIpcGetMemHandle in a "
			 "movable tenant here (%s)",
			 object->dev.v, quota_uuid(object->dev), strerror(-rc));
	return -ENOTSUP;
}

int ipc_export_handle(const struct object_info *object, struct ipc_handle *out_handle)
{
	int rc = ipc_export_can(object->dev) ? see_that_it_serves() : -ENOTSUP;
	struct object_share *share;

	if (rc < 0)
		return refuse_handle(object, rc);
	handed_export();
	rc = object_pin(object->addr, object->id);
	if (rc == 0)
		rc = object_share_begin(object->addr, object->id, &share);
	if (rc < 0)
		return rc;
	rc = try_to_export(share);
	object_share_end(share);
	if (rc < 0)
		return refuse_handle(object, rc);
	*out_handle = (struct ipc_handle){
		.magic = IPC_HANDLE_MAGIC,
		.process = state.s.process,
		.secret = { state.s.secret[0], state.s.secret[1] },
		.addr = object->addr,
		.id = object->id,
		.bytes = object->bytes,
		.slot = (uint32_t)quota_slot(),
	};
	return 0;
}
