#include "hook/thread.h"

#include "drv/real.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Its thread-local storage is cut from it too, and that of a sanitizer alone is 900 KiB. */
enum { STACK_BYTES = 1024 * 1024 };

typedef int create_fn(pthread_t *thread, const pthread_attr_t *attr, thread_body *body, void *arg);
typedef int stack_fn(pthread_attr_t *attr, void *stack, size_t bytes);

/*
 * Through the driver, which has threads: libc alone does not know these names before glibc 2.34,
 * and under them a library built with a later one could not be loaded.
 */
static int create_on(thread_body *body, void *stack)
{
	create_fn *create_thread = (create_fn *)real_symbol(REAL_CUDA, "pthread_create");
	stack_fn *set_stack = (stack_fn *)real_symbol(REAL_CUDA, "pthread_attr_setstack");
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (!create_thread || (stack && !set_stack))
		return ENOSYS;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = stack ? set_stack(&attr, stack, STACK_BYTES) : 0;
	if (rc == 0)
		rc = create_thread(&thread, &attr, body, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

/* A stack of our own, with a guard page: libc ends the program where it cannot map one itself. */
static void *map_stack(void)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *m = mmap(NULL, page_bytes + STACK_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	mprotect(m, page_bytes, PROT_NONE);
	return m + page_bytes;
}

/* With all signals blocked, which the thread inherits: they are the program's threads'. */
int thread_start(thread_body *body)
{
	const uint64_t all = UINT64_MAX;
	void *stack = map_stack();
	uint64_t old;
	int rc;

	if (!stack)
		return ENOMEM;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(old));
	rc = create_on(body, stack);
	/* A program with large thread-local data needs more stack: libc knows how much. */
	if (rc == EINVAL)
		rc = create_on(body, NULL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	return rc;
}
