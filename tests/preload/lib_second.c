/*
 * Another library that hooks memory calls, as profilers and debuggers do: it counts them and goes
 * on to the next definition. With SECOND_HOOKS_DLSYM it also has a dlsym of its own.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

typedef int alloc_fn(unsigned long long *out, size_t bytes);

int cuMemAlloc_v2(unsigned long long *out, size_t bytes);
int second_count(void);

static _Atomic int count;

int cuMemAlloc_v2(unsigned long long *out, size_t bytes)
{
	alloc_fn *next;

	*(void **)&next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	atomic_fetch_add(&count, 1);
	return next ? next(out, bytes) : 999;
}

int second_count(void)
{
	return count;
}

#ifdef SECOND_HOOKS_DLSYM
void *dlsym(void *handle, const char *name)
{
	static void *(*next)(void *, const char *);

	if (!next)
		*(void **)&next = dlvsym(RTLD_NEXT, "dlsym", SECOND_DLSYM_VERSION);
	if (!strcmp(name, "cuMemAlloc_v2") && handle != RTLD_NEXT)
		return (void *)cuMemAlloc_v2;
	return next(handle, name);
}
#endif
