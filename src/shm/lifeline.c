#include "shm/lifeline.h"

#include "base/pid.h"
#include "base/process.h"

#include <errno.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

/* The mark is its size, of which not a page is ever used. */
enum { MARK_BITS = 20 };

/*
 * Ours, by which our namespace is known where /proc does not show it. Written once, before the
 * process has its slot; who looks meanwhile sees a part, whose mark fits nothing.
 */
struct lifeline_own {
	uint32_t number, namespace, mark;
};
PROCESS_STATE(lifeline_own, own);

static size_t bytes_of(uint32_t mark)
{
	return (size_t)(mark & ((1u << MARK_BITS) - 1)) + 1;
}

/* Attached, and out of reach of fork children; NULL where that cannot be. */
static const void *attach(int id, size_t bytes)
{
	void *at = shmat(id, NULL, SHM_RDONLY);

	if (at == (void *)-1)
		return NULL;
	if (madvise(at, bytes, MADV_DONTFORK) == 0)
		return at;
	shmdt(at);
	return NULL;
}

void lifeline_take(uint32_t mark, struct lifeline *out)
{
	size_t bytes = bytes_of(mark);
	int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | SHM_NORESERVE | 0444);

	*out = (struct lifeline){ 0 };
	if (id < 0)
		return;
	out->at = attach(id, bytes);
	/* It goes with the last who is attached. */
	shmctl(id, IPC_RMID, NULL);
	if (!out->at)
		return;
	out->number = (uint32_t)id + 1;
	out->namespace = (uint32_t)pid_ipc_namespace();
	process_wipe_on_fork(&own, sizeof(own));
	own.s = (struct lifeline_own){ out->number, out->namespace, mark };
}

/* Whether there is one with that number and mark: 1 or 0, or -errno where that cannot be told. */
static int is_there(uint32_t number, uint32_t mark)
{
	struct shmid_ds ds;

	if (shmctl((int)(number - 1), IPC_STAT, &ds) == 0)
		return ds.shm_segsz == bytes_of(mark);
	return errno == EINVAL || errno == EIDRM ? 0 : -errno;
}

static uint32_t our_namespace(void)
{
	uint32_t ours = (uint32_t)pid_ipc_namespace();

	/* The program may have gone into another one. */
	if (ours == 0 && own.s.number && is_there(own.s.number, own.s.mark) == 1)
		ours = own.s.namespace;
	return ours;
}

enum lifeline_state lifeline_look(uint32_t number, uint32_t namespace, uint32_t mark)
{
	int there = number ? is_there(number, mark) : -ENOENT;

	if (there != 0)
		return there == 1 ? LIFELINE_HELD : LIFELINE_UNKNOWN;
	return namespace && namespace == our_namespace() ? LIFELINE_GONE : LIFELINE_UNKNOWN;
}
