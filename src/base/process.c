#include "base/process.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { STATES = 32 };

static struct {
	/* Written once per state while the process attaches, under hook/init's state word. */
	struct {
		void *state;
		size_t bytes;
	} kept[STATES];
	_Atomic int count; /* how many of kept[] the kernel does not wipe */
	_Atomic int pid;   /* of the process that filled kept[] */
} process;

void process_wipe_on_fork(void *state, size_t bytes)
{
	int n = atomic_load(&process.count);

	if (madvise(state, bytes, MADV_WIPEONFORK) == 0)
		return;
	for (int i = 0; i < n; i++)
		if (process.kept[i].state == state)
			return;
	if (n == STATES)
		return;
	process.kept[n].state = state;
	process.kept[n].bytes = bytes;
	atomic_store(&process.pid, (int)getpid());
	atomic_store(&process.count, n + 1);
}

void process_check(void)
{
	int n = atomic_load_explicit(&process.count, memory_order_acquire);
	int pid = atomic_load(&process.pid);

	if (n == 0 || pid == (int)getpid())
		return;
	if (!atomic_compare_exchange_strong(&process.pid, &pid, (int)getpid()))
		return;
	for (int i = 0; i < n; i++)
		memset(process.kept[i].state, 0, process.kept[i].bytes);
}
