#include "tools/checkpoint.h"

#include "tools/install_path.h"
#include "tools/run_env.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { CUDA_VERSION_LEAST = 12080 };

static struct {
	void *handle;
	__typeof__(&cuInit) init;
	__typeof__(&cuDriverGetVersion) version;
	__typeof__(&cuGetErrorName) error_name;
	__typeof__(&cuCheckpointProcessGetState) state;
	__typeof__(&cuCheckpointProcessLock) lock;
	__typeof__(&cuCheckpointProcessCheckpoint) take;
	__typeof__(&cuCheckpointProcessRestore) restore;
	__typeof__(&cuCheckpointProcessUnlock) unlock;
} driver;

/*
 * Past a preloaded library that stands before the driver: it leaves dlvsym alone, and a library
 * without versions answers to any. musl has no versions.
 */
static void *look_up(const char *name)
{
#ifdef __GLIBC__
	void *function = dlvsym(driver.handle, name, "GLIBC_2.2.5");

	if (function)
		return function;
#endif
	return dlsym(driver.handle, name);
}

static void find(void)
{
	driver.init = look_up("cuInit");
	driver.version = look_up("cuDriverGetVersion");
	driver.error_name = look_up("cuGetErrorName");
	driver.state = look_up("cuCheckpointProcessGetState");
	driver.lock = look_up("cuCheckpointProcessLock");
	driver.take = look_up("cuCheckpointProcessCheckpoint");
	driver.restore = look_up("cuCheckpointProcessRestore");
	driver.unlock = look_up("cuCheckpointProcessUnlock");
}

const char *checkpoint_error_name(CUresult result)
{
	const char *name = NULL;

	if (driver.error_name && driver.error_name(result, &name) == CUDA_SUCCESS && name)
		return name;
	return "an error without a name";
}

/* By its path: the search for libraries was settled when this process began. */
static int load(bool is_sim, char *out_error, size_t error_bytes)
{
	char dir[PATH_MAX - 32] = "", path[PATH_MAX] = "libcuda.so.1";
	int rc;

	if (is_sim) {
		rc = install_path_sim(dir, sizeof(dir), out_error, error_bytes);
		if (rc < 0)
			return rc;
		snprintf(path, sizeof(path), "%s/libcuda.so.1", dir);
	}
	driver.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!driver.handle) {
		snprintf(out_error, error_bytes,
			 "there is no CUDA driver here (%s); for tenants on the software GPU give "
			 "--sim",
			 dlerror());
		return -ENOENT;
	}
	find();
	return 0;
}

int checkpoint_open(bool is_sim, char *out_error, size_t error_bytes)
{
	int version = 0, rc = driver.handle ? 0 : load(is_sim, out_error, error_bytes);
	CUresult res;

	if (rc < 0)
		return rc;
	if (driver.version)
		driver.version(&version);
	if (!driver.init || !driver.state || !driver.lock || !driver.take || !driver.restore ||
	    !driver.unlock || version < CUDA_VERSION_LEAST) {
		snprintf(out_error, error_bytes,
			 "this driver (CUDA %d.%d) cannot take the contexts of a process off the "
			 "GPU: that needs CUDA 12.8",
			 version / 1000, version % 1000 / 10);
		return -ENOTSUP;
	}
	res = driver.init(0);
	if (res != CUDA_SUCCESS) {
		snprintf(out_error, error_bytes, "cuInit gives %d (%s)", (int)res,
			 checkpoint_error_name(res));
		return -EIO;
	}
	return 0;
}

static int fail(struct checkpoint_error *out_error, const char *call, CUresult result)
{
	*out_error = (struct checkpoint_error){ call, result };
	return result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

int checkpoint_take(int pid, unsigned wait_ms, struct checkpoint_error *out_error)
{
	CUcheckpointLockArgs lock = { .timeoutMs = wait_ms };
	CUcheckpointCheckpointArgs take = { 0 };
	CUcheckpointUnlockArgs unlock = { 0 };
	CUprocessState state;
	CUresult res = driver.state(pid, &state);

	if (res != CUDA_SUCCESS)
		return fail(out_error, "cuCheckpointProcessGetState", res);
	if (state == CU_PROCESS_STATE_CHECKPOINTED)
		return 0;
	if (state != CU_PROCESS_STATE_LOCKED) {
		res = driver.lock(pid, &lock);
		if (res != CUDA_SUCCESS)
			return fail(out_error, "cuCheckpointProcessLock", res);
	}
	res = driver.take(pid, &take);
	if (res == CUDA_SUCCESS)
		return 0;
	driver.unlock(pid, &unlock);
	fail(out_error, "cuCheckpointProcessCheckpoint", res);
	return -EIO;
}

int checkpoint_bring_back(int pid, struct checkpoint_error *out_error)
{
	CUcheckpointRestoreArgs restore = { 0 };
	CUcheckpointUnlockArgs unlock = { 0 };
	CUprocessState state;
	CUresult res = driver.state(pid, &state);

	if (res != CUDA_SUCCESS)
		return fail(out_error, "cuCheckpointProcessGetState", res);
	if (state == CU_PROCESS_STATE_RUNNING)
		return 0;
	if (state != CU_PROCESS_STATE_LOCKED) {
		res = driver.restore(pid, &restore);
		if (res != CUDA_SUCCESS)
			return fail(out_error, "cuCheckpointProcessRestore", res);
	}
	res = driver.unlock(pid, &unlock);
	return res == CUDA_SUCCESS ? 0 : fail(out_error, "cuCheckpointProcessUnlock", res);
}
