#include "base/process.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { STATES = 64 };

/* What the kernel does not wipe; atomic, and any thread may come upon a state of its own. */
static struct {
	struct {
		_Atomic(void *) state;
		_Atomic size_t bytes; /* 0: the place is free; written before `state` */
	} kept[STATES];
	_Atomic int pid; /* of the process that filled kept[]; 0: nothing is kept */
} process;

void process_wipe_on_fork(void *state, size_t bytes)
{
	if (madvise(state, bytes, MADV_WIPEONFORK) == 0)
		return;
	for (int i = 0; i < STATES; i++) {
		size_t none = 0;
		int nobody = 0;

		if (atomic_load(&process.kept[i].state) == state)
			return;
		if (!atomic_compare_exchange_strong(&process.kept[i].bytes, &none, bytes))
			continue;
		atomic_compare_exchange_strong(&process.pid, &nobody, (int)getpid());
		atomic_store(&process.kept[i].state, state);
		return;
	}
}

void process_check(void)
{
	int pid = atomic_load(&process.pid);

	if (pid == 0 || pid == (int)getpid())
		return;
	if (!atomic_compare_exchange_strong(&process.pid, &pid, (int)getpid()))
		return;
	for (int i = 0; i < STATES; i++) {
		void *state = atomic_load(&process.kept[i].state);

		if (state)
			memset(state, 0, atomic_load(&process.kept[i].bytes));
	}
}
