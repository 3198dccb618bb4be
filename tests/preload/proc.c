/*
 * cuGetProcAddress: what it answers for each name, version and flag, one line each; the same lines
 * without the library, but for the file.
 *
 *   proc matrix VERSION... -- NAME...
 *   proc chain              resolves everything through a cuGetProcAddress it got from itself
 *   proc odd                NULL and wrong arguments
 *   proc early              before cuInit
 */
#include <dlfcn.h>

#include "client.h"

typedef CUresult get_v1(const char *, void **, int, cuuint64_t);
typedef CUresult get_v2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static get_v1 *v1;
static get_v2 *v2;

static void find(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(driver);
	*(void **)&v1 = dlsym(driver, "cuGetProcAddress");
	*(void **)&v2 = dlsym(driver, "cuGetProcAddress_v2");
	CHECK(v1 && v2);
}

/* "FILE SYMBOL" of what was answered. */
static const char *name_of(void *address)
{
	static char text[256];
	Dl_info info;
	const char *file;

	if (!address || address == (void *)text)
		return address ? "untouched" : "NULL";
	CHECK(dladdr(address, &info));
	file = strrchr(info.dli_fname, '/');
	snprintf(text, sizeof(text), "%s %s", file ? file + 1 : info.dli_fname,
		 info.dli_sname ? info.dli_sname : "-");
	return text;
}

static void ask(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status = 77;
	void *p = NULL;
	CUresult res = v2(name, &p, version, flags, &status);

	printf("2 %s %d %d %d %d %s\n", name, version, (int)flags, res, (int)status, name_of(p));
	p = NULL;
	res = v1(name, &p, version, flags);
	printf("1 %s %d %d %d - %s\n", name, version, (int)flags, res, name_of(p));
}

static void matrix(int argc, char **argv)
{
	int versions = 0;

	find();
	while (versions < argc && strcmp(argv[versions], "--") != 0)
		versions++;
	for (int n = versions + 1; n < argc; n++)
		for (int i = 0; i < versions; i++)
			for (cuuint64_t flags = 0; flags < 4; flags++)
				ask(argv[n], atoi(argv[i]), flags);
}

/* The next cuGetProcAddress from the last one, both arities in turn. */
static void deepen(void)
{
	void *p = NULL;

	OK(v2("cuGetProcAddress", &p, 11030, 0, NULL));
	v1 = (get_v1 *)p;
	OK(v1("cuGetProcAddress", &p, 12000, 0));
	v2 = (get_v2 *)p;
}

static void *get(const char *name)
{
	void *p = NULL;

	OK(v2(name, &p, 12000, 0, NULL));
	CHECK(p);
	return p;
}

static void chain(int argc, char **argv)
{
	CUresult (*init)(unsigned);
	CUresult (*retain)(CUcontext *, CUdevice);
	CUresult (*set)(CUcontext);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*release)(CUdeviceptr);
	CUdeviceptr p, more;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	find();
	for (int depth = 0; depth < 4; depth++)
		deepen();
	*(void **)&init = get("cuInit");
	*(void **)&retain = get("cuDevicePrimaryCtxRetain");
	*(void **)&set = get("cuCtxSetCurrent");
	*(void **)&alloc = get("cuMemAlloc");
	*(void **)&release = get("cuMemFree");
	OK(init(0));
	OK(retain(&ctx, 0));
	OK(set(ctx));
	OK(alloc(&p, 32 * MIB));
	printf("more %d\n", alloc(&more, 64 * MIB));
	OK(release(p));
}

static void odd(int argc, char **argv)
{
	CUdriverProcAddressQueryResult status = 77;
	void *p = (void *)0x1234;

	(void)argc;
	(void)argv;
	find();
	printf("no name %d\n", v2(NULL, &p, 12000, 0, &status));
	printf("no output %d\n", v2("cuInit", NULL, 12000, 0, &status));
	printf("nothing %d %d\n", v2(NULL, NULL, 12000, 0, NULL), v1(NULL, NULL, 12000, 0));
	printf("no status %d\n", v2("cuInit", &p, 12000, 0, NULL));
	printf("unknown %d %d %d\n", v2("cuNoSuchCall", &p, 12000, 0, &status), p == NULL, status);
	printf("empty %d\n", v2("", &p, 12000, 0, &status));
	printf("other %d %d\n", v2("puts", &p, 12000, 0, &status), v1("puts", &p, 12000, 0));
	printf("prefix %d\n", v1("cuMem", &p, 12000, 0));
	printf("negative %d\n", v2("cuInit", &p, -1, 0, &status));
	printf("future %d\n", v2("cuInit", &p, 990000, 0, &status));
	printf("flags %d\n", v2("cuInit", &p, 12000, 1 << 20, &status));
}

static void early(int argc, char **argv)
{
	CUdeviceptr p;
	size_t bytes;

	(void)argc;
	(void)argv;
	find();
	/* Before cuInit it answers addresses, and what they answer is the driver's. */
	printf("alloc %d\n", ((CUresult(*)(CUdeviceptr *, size_t))get("cuMemAlloc"))(&p, 4096));
	printf("free %d\n", ((CUresult(*)(CUdeviceptr))get("cuMemFree"))(4096));
	printf("total %d\n", ((CUresult(*)(size_t *, CUdevice))get("cuDeviceTotalMem"))(&bytes, 0));
	printf("info %d\n", ((CUresult(*)(size_t *, size_t *))get("cuMemGetInfo"))(&bytes, &bytes));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "matrix", matrix }, { "chain", chain }, { "odd", odd }, { "early", early }, { 0 },
	};

	return client_main(argc, argv, cases);
}
