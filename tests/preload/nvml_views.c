/*
 * What NVML tells a program of single processes, in every form there is. It links NVML alone; what
 * needs the driver loads it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>

#include "abi/nvml.h"
#include "client.h"

enum { ROOM = 64, ROW_BYTES_MAX = 32, UNTOUCHED = 0x5a };

static nvmlDevice_t device(unsigned index)
{
	nvmlDevice_t dev;

	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(index, &dev) == NVML_SUCCESS);
	return dev;
}

static nvmlDevice_t device_of(int argc, char **argv)
{
	return device(argc ? (unsigned)atoi(argv[0]) : 0);
}

/* One form of one list. */
struct form {
	const char *name;
	size_t row_bytes;
	nvmlReturn_t (*ask)(nvmlDevice_t dev, unsigned *inout_count, void *out_rows);
};

#define FORM(name, type)                                                             \
	static nvmlReturn_t ask_##name(nvmlDevice_t dev, unsigned *count, void *out) \
	{                                                                            \
		return nvmlDeviceGet##name(dev, count, (type *)out);                 \
	}
FORM(ComputeRunningProcesses, nvmlProcessInfo_v1_t)
FORM(ComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
FORM(ComputeRunningProcesses_v3, nvmlProcessInfo_t)
FORM(GraphicsRunningProcesses, nvmlProcessInfo_v1_t)
FORM(GraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
FORM(GraphicsRunningProcesses_v3, nvmlProcessInfo_t)
FORM(MPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
FORM(MPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
FORM(MPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

static nvmlReturn_t ask_details(nvmlDevice_t dev, unsigned mode, unsigned *count, void *out)
{
	nvmlProcessDetailList_t list = {
		.version = nvmlProcessDetailList_v1,
		.mode = mode,
		.numProcArrayEntries = *count,
		.procArray = out,
	};
	nvmlReturn_t res = nvmlDeviceGetRunningProcessDetailList(dev, &list);

	*count = list.numProcArrayEntries;
	return res;
}

static nvmlReturn_t ask_details0(nvmlDevice_t dev, unsigned *count, void *out)
{
	return ask_details(dev, 0, count, out);
}

static nvmlReturn_t ask_details1(nvmlDevice_t dev, unsigned *count, void *out)
{
	return ask_details(dev, 1, count, out);
}

static nvmlReturn_t ask_details2(nvmlDevice_t dev, unsigned *count, void *out)
{
	return ask_details(dev, 2, count, out);
}

static struct form forms[] = {
	{ "compute1", 16, ask_ComputeRunningProcesses },
	{ "compute2", 24, ask_ComputeRunningProcesses_v2 },
	{ "compute3", 24, ask_ComputeRunningProcesses_v3 },
	{ "compute4", 32, ask_details0 },
	{ "graphics1", 16, ask_GraphicsRunningProcesses },
	{ "graphics2", 24, ask_GraphicsRunningProcesses_v2 },
	{ "graphics3", 24, ask_GraphicsRunningProcesses_v3 },
	{ "graphics4", 32, ask_details1 },
	{ "mps1", 16, ask_MPSComputeRunningProcesses },
	{ "mps2", 24, ask_MPSComputeRunningProcesses_v2 },
	{ "mps3", 24, ask_MPSComputeRunningProcesses_v3 },
	{ "mps4", 32, ask_details2 },
};
enum { FORMS = sizeof(forms) / sizeof(*forms) };

/* Asks with room for `room` rows and looks that nothing was written behind the `may` first. */
static void ask(const struct form *form, nvmlDevice_t dev, unsigned room, unsigned want,
		unsigned may, unsigned char *rows)
{
	unsigned count = room;
	nvmlReturn_t res;

	memset(rows, UNTOUCHED, ROOM * ROW_BYTES_MAX);
	res = form->ask(dev, &count, rows);
	CHECK(res == (room < want ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS));
	CHECK(count == want);
	for (size_t i = may * form->row_bytes; i < ROOM * ROW_BYTES_MAX; i++)
		CHECK(rows[i] == UNTOUCHED);
}

/* Says the rows of a list, which must come by every size of array that NVML may be given. */
static void say_list(const struct form *form, nvmlDevice_t dev)
{
	unsigned char rows[ROOM * ROW_BYTES_MAX];
	unsigned count = 0;
	nvmlReturn_t res = form->ask(dev, &count, NULL);

	if (res == NVML_ERROR_UNKNOWN) {
		printf("%s unknown\n", form->name);
		return;
	}
	CHECK(res == (count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS));
	CHECK(count < ROOM);
	for (unsigned room = 0; room <= count; room++)
		ask(form, dev, room, count, room < count ? 0 : count, rows);
	ask(form, dev, ROOM, count, count, rows);
	for (unsigned i = 0; i < count; i++) {
		nvmlProcessDetail_v1_t row = { 0 };

		memcpy(&row, rows + i * form->row_bytes, form->row_bytes);
		printf("%s %u %llu", form->name, row.pid, row.usedGpuMemory);
		if (form->row_bytes > 16)
			printf(" %u %u", row.gpuInstanceId, row.computeInstanceId);
		printf("\n");
	}
}

/* lists DEVICE [BYTES]: every list; BYTES is the length of the rows of the third forms. */
static void lists(int argc, char **argv)
{
	nvmlDevice_t dev = device_of(argc, argv);

	for (int i = 0; i < FORMS; i++) {
		if (argc > 1 && strchr(forms[i].name, '3'))
			forms[i].row_bytes = (size_t)atoi(argv[1]);
		if (argc > 1 && !strcmp(forms[i].name, "compute2"))
			forms[i].row_bytes = (size_t)atoi(argv[1]);
		say_list(&forms[i], dev);
	}
}

static int count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Says `word`; false when the input has ended. */
static bool again(const char *word)
{
	char line[16];

	printf("%s\n", word);
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) != NULL;
}

/* watch: the compute list at every line of input, and no descriptor more each time. */
static void watch(int argc, char **argv)
{
	nvmlDevice_t dev = device_of(argc, argv);
	int files = 0;

	do {
		nvmlMemory_t memory;

		say_list(&forms[2], dev);
		CHECK(nvmlDeviceGetMemoryInfo(dev, &memory) == NVML_SUCCESS);
		printf("used %llu of %llu\n", memory.used, memory.total);
		CHECK(files == 0 || files == count_files());
		files = count_files();
	} while (again("said"));
}

/* forked: a child of a process that has looked sees the same. */
static void forked(int argc, char **argv)
{
	nvmlDevice_t dev = device_of(argc, argv);
	pid_t child;
	int status;

	say_list(&forms[2], dev);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		say_list(&forms[2], device_of(argc, argv));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* The driver's calls, found as a program finds them that does not link it. */
static struct {
	CUresult (*init)(unsigned);
	CUresult (*count)(int *);
	CUresult (*uuid)(CUuuid *, CUdevice);
	CUresult (*total)(size_t *, CUdevice);
	CUresult (*retain)(CUcontext *, CUdevice);
	CUresult (*set)(CUcontext);
	CUresult (*info)(size_t *, size_t *);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*load)(CUmodule *, const void *);
	CUresult (*function)(CUfunction *, CUmodule, const char *);
	__typeof__(&cuLaunchKernel) launch;
	CUresult (*sync)(void);
} cuda;

static void *symbol(void *handle, const char *name)
{
	void *p = dlsym(handle, name);

	CHECK(p);
	return p;
}

static void load_cuda(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(handle);
	*(void **)&cuda.init = symbol(handle, "cuInit");
	*(void **)&cuda.count = symbol(handle, "cuDeviceGetCount");
	*(void **)&cuda.uuid = symbol(handle, "cuDeviceGetUuid_v2");
	*(void **)&cuda.total = symbol(handle, "cuDeviceTotalMem_v2");
	*(void **)&cuda.retain = symbol(handle, "cuDevicePrimaryCtxRetain");
	*(void **)&cuda.set = symbol(handle, "cuCtxSetCurrent");
	*(void **)&cuda.info = symbol(handle, "cuMemGetInfo_v2");
	*(void **)&cuda.alloc = symbol(handle, "cuMemAlloc_v2");
	*(void **)&cuda.load = symbol(handle, "cuModuleLoadData");
	*(void **)&cuda.function = symbol(handle, "cuModuleGetFunction");
	*(void **)&cuda.launch = symbol(handle, "cuLaunchKernel");
	*(void **)&cuda.sync = symbol(handle, "cuCtxSynchronize");
	OK(cuda.init(0));
}

static void enter(CUdevice ord)
{
	CUcontext ctx;

	OK(cuda.retain(&ctx, ord));
	OK(cuda.set(ctx));
}

/* member MIB: holds that, and looks. */
static void member(int argc, char **argv)
{
	uint64_t bytes = (argc ? strtoull(argv[0], NULL, 10) : 0) * MIB;
	CUdeviceptr p;

	load_cuda();
	enter(0);
	if (bytes)
		OK(cuda.alloc(&p, bytes));
	watch(0, NULL);
}

/* shut: ends NVML once more than it began it, and then takes memory that no call shows. */
static void shut(int argc, char **argv)
{
	CUmodule module;

	(void)argc;
	(void)argv;
	load_cuda();
	enter(0);
	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlShutdown() == NVML_SUCCESS);
	nvmlShutdown();
	OK(cuda.load(&module, CLIENT_MODULE));
	again("loaded");
}

/* busy: keeps device 0 at work until its input ends. */
static void busy(int argc, char **argv)
{
	uint64_t ns = 5000000;
	void *params[] = { &ns };
	CUfunction spin;
	CUmodule module;

	(void)argc;
	(void)argv;
	load_cuda();
	enter(0);
	OK(cuda.load(&module, CLIENT_MODULE));
	OK(cuda.function(&spin, module, "spin"));
	for (int i = 0;; i++) {
		OK(cuda.launch(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		OK(cuda.sync());
		if (i == 20) {
			printf("busy\n");
			fflush(stdout);
		}
	}
}

/*
 * ordinals MIB CARDS: of each ordinal its UUID, and of it what the driver and NVML say; NVML has
 * CARDS.
 */
static void ordinals(int argc, char **argv)
{
	uint64_t bytes = strtoull(argv[0], NULL, 10) * MIB;
	unsigned cards;
	int count;

	CHECK(argc == 2);
	load_cuda();
	OK(cuda.count(&count));
	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetCount_v2(&cards) == NVML_SUCCESS && cards == (unsigned)atoi(argv[1]));
	for (int d = 0; d < count; d++) {
		size_t total_bytes, info_free, info_total;
		nvmlProcessInfo_t rows[ROOM];
		unsigned n = ROOM;
		nvmlMemory_t memory;
		char uuid[64], *at = uuid;
		nvmlDevice_t dev;
		CUdeviceptr p;
		CUuuid id;

		enter(d);
		/* One block more on each than on the one before. */
		OK(cuda.alloc(&p, bytes + (uint64_t)d * BLOCK_BYTES));
		OK(cuda.uuid(&id, d));
		OK(cuda.total(&total_bytes, d));
		OK(cuda.info(&info_free, &info_total));
		at += sprintf(at, "GPU-");
		for (int i = 0; i < 16; i++)
			at += sprintf(at, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				      (unsigned char)id.bytes[i]);
		CHECK(nvmlDeviceGetHandleByUUID(uuid, &dev) == NVML_SUCCESS);
		CHECK(nvmlDeviceGetMemoryInfo(dev, &memory) == NVML_SUCCESS);
		CHECK(nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, rows) == NVML_SUCCESS);
		CHECK(n == 1 && rows[0].pid == (unsigned)getpid());
		SAME(total_bytes, info_total);
		SAME(total_bytes, memory.total);
		SAME(info_free, memory.free);
		SAME(memory.used, memory.total - memory.free);
		SAME(memory.used, rows[0].usedGpuMemory);
		printf("%s %llu %llu\n", uuid, memory.total, memory.used);
	}
}

/* utilization: the rows of both calls, sorted by nobody; "none" where NVML has none. */
static void utilization(int argc, char **argv)
{
	nvmlProcessUtilizationSample_t samples[256];
	nvmlProcessUtilizationInfo_v1_t infos[256];
	nvmlProcessesUtilizationInfo_t all = {
		.version = nvmlProcessesUtilizationInfo_v1,
		.procUtilArray = infos,
		.processSamplesCount = 256,
	};
	nvmlDevice_t dev = device_of(argc, argv);
	unsigned count = 256;
	nvmlReturn_t res;

	memset(samples, UNTOUCHED, sizeof(samples));
	memset(infos, UNTOUCHED, sizeof(infos));
	res = nvmlDeviceGetProcessUtilization(dev, samples, &count, 0);
	CHECK(res == (count ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND));
	for (unsigned i = 0; i < count; i++)
		printf("sample %u %u\n", samples[i].pid, samples[i].smUtil);
	/* Nothing of what NVML wrote for others is left behind ours. */
	for (unsigned i = count; i < 256; i++)
		CHECK(samples[i].pid == 0 || samples[i].pid == 0x5a5a5a5a);
	res = nvmlDeviceGetProcessesUtilizationInfo(dev, &all);
	CHECK(res == (all.processSamplesCount ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND));
	for (unsigned i = 0; i < all.processSamplesCount; i++)
		printf("info %u %u\n", infos[i].pid, infos[i].smUtil);
	for (unsigned i = all.processSamplesCount; i < 256; i++)
		CHECK(infos[i].pid == 0 || infos[i].pid == 0x5a5a5a5a);
}

/*
 * accounts: the pids that have one, and what it says under each of the numbers on standard input.
 */
static void accounts(int argc, char **argv)
{
	nvmlDevice_t dev = device_of(argc, argv);
	unsigned pids[ROOM], count = 0, pid;
	nvmlReturn_t res = nvmlDeviceGetAccountingPids(dev, &count, NULL);

	CHECK(res == (count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS));
	memset(pids, UNTOUCHED, sizeof(pids));
	if (count > 0) {
		unsigned less = count - 1;

		CHECK(nvmlDeviceGetAccountingPids(dev, &less, pids) ==
		      NVML_ERROR_INSUFFICIENT_SIZE);
		CHECK(less == count && pids[0] == 0x5a5a5a5a);
	}
	CHECK(nvmlDeviceGetAccountingPids(dev, &count, pids) == NVML_SUCCESS);
	CHECK(pids[count] == 0x5a5a5a5a);
	for (unsigned i = 0; i < count; i++)
		printf("pid %u\n", pids[i]);
	while (scanf("%u", &pid) == 1) {
		nvmlAccountingStats_t v1 = { .maxMemoryUsage = 1 };
		nvmlAccountingStats_v2_t v2 = { .pid = pid, .maxMemoryUsage = 1 };

		res = nvmlDeviceGetAccountingStats(dev, pid, &v1);
		CHECK(nvmlDeviceGetAccountingStats_v2(dev, &v2) == res && v2.pid == pid);
		printf("stats %u %d %llu %llu\n", pid, (int)res, v1.maxMemoryUsage,
		       v2.maxMemoryUsage);
	}
}

/*
 * unopened: what each call about single processes' use and BAR1 answers where the region cannot be
 * looked at, which leaves nothing of others in what it was given.
 */
static void unopened(int argc, char **argv)
{
	nvmlProcessUtilizationSample_t samples[256] = { 0 };
	nvmlProcessUtilizationInfo_v1_t infos[256] = { 0 };
	nvmlProcessesUtilizationInfo_t all = {
		.version = nvmlProcessesUtilizationInfo_v1,
		.procUtilArray = infos,
		.processSamplesCount = 256,
	};
	nvmlDevice_t dev = device_of(argc, argv);
	nvmlAccountingStats_t stats;
	nvmlAccountingStats_v2_t stats2 = { .pid = (unsigned)getpid() };
	nvmlDeviceAttributes_t attributes = { 0 };
	unsigned count = 256, pid_count = ROOM, pids[ROOM] = { 0 };
	nvmlBAR1Memory_t bar1 = { 0 };
	nvmlReturn_t res;

	res = nvmlDeviceGetProcessUtilization(dev, samples, &count, 0);
	printf("samples %d\n", (int)res);
	res = nvmlDeviceGetProcessesUtilizationInfo(dev, &all);
	printf("infos %d\n", (int)res);
	for (unsigned i = 0; i < 256; i++)
		CHECK(samples[i].pid == 0 && infos[i].pid == 0);
	res = nvmlDeviceGetAccountingPids(dev, &pid_count, pids);
	printf("pids %d\n", (int)res);
	for (unsigned i = 0; i < ROOM; i++)
		CHECK(pids[i] == 0);
	res = nvmlDeviceGetAccountingStats(dev, (unsigned)getpid(), &stats);
	printf("stats %d\n", (int)res);
	res = nvmlDeviceGetAccountingStats_v2(dev, &stats2);
	printf("stats2 %d\n", (int)res);
	res = nvmlDeviceGetAttributes_v2(dev, &attributes);
	printf("attributes %d\n", (int)res);
	if (res == NVML_SUCCESS)
		client_say("attributes.size", attributes.memorySizeMB);
	res = nvmlDeviceGetBAR1MemoryInfo(dev, &bar1);
	printf("bar1 %d\n", (int)res);
	if (res == NVML_SUCCESS)
		client_say("bar1.total", bar1.bar1Total);
}

/* sizes: every other figure of the memory. */
static void sizes(int argc, char **argv)
{
	nvmlDevice_t dev = device_of(argc, argv);
	nvmlDeviceAttributes_t attributes;
	nvmlBAR1Memory_t bar1;
	nvmlMemory_t memory;

	CHECK(nvmlDeviceGetBAR1MemoryInfo(dev, &bar1) == NVML_SUCCESS);
	client_say("bar1.total", bar1.bar1Total);
	client_say("bar1.used", bar1.bar1Used);
	client_say("bar1.free", bar1.bar1Free);
	if (nvmlDeviceGetAttributes(dev, &attributes) == NVML_SUCCESS) {
		client_say("attributes1", attributes.memorySizeMB);
		CHECK(nvmlDeviceGetAttributes_v2(dev, &attributes) == NVML_SUCCESS);
		client_say("attributes2", attributes.memorySizeMB);
		client_say("multiprocessors", attributes.multiprocessorCount);
	}
	if (nvmlDeviceGetConfComputeProtectedMemoryUsage(dev, &memory) == NVML_SUCCESS) {
		client_say("protected.total", memory.total);
		client_say("protected.used", memory.used);
		client_say("protected.free", memory.free);
	}
}

/* errors: what the lists answer, and whether they left their outputs alone. */
static void errors(int argc, char **argv)
{
	nvmlDevice_t dev = device_of(argc, argv);
	unsigned char rows[ROOM * ROW_BYTES_MAX];

	for (int i = 0; i < FORMS; i++) {
		unsigned count = 5;
		bool is_untouched = true;

		memset(rows, UNTOUCHED, sizeof(rows));
		client_say(forms[i].name, (uint64_t)forms[i].ask(dev, &count, rows));
		for (size_t k = 0; k < sizeof(rows); k++)
			is_untouched &= rows[k] == UNTOUCHED;
		CHECK(is_untouched && count == 5);
	}
}

/* answers: what the memory calls answer. */
static void answers(int argc, char **argv)
{
	nvmlDevice_t dev = device_of(argc, argv);
	nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t v1;

	client_say("memory1", (uint64_t)nvmlDeviceGetMemoryInfo(dev, &v1));
	client_say("memory2", (uint64_t)nvmlDeviceGetMemoryInfo_v2(dev, &v2));
	client_say("protected", (uint64_t)nvmlDeviceGetConfComputeProtectedMemoryUsage(dev, &v1));
}

static void odd_lists(nvmlDevice_t dev)
{
	unsigned char rows[ROOM * ROW_BYTES_MAX];

	for (int i = 0; i < FORMS; i++) {
		const struct form *f = &forms[i];
		unsigned count = 5, most = ~0u / ROW_BYTES_MAX;

		printf("%s", f->name);
		printf(" %d", f->ask(dev, &count, NULL));
		printf(" %d", f->ask((nvmlDevice_t)0xdead0, &count, rows));
		printf(" %d", f->ask(NULL, &count, rows));
		printf(" %d", f->ask(dev, &most, rows));
		/* The detailed list has its count in the structure. */
		if (!strchr(f->name, '4'))
			printf(" %d %d", f->ask(dev, NULL, rows), f->ask(dev, NULL, NULL));
		printf(" %u\n", most);
	}
}

/* odd: NULL outputs and wrong arguments; the same without us, but for pids and bytes. */
static void odd(int argc, char **argv)
{
	nvmlProcessDetailList_t list = { .version = 77 };
	nvmlProcessesUtilizationInfo_t infos = { .version = 77 };
	nvmlProcessUtilizationSample_t samples[8];
	nvmlAccountingStats_v2_t v2 = { .pid = 1 };
	nvmlAccountingStats_t v1;
	nvmlBAR1Memory_t bar1;
	unsigned count = 5;
	nvmlDevice_t dev;

	odd_lists(NULL);
	printf("early %d %d\n", nvmlDeviceGetBAR1MemoryInfo(NULL, &bar1),
	       nvmlDeviceGetProcessUtilization(NULL, samples, &count, 0));
	dev = device_of(argc, argv);
	odd_lists(dev);
	printf("details %d %d", nvmlDeviceGetRunningProcessDetailList(dev, NULL),
	       nvmlDeviceGetRunningProcessDetailList(dev, &list));
	list = (nvmlProcessDetailList_t){ .version = nvmlProcessDetailList_v1, .mode = 3 };
	printf(" %d %d\n", nvmlDeviceGetRunningProcessDetailList(dev, &list),
	       nvmlDeviceGetRunningProcessDetailList(NULL, &list));
	printf("samples %d", nvmlDeviceGetProcessUtilization(dev, NULL, NULL, 0));
	printf(" %d", nvmlDeviceGetProcessUtilization(dev, samples, NULL, 0));
	printf(" %d %u", nvmlDeviceGetProcessUtilization(dev, NULL, &count, 0), count);
	count = 5;
	printf(" %d %u\n", nvmlDeviceGetProcessUtilization(dev, samples, &count, 0), count);
	printf("infos %d %d", nvmlDeviceGetProcessesUtilizationInfo(dev, NULL),
	       nvmlDeviceGetProcessesUtilizationInfo(dev, &infos));
	infos.version = nvmlProcessesUtilizationInfo_v1;
	printf(" %d %u\n", nvmlDeviceGetProcessesUtilizationInfo(dev, &infos),
	       infos.processSamplesCount);
	printf("accounts %d %d %d\n", nvmlDeviceGetAccountingPids(dev, NULL, NULL),
	       nvmlDeviceGetAccountingStats(dev, 1, NULL),
	       nvmlDeviceGetAccountingStats_v2(dev, NULL));
	if (nvmlDeviceGetAccountingStats(dev, 1, &v1) != NVML_SUCCESS)
		printf("accounts %d %d\n", nvmlDeviceGetAccountingStats(dev, 1, &v1),
		       nvmlDeviceGetAccountingStats_v2(dev, &v2));
	printf("sizes %d %d %d %d\n", nvmlDeviceGetBAR1MemoryInfo(dev, NULL),
	       nvmlDeviceGetAttributes(dev, NULL), nvmlDeviceGetAttributes_v2(dev, NULL),
	       nvmlDeviceGetConfComputeProtectedMemoryUsage(dev, NULL));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "lists", lists },
		{ "watch", watch },
		{ "forked", forked },
		{ "member", member },
		{ "busy", busy },
		{ "ordinals", ordinals },
		{ "utilization", utilization },
		{ "accounts", accounts },
		{ "sizes", sizes },
		{ "unopened", unopened },
		{ "shut", shut },
		{ "answers", answers },
		{ "errors", errors },
		{ "odd", odd },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
