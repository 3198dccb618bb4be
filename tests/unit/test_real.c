#include "drv/real.h"

#include "fresh.h"
#include "refuse.h"

#include <dlfcn.h>
#include <pthread.h>

static void *load_cuda(void)
{
	void *handle = dlopen(FAKE_DRIVER "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	return handle;
}

static const struct real_row *row(const char *name)
{
	const struct real_row *found = NULL;

	for (size_t i = 0; i < real_row_count; i++)
		if (strcmp(real_rows[i].name, name) == 0)
			found = &real_rows[i];
	CHECK(found);
	return found;
}

static void rows_are_the_tables(void)
{
	const struct real_row *free_row = row("cuMemFree_v2");

	CHECK_EQ(free_row->lib, REAL_CUDA);
	CHECK_EQ(free_row->offset, offsetof(struct real, cuMemFree_v2));
	CHECK_EQ(row("nvmlInit_v2")->lib, REAL_NVML);
	CHECK_EQ(real_row_count, sizeof(struct real) / sizeof(void *));
	for (size_t i = 0; i < real_row_count; i++) {
		CHECK_EQ(real_rows[i].offset, i * sizeof(void *));
		CHECK(!real_pointer(&real_rows[i]));
		/* Names are looked for by halving. */
		CHECK(i == 0 || strcmp(real_rows[i - 1].name, real_rows[i].name) < 0);
	}
}

static void what_is_not_loaded_is_not_found(void)
{
	CHECK(!dlsym(RTLD_DEFAULT, "no such symbol"));
	CHECK(!real_find(REAL_CUDA));
	/* Nothing was loaded by it, and no error of it is left behind. */
	CHECK(!dlerror());
	CHECK(!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD));
	CHECK(!real.cuInit);
	CHECK(!real_owns((const void *)(uintptr_t)real_find));
	CHECK(!real_owns(NULL));
}

static void the_loaded_driver_is_found(void)
{
	void *handle = load_cuda();
	CUdeviceptr addr = 0;
	int here;

	CHECK(real_find(REAL_CUDA));
	CHECK(!dlerror());
	CHECK((void *)(uintptr_t)real.cuInit == dlsym(handle, "cuInit"));
	CHECK(real_pointer(row("cuInit")) == (void *)(uintptr_t)real.cuInit);
	CHECK_EQ(real.cuMemAlloc_v2(&addr, 42), CUDA_SUCCESS);
	CHECK_EQ(addr, 42);
	/* What it lacks is not there. */
	CHECK(!real.cuMemAlloc);
	CHECK(!real.cuMemCreate);
	CHECK(!real.nvmlInit_v2);
	CHECK(!real_find(REAL_NVML));
	CHECK(real_owns(dlsym(handle, "cuMemFree_v2")));
	CHECK(!real_owns((const void *)(uintptr_t)real_find));
	CHECK(!real_owns(&here));
	CHECK(real_find(REAL_CUDA));
}

/* We point into it: a program that closes it does not take it away. */
static void the_driver_stays_while_we_point_into_it(void)
{
	void *handle = load_cuda();

	CHECK(real_find(REAL_CUDA));
	CHECK_EQ(dlclose(handle), 0);
	CHECK(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == handle);
	CHECK_EQ(real.cuInit(7), 7);
}

static void nvml_is_loaded_when_it_is_needed(void)
{
	CHECK(!real_find(REAL_NVML));
	CHECK_EQ(real_load_nvml(), 0);
	CHECK(real_find(REAL_NVML));
	CHECK_EQ(real.nvmlInit_v2(), NVML_ERROR_TIMEOUT);
	CHECK(!real.nvmlDeviceGetCount_v2);
	CHECK(real_owns((const void *)(uintptr_t)real.nvmlInit_v2));
	CHECK(!real_find(REAL_CUDA));
	CHECK_EQ(real_load_nvml(), 0);
}

static void a_machine_without_nvml(void)
{
	if (!refuse_call(SYS_openat, REFUSE_ANY, 0, ENOENT))
		child_skip("no seccomp filter can be set here");
	CHECK(real_load_nvml() == -ENOENT);
	CHECK(!dlerror());
	CHECK(!real.nvmlInit_v2);
}

static void *find_driver(void *arg)
{
	CHECK(real_find(REAL_CUDA));
	CHECK(real.cuInit);
	return arg;
}

static void threads_find_it_at_once(void)
{
	pthread_t threads[4];

	load_cuda();
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, find_driver, NULL) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(real.cuInit(3), 3);
}

/* The driver's addresses are the program's: a child has them without looking again. */
static void a_child_keeps_them(void)
{
	int status;
	pid_t pid;

	load_cuda();
	CHECK(real_find(REAL_CUDA));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(!(real.cuInit && real_owns((const void *)(uintptr_t)real.cuInit)));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(rows_are_the_tables),
		fresh_test(what_is_not_loaded_is_not_found),
		fresh_test(the_loaded_driver_is_found),
		fresh_test(the_driver_stays_while_we_point_into_it),
		fresh_test(nvml_is_loaded_when_it_is_needed),
		fresh_test(a_machine_without_nvml),
		fresh_test(threads_find_it_at_once),
		fresh_test(a_child_keeps_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
