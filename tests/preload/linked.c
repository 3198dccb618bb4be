/* A program that is linked with the driver: where its references lead, and that they work. */
#include <dlfcn.h>

#include "client.h"

static void say(const char *name, void *address)
{
	Dl_info info;
	const char *file;

	CHECK(dladdr(address, &info));
	file = strrchr(info.dli_fname, '/');
	printf("%s %s\n", name, file ? file + 1 : info.dli_fname);
}

int main(void)
{
	CUdeviceptr p, more;

	say("cuMemAlloc_v2", (void *)cuMemAlloc_v2);
	say("cuGetErrorName", (void *)cuGetErrorName);
	client_start();
	OK(cuMemAlloc_v2(&p, 32 * MIB));
	printf("more %d\n", cuMemAlloc_v2(&more, 64 * MIB));
	OK(cuMemFree_v2(p));
	return 0;
}
