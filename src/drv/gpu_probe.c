#include "drv/gpu_probe.h"

#include "base/clock.h"
#include "drv/capture.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"
#include "drv/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define BYTES GPU_VMM_GRAIN_BYTES
#define HALF_BYTES (BYTES / 2)
#define WAIT_NS (5 * NSEC_PER_SEC)
#define NAP_NS (20 * NSEC_PER_USEC)

/* Which no memory has by chance. */
static uint32_t word_at(uint64_t i)
{
	return (uint32_t)(i * 2654435761u) ^ 0x52617469u;
}

/* An answer that says nothing of the work is asked for again. */
static bool is_over(CUstream stream)
{
	int64_t until_ns = clock_now_ns() + WAIT_NS;
	CUresult res;

	while ((res = real.cuStreamQuery(stream)) != CUDA_SUCCESS && !status_is_sticky(res) &&
	       clock_now_ns() < until_ns)
		clock_sleep_ns(NAP_NS);
	return res == CUDA_SUCCESS;
}

/* Into the first half, from there to the second, and from there back. */
static bool copy_round(CUdeviceptr addr, uint32_t *words, CUstream stream)
{
	for (uint64_t i = 0; i < HALF_BYTES / sizeof(*words); i++)
		words[i] = word_at(i);
	if (real.cuMemcpyHtoDAsync_v2(addr, words, HALF_BYTES, stream) != CUDA_SUCCESS ||
	    real.cuMemcpyDtoDAsync_v2(addr + HALF_BYTES, addr, HALF_BYTES, stream) !=
		    CUDA_SUCCESS ||
	    !is_over(stream))
		return false;
	for (uint64_t i = 0; i < HALF_BYTES / sizeof(*words); i++)
		words[i] = 0;
	if (real.cuMemcpyDtoHAsync_v2(words, addr + HALF_BYTES, HALF_BYTES, stream) !=
		    CUDA_SUCCESS ||
	    !is_over(stream))
		return false;
	for (uint64_t i = 0; i < HALF_BYTES / sizeof(*words); i++)
		if (words[i] != word_at(i))
			return false;
	return true;
}

/* On a stream of its own, so that it waits for nothing of the program's. */
static int copy(CUdeviceptr addr)
{
	uint32_t *words = malloc(HALF_BYTES);
	CUstream stream;
	bool is_right;

	if (!words)
		return -EAGAIN;
	if (real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
		free(words);
		return -EAGAIN;
	}
	/* A call that failed once says nothing of the memory. */
	is_right = copy_round(addr, words, stream) || copy_round(addr, words, stream);
	real.cuStreamDestroy_v2(stream);
	free(words);
	return is_right ? 0 : -EIO;
}

static int map_and_copy(struct cuda_ord ord, uint64_t addr, uint64_t handle)
{
	int rc = gpu_vmm_map(addr, BYTES, handle);

	if (rc < 0)
		return -EAGAIN;
	rc = gpu_vmm_allow(addr, BYTES, &ord, 1) < 0 ? -EAGAIN : copy(addr);
	gpu_vmm_unmap_surely(addr, BYTES);
	return rc;
}

static bool has_calls(void)
{
	return real.cuCtxGetDevice && real.cuStreamCreate && real.cuStreamDestroy_v2 &&
	       real.cuStreamQuery && real.cuMemcpyHtoDAsync_v2 && real.cuMemcpyDtoDAsync_v2 &&
	       real.cuMemcpyDtoHAsync_v2;
}

int gpu_probe_host(struct cuda_ord ord)
{
	uint64_t addr, handle;
	CUdevice here;
	int rc = -EAGAIN;

	if (!has_calls() || capture_any() || real.cuCtxGetDevice(&here) != CUDA_SUCCESS ||
	    here != ord.v || gpu_vmm_create(ord, GPU_VMM_HOST, BYTES, &handle) < 0)
		return -EAGAIN;
	if (gpu_vmm_reserve(BYTES, 0, &addr) == 0) {
		rc = map_and_copy(ord, addr, handle);
		gpu_vmm_unreserve(addr, BYTES);
	}
	gpu_vmm_release(handle);
	return rc;
}
