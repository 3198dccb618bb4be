#include "cuda_kernel.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "cuda_managed.h"
#include "cuda_range.h"

enum { PIECE_UNITS = 64 << 10, SLEEP_MIN_NS = 200000, SLEEP_EARLY_NS = 80000, NAP_NS = 500000 };
/* Who waits for long looks less often: an eighth of what it waited, within these. */
enum { MEET_NAP_NS = 20000, MEET_NAP_MOST_NS = 500000, MEET_NAP_PART = 8 };

static bool may_touch(const struct CUctx_st *ctx, const struct cuda_span *span, uint64_t first,
		      uint64_t units)
{
	uint64_t bytes = (uint64_t)span->unit_bytes;
	uint64_t start = span->address + first * bytes;

	if (!cuda_range_is_accessible(ctx, start, units * bytes,
				      span->is_written ? RANGE_WRITE : RANGE_READ))
		return false;
	cuda_managed_touch(ctx, start, units * bytes);
	return true;
}

/* Holds the map's lock for one piece at a time: an unmap in between is found at the next piece. */
CUresult cuda_kernel_touch(struct CUctx_st *ctx, struct cuda_turn *turn,
			   const struct cuda_span *spans, int count, uint64_t units,
			   cuda_span_touch touch, void *arg)
{
	for (int i = 0; i < count; i++) {
		uint64_t bytes;

		if (__builtin_mul_overflow(units, (uint64_t)spans[i].unit_bytes, &bytes))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	for (uint64_t at = 0; at < units; at += PIECE_UNITS) {
		uint64_t piece = units - at < PIECE_UNITS ? units - at : PIECE_UNITS;
		bool allowed = true;

		cuda_range_lock_shared();
		for (int i = 0; i < count && allowed; i++)
			allowed = may_touch(ctx, &spans[i], at, piece);
		if (allowed)
			touch(arg, at, piece);
		cuda_range_unlock();
		if (!allowed)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (turn->is_held)
			cuda_turn_check(turn);
	}
	return CUDA_SUCCESS;
}

static CUresult run_empty(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param)
{
	(void)ctx;
	(void)turn;
	(void)param;
	return CUDA_SUCCESS;
}

/* Executes for param[0] ns: time in which another process has the device does not count. */
static CUresult run_spin(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param)
{
	uint64_t left_ns = param[0], last_ns = cuda_turn_now_ns();

	(void)ctx;
	while (left_ns) {
		uint64_t now_ns;

		if (left_ns > SLEEP_MIN_NS) {
			uint64_t nap_ns = left_ns - SLEEP_EARLY_NS;
			struct timespec nap = { 0, (long)(nap_ns < NAP_NS ? nap_ns : NAP_NS) };

			nanosleep(&nap, NULL);
		} else {
			sched_yield();
		}
		now_ns = cuda_turn_now_ns();
		left_ns -= now_ns - last_ns < left_ns ? now_ns - last_ns : left_ns;
		last_ns = now_ns;
		if (left_ns && cuda_turn_check(turn))
			last_ns = cuda_turn_now_ns();
	}
	return CUDA_SUCCESS;
}

static void touch_fill(void *arg, uint64_t first, uint64_t units)
{
	const uint64_t *param = arg;
	uint32_t *words = (uint32_t *)param[0] + first;

	for (uint64_t i = 0; i < units; i++)
		words[i] = (uint32_t)param[1];
}

/* param: address, value, words */
static CUresult run_fill(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param)
{
	struct cuda_span span = { param[0], true, 4 };

	if (param[0] % 4)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	return cuda_kernel_touch(ctx, turn, &span, 1, param[2], touch_fill, (void *)param);
}

static void touch_copy(void *arg, uint64_t first, uint64_t units)
{
	const uint64_t *param = arg;

	memmove((char *)param[0] + first, (const char *)param[1] + first, units);
}

/* param: destination, source, bytes */
static CUresult run_copy(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param)
{
	struct cuda_span spans[] = { { param[0], true, 1 }, { param[1], false, 1 } };

	return cuda_kernel_touch(ctx, turn, spans, 2, param[2], touch_copy, (void *)param);
}

static void touch_add(void *arg, uint64_t first, uint64_t units)
{
	const uint64_t *param = arg;
	float *dst = (float *)param[0] + first;
	const float *a = (const float *)param[1] + first, *b = (const float *)param[2] + first;

	for (uint64_t i = 0; i < units; i++)
		dst[i] = a[i] + b[i];
}

/* param: destination, a, b, words of type float */
static CUresult run_add(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param)
{
	struct cuda_span spans[] = { { param[0], true, 4 },
				     { param[1], false, 4 },
				     { param[2], false, 4 } };

	if ((param[0] | param[1] | param[2]) % 4)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	return cuda_kernel_touch(ctx, turn, spans, 3, param[3], touch_add, (void *)param);
}

struct sum {
	const unsigned char *bytes;
	uint64_t value;
};

static void touch_sum(void *arg, uint64_t first, uint64_t units)
{
	struct sum *sum = arg;

	for (uint64_t i = 0; i < units; i++)
		sum->value += (uint64_t)sum->bytes[first + i] * (2 * (first + i) + 1);
}

static void touch_store(void *arg, uint64_t first, uint64_t units)
{
	const uint64_t *pair = arg;

	(void)first;
	(void)units;
	*(uint64_t *)pair[0] = pair[1];
}

/* param: address, bytes, address of the result, which is the sum of byte[i] * (2 i + 1) mod 2^64 */
static CUresult run_checksum(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param)
{
	struct sum sum = { (const unsigned char *)param[0], 0 };
	struct cuda_span in = { param[0], false, 1 }, out = { param[2], true, 8 };
	uint64_t pair[2];
	CUresult res;

	if (param[2] % 8)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	res = cuda_kernel_touch(ctx, turn, &in, 1, param[1], touch_sum, &sum);
	if (res != CUDA_SUCCESS)
		return res;
	pair[0] = param[2];
	pair[1] = sum.value;
	return cuda_kernel_touch(ctx, turn, &out, 1, 1, touch_store, pair);
}

/* param: own word, the partner's, goal. In memory of the host. */
static CUresult run_meet(struct CUctx_st *ctx, struct cuda_turn *turn, const uint64_t *param)
{
	struct timespec nap = { 0, MEET_NAP_NS };
	long waited_ns = 0;
	bool is_allowed;

	if ((param[0] | param[1]) % 8)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	cuda_range_lock_shared();
	is_allowed = cuda_range_is_accessible(ctx, param[0], 8, RANGE_WRITE) &&
		     cuda_range_is_accessible(ctx, param[1], 8, RANGE_READ);
	cuda_range_unlock();
	if (!is_allowed)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	__atomic_store_n((uint64_t *)param[0], param[2], __ATOMIC_RELEASE);
	while (__atomic_load_n((const uint64_t *)param[1], __ATOMIC_ACQUIRE) < param[2]) {
		nanosleep(&nap, NULL);
		waited_ns += nap.tv_nsec;
		if (waited_ns / MEET_NAP_PART > nap.tv_nsec && nap.tv_nsec < MEET_NAP_MOST_NS)
			nap.tv_nsec *= 2;
		cuda_turn_check(turn);
	}
	return CUDA_SUCCESS;
}

static const struct cuda_kernel kernels[] = {
	{ "add", 4, { 8, 8, 8, 8 }, run_add }, { "checksum", 3, { 8, 8, 8 }, run_checksum },
	{ "copy", 3, { 8, 8, 8 }, run_copy },  { "empty", 0, { 0 }, run_empty },
	{ "fill", 3, { 8, 4, 8 }, run_fill },  { "ncclMeet", 3, { 8, 8, 8 }, run_meet },
	{ "spin", 1, { 8 }, run_spin },
};

int cuda_kernel_count(void)
{
	return (int)(sizeof(kernels) / sizeof(kernels[0]));
}

const struct cuda_kernel *cuda_kernel_get(int i)
{
	return &kernels[i];
}

const struct cuda_kernel *cuda_kernel_find(const char *name)
{
	for (int i = 0; i < cuda_kernel_count(); i++)
		if (strcmp(kernels[i].name, name) == 0)
			return &kernels[i];
	return NULL;
}

size_t cuda_kernel_param_offset(const struct cuda_kernel *kernel, int i)
{
	size_t offset = 0;

	for (int k = 0; k <= i; k++) {
		size_t bytes = (size_t)kernel->param_bytes[k];

		offset = (offset + bytes - 1) / bytes * bytes;
		if (k < i)
			offset += bytes;
	}
	return offset;
}

size_t cuda_kernel_params_bytes(const struct cuda_kernel *kernel)
{
	int last = kernel->params - 1;

	if (last < 0)
		return 0;
	return cuda_kernel_param_offset(kernel, last) + (size_t)kernel->param_bytes[last];
}
