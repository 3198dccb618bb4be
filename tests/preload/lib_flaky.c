/*
 * A malloc of the program's own, as jemalloc and its like are: it looks its functions up by dlsym
 * and can be told to fail.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *old, size_t bytes);
void free(void *p);
void flaky_fail(int nth);
int flaky_calls(void);

static struct {
	_Atomic int fail_in; /* 1: the next call fails; 0: none does */
	_Atomic int calls;
	_Atomic int is_looking;
	void *(*malloc)(size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
} real;

/* What dlsym itself asks for while it looks for malloc. */
static char early[65536];
static size_t early_used;

static void *take_early(size_t bytes)
{
	void *p = early + early_used;

	early_used += (bytes + 15) & ~(size_t)15;
	return early_used <= sizeof(early) ? p : NULL;
}

static int is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

static int is_ready(void)
{
	if (real.malloc)
		return 1;
	if (atomic_exchange(&real.is_looking, 1))
		return 0;
	*(void **)&real.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&real.free = dlsym(RTLD_NEXT, "free");
	*(void **)&real.malloc = dlsym(RTLD_NEXT, "malloc");
	return 1;
}

static int fails(void)
{
	int left = real.fail_in;

	atomic_fetch_add(&real.calls, 1);
	if (left <= 0 || atomic_fetch_sub(&real.fail_in, 1) != 1)
		return 0;
	/* libc's own callers rely on it. */
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t bytes)
{
	if (!is_ready())
		return take_early(bytes);
	return fails() ? NULL : real.malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	size_t all;
	void *p;

	if (__builtin_mul_overflow(count, bytes, &all))
		return NULL;
	p = malloc(all);
	if (p)
		memset(p, 0, all);
	return p;
}

void *realloc(void *old, size_t bytes)
{
	void *p;

	if (!is_early(old) && is_ready())
		return fails() ? NULL : real.realloc(old, bytes);
	p = malloc(bytes);
	if (p && old)
		memcpy(p, old, bytes);
	return p;
}

void free(void *p)
{
	if (p && !is_early(p) && is_ready())
		real.free(p);
}

void flaky_fail(int nth)
{
	real.fail_in = nth;
	real.calls = 0;
}

int flaky_calls(void)
{
	return real.calls;
}
