/* A library that has names of the driver's for itself, and one that looks them up in another. */
#include <dlfcn.h>
#include <stddef.h>

int cuMemAlloc_v2(void **out, size_t bytes);
int cufoo(void);
void *foreign_ask_other(void);
void *foreign_ask_next(void);

int cuMemAlloc_v2(void **out, size_t bytes)
{
	(void)out;
	(void)bytes;
	return 4711;
}

/* As cuDNN's front library does with each name of its back ends: looks for its own name in one. */
int cufoo(void)
{
	static int depth;
	void *other = dlopen("libbackend.so", RTLD_NOW | RTLD_LOCAL);
	int (*foo)(void);

	if (!other || depth)
		return -1;
	depth++;
	*(void **)&foo = dlsym(other, "cufoo");
	depth--;
	return foo ? foo() : -2;
}

void *foreign_ask_other(void)
{
	void *other = dlopen("libbackend.so", RTLD_NOW | RTLD_LOCAL);

	return other ? dlsym(other, "cufoo") : NULL;
}

void *foreign_ask_next(void)
{
	return dlsym(RTLD_NEXT, "cuMemAlloc_v2");
}
