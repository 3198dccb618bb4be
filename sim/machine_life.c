#include "machine_life.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A child made past libc's fork has no list of its own for the kernel to go through. */
static bool has_list(void)
{
	void *head = NULL;
	size_t bytes;

	return syscall(SYS_get_robust_list, 0, &head, &bytes) == 0 && head;
}

void machine_life_begin(pthread_mutex_t *life)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(life, &attr);
	pthread_mutexattr_destroy(&attr);
	/* Nobody else takes it, so it is not waited for: other locks are held here. */
	if (has_list())
		(void)pthread_mutex_trylock(life);
}

bool machine_life_is_sure(const pthread_mutex_t *life)
{
	unsigned word = (unsigned)__atomic_load_n(&life->__data.__lock, __ATOMIC_ACQUIRE);

	return (word & FUTEX_TID_MASK) && !(word & FUTEX_OWNER_DIED);
}
