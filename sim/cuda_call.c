#include "cuda_call.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_fault.h"
#include "cuda_module.h"
#include "machine.h"

/* Lives in a page that the kernel wipes in a fork child: the child finds the driver neither ready
 * nor being initialised, with no handler run and no pid compared. */
struct alive {
	_Atomic uint32_t ready;
	_Atomic uint32_t busy; /* a thread is inside cuInit */
};

static struct {
	pthread_mutex_t lock;
	_Atomic(struct alive *) alive;
	/* alive->busy; true and not ready in a thread that holds it: a fork child */
	bool started;
} driver = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The thread runs a host function in a stream, which must not call the driver. */
static __thread bool in_host_function;

void cuda_call_forbid(bool is_forbidden)
{
	in_host_function = is_forbidden;
}

static struct alive *alive_page(void)
{
	struct alive *page = atomic_load_explicit(&driver.alive, memory_order_acquire);
	struct alive *other = NULL;
	size_t size_bytes = (size_t)sysconf(_SC_PAGESIZE);

	if (page)
		return page;
	page = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, size_bytes, MADV_WIPEONFORK) != 0) {
		munmap(page, size_bytes);
		return NULL;
	}
	if (!atomic_compare_exchange_strong(&driver.alive, &other, page)) {
		munmap(page, size_bytes);
		return other;
	}
	return page;
}

bool cuda_call_is_ready(void)
{
	struct alive *page = atomic_load_explicit(&driver.alive, memory_order_acquire);

	return page && atomic_load_explicit(&page->ready, memory_order_acquire);
}

/* The library stays when a program closes it: its workers run in it. */
static void stay_loaded(void)
{
	Dl_info self;

	if (dladdr(&driver, &self))
		(void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static CUresult start(void)
{
	int err = cuda_fault_check();

	if (!err)
		err = machine_open();
	stay_loaded();
	if (err)
		return err == -EINVAL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_SYSTEM_NOT_READY;
	machine_checkpoint_serve();
	cuda_module_init();
	return cuda_device_enumerate();
}

CUresult cuInit(unsigned int flags)
{
	struct alive *page;
	CUresult res = cuda_fault_hit(CUDA_ID_cuInit);

	if (res != CUDA_SUCCESS)
		return res;
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	page = alive_page();
	if (!page)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (atomic_load_explicit(&page->ready, memory_order_acquire))
		return CUDA_SUCCESS;
	while (atomic_exchange_explicit(&page->busy, 1, memory_order_acquire))
		sched_yield();
	if (atomic_load_explicit(&page->ready, memory_order_acquire)) {
		res = CUDA_SUCCESS;
	} else if (driver.started) {
		res = CUDA_ERROR_NOT_INITIALIZED;
	} else {
		driver.started = true;
		res = start();
		driver.started = res == CUDA_SUCCESS;
		atomic_store_explicit(&page->ready, res == CUDA_SUCCESS, memory_order_release);
	}
	atomic_store_explicit(&page->busy, 0, memory_order_release);
	return res;
}

int cuda_call_version(void)
{
	if (!machine_count())
		(void)machine_open();
	return machine_cuda_version();
}

CUresult cuDriverGetVersion(int *out_version)
{
	CUresult res = cuda_fault_hit(CUDA_ID_cuDriverGetVersion);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_version)
		return CUDA_ERROR_INVALID_VALUE;
	*out_version = cuda_call_version();
	return CUDA_SUCCESS;
}

void cuda_call_lock(void)
{
	pthread_mutex_lock(&driver.lock);
}

void cuda_call_unlock(void)
{
	pthread_mutex_unlock(&driver.lock);
}

void cuda_call_wait(pthread_cond_t *cond)
{
	pthread_cond_wait(cond, &driver.lock);
}

CUresult cuda_call_begin(enum cuda_id id)
{
	CUresult res;

	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (in_host_function)
		return CUDA_ERROR_NOT_PERMITTED;
	res = cuda_fault_hit(id);
	if (res != CUDA_SUCCESS)
		return res;
	machine_call_begin();
	cuda_call_lock();
	return CUDA_SUCCESS;
}

CUresult cuda_call_begin_context(enum cuda_id id, struct CUctx_st **out_ctx)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_current(out_ctx);
	return res == CUDA_SUCCESS ? res : cuda_call_end(res);
}

CUresult cuda_call_end(CUresult res)
{
	cuda_call_unlock();
	machine_call_end();
	return res;
}
