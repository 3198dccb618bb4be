/*
 * Reads buffers that may not all fit on the device, and says how long each pass took.
 *
 *   over KIND PATTERN COUNT BYTES PASSES [USES]
 *
 * KIND: plain (cuMemAlloc) or managed. PATTERN: what a pass reads
 *   scan  every buffer once, in order
 *   fit   the first pass every buffer, the others the first half of them
 *   skew  USES of them (COUNT): four of five among the first fifth, at random, always the same
 *   rows  as skew, but of each a MiB at a random place, in several streams
 *   late  the last USES (half of COUNT), in order: what had no room at first
 * Answers "ready" once all are filled, then for each pass
 *
 *   pass NS BYTES
 *   uses N...
 *
 * with what the kernels read, and how often of each buffer. What they read is added up on the
 * device; a sum that differs from the one that the buffer must have ends the program. On the
 * software GPU its checksum stands for it, which must stay as it was.
 */
#include "driver.h"

#include "kernels.h"

#include <stdbool.h>
#include <string.h>

enum { MOST = 4096, BLOCKS = 1056, THREADS = 256, STREAMS = 8 };

#define ROW_BYTES MIB

/* *result += the sum of all words of 4 bytes. */
static const char ptx[] = ".version 6.0\n"
			  ".target sm_50\n"
			  ".address_size 64\n"
			  ".visible .entry read(.param .u64 address, .param .u64 bytes,\n"
			  "		     .param .u64 result)\n"
			  "{\n"
			  "	.reg .u32 %a, %b, %c, %v<4>;\n"
			  "	.reg .u64 %r<8>, %s, %w;\n"
			  "	.reg .pred %p;\n"
			  "	ld.param.u64 %r4, [address];\n"
			  "	ld.param.u64 %r5, [bytes];\n"
			  "	mov.u32 %a, %ctaid.x;\n"
			  "	mov.u32 %b, %ntid.x;\n"
			  "	mov.u32 %c, %tid.x;\n"
			  "	mad.lo.u32 %c, %a, %b, %c;\n"
			  "	mov.u32 %a, %nctaid.x;\n"
			  "	mul.wide.u32 %r2, %a, %b;\n"
			  "	shl.b64 %r2, %r2, 4;\n"
			  "	mul.wide.u32 %r1, %c, 16;\n"
			  "	mov.u64 %s, 0;\n"
			  "again:\n"
			  "	setp.ge.u64 %p, %r1, %r5;\n"
			  "	@%p bra end;\n"
			  "	add.u64 %r6, %r4, %r1;\n"
			  "	ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%r6];\n"
			  "	cvt.u64.u32 %w, %v0;\n"
			  "	add.u64 %s, %s, %w;\n"
			  "	cvt.u64.u32 %w, %v1;\n"
			  "	add.u64 %s, %s, %w;\n"
			  "	cvt.u64.u32 %w, %v2;\n"
			  "	add.u64 %s, %s, %w;\n"
			  "	cvt.u64.u32 %w, %v3;\n"
			  "	add.u64 %s, %s, %w;\n"
			  "	add.u64 %r1, %r1, %r2;\n"
			  "	bra again;\n"
			  "end:\n"
			  "	ld.param.u64 %r7, [result];\n"
			  "	red.global.add.u64 [%r7], %s;\n"
			  "	ret;\n"
			  "}\n";

static struct {
	void *cuda;
	const char *pattern;
	unsigned count, uses;
	uint64_t bytes;
	uint64_t read_bytes; /* of a buffer by each use */
	bool is_rows;
	__typeof__(&cuLaunchKernel) launch;
	CUfunction func;
	CUstream streams[STREAMS]; /* the legacy one, but for rows */
	bool is_own;               /* the kernel is `read`; else the software GPU's checksum */
	CUdeviceptr buffer[MOST], results;
	uint64_t known[MOST], reads[MOST];
	uint64_t random;
} o;

static void start(void)
{
	CUmodule module;

	o.cuda = driver_open("libcuda.so.1");
	driver_begin(o.cuda);
	o.launch = DRIVER(o.cuda, cuLaunchKernel);
	CHECK(DRIVER(o.cuda, cuModuleLoadData)(&module, ptx));
	o.is_own = DRIVER(o.cuda, cuModuleGetFunction)(&o.func, module, "read") == CUDA_SUCCESS;
	if (!o.is_own) {
		CHECK(DRIVER(o.cuda, cuModuleLoadData)(&module, kernels_ptx));
		CHECK(DRIVER(o.cuda, cuModuleGetFunction)(&o.func, module, "checksum"));
	}
	CHECK(DRIVER(o.cuda, cuMemAlloc_v2)(&o.results, sizeof(o.known)));
	for (unsigned i = 0; i < STREAMS && o.is_rows; i++)
		CHECK(DRIVER(o.cuda, cuStreamCreate)(&o.streams[i], CU_STREAM_NON_BLOCKING));
}

static void fill(bool is_managed)
{
	for (unsigned i = 0; i < o.count; i++) {
		if (is_managed)
			CHECK(DRIVER(o.cuda, cuMemAllocManaged)(&o.buffer[i], o.bytes,
								CU_MEM_ATTACH_GLOBAL));
		else
			CHECK(DRIVER(o.cuda, cuMemAlloc_v2)(&o.buffer[i], o.bytes));
		CHECK(DRIVER(o.cuda, cuMemsetD32_v2)(o.buffer[i], i + 1, o.bytes / 4));
	}
	CHECK(DRIVER(o.cuda, cuCtxSynchronize)());
}

static uint64_t next_random(void)
{
	o.random = o.random * 6364136223846793005u + 1442695040888963407u;
	return o.random >> 33;
}

static void read_buffer(unsigned i, CUstream stream)
{
	uint64_t rows = o.is_rows ? o.bytes / o.read_bytes : 1;
	CUdeviceptr from = o.buffer[i] + (rows > 1 ? next_random() % rows * o.read_bytes : 0);
	CUdeviceptr result = o.results + i * sizeof(uint64_t);
	void *params[] = { &from, &o.read_bytes, &result };
	uint64_t blocks = (o.read_bytes + 16 * THREADS - 1) / (16 * THREADS);

	CHECK(o.launch(o.func, blocks < BLOCKS ? (unsigned)blocks : BLOCKS, 1, 1, THREADS, 1, 1, 0,
		       stream, params, NULL));
	o.reads[i]++;
}

/* Which buffer the n-th use of a pass is of. */
static unsigned pick(unsigned pass, unsigned n)
{
	unsigned few = o.count / 5 ? o.count / 5 : 1;

	if (strcmp(o.pattern, "fit") == 0 && pass > 0)
		return n % (o.count / 2 ? o.count / 2 : 1);
	if (strcmp(o.pattern, "late") == 0)
		return o.count - 1 - n % o.uses;
	if (strcmp(o.pattern, "skew") != 0 && !o.is_rows)
		return n % o.count;
	if (few == o.count || next_random() % 5 < 4)
		return (unsigned)(next_random() % few);
	return few + (unsigned)(next_random() % (o.count - few));
}

/* Every buffer that was read has the sum that it must have. */
static void check(void)
{
	static uint64_t got[MOST];

	CHECK(DRIVER(o.cuda, cuMemcpyDtoH_v2)(got, o.results, sizeof(got)));
	for (unsigned i = 0; i < o.count; i++) {
		uint64_t want = o.is_own ? o.reads[i] * (i + 1) * (o.read_bytes / 4) : o.known[i];

		if (o.reads[i] == 0)
			continue;
		if (!o.is_own && o.known[i] == 0)
			want = o.known[i] = got[i];
		if (got[i] != want) {
			fprintf(stderr, "buffer %u: %#llx, should be %#llx\n", i,
				(unsigned long long)got[i], (unsigned long long)want);
			exit(1);
		}
	}
}

static void run_pass(unsigned number)
{
	int64_t begin_ns, end_ns;

	memset(o.reads, 0, sizeof(o.reads));
	CHECK(DRIVER(o.cuda, cuMemsetD32_v2)(o.results, 0, sizeof(o.known) / 4));
	CHECK(DRIVER(o.cuda, cuCtxSynchronize)());
	begin_ns = driver_now_ns();
	for (unsigned n = 0; n < o.uses; n++)
		read_buffer(pick(number, n), o.streams[n % STREAMS]);
	CHECK(DRIVER(o.cuda, cuCtxSynchronize)());
	end_ns = driver_now_ns();
	check();
	printf("pass %lld %llu\nuses", (long long)(end_ns - begin_ns),
	       (unsigned long long)(o.uses * o.read_bytes));
	for (unsigned i = 0; i < o.count; i++)
		printf(" %llu", (unsigned long long)o.reads[i]);
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned passes;

	if (argc < 6 || argc > 7) {
		fprintf(stderr, "usage: over plain|managed scan|fit|skew|rows|late COUNT BYTES "
				"PASSES [USES]\n");
		return 2;
	}
	o.pattern = argv[2];
	o.count = (unsigned)strtoul(argv[3], NULL, 10);
	o.bytes = strtoull(argv[4], NULL, 10);
	passes = (unsigned)strtoul(argv[5], NULL, 10);
	o.uses = argc > 6 ? (unsigned)strtoul(argv[6], NULL, 10) : o.count;
	if (argc == 6 && strcmp(o.pattern, "late") == 0)
		o.uses = o.count / 2;
	o.is_rows = strcmp(o.pattern, "rows") == 0;
	o.read_bytes = o.is_rows && o.bytes > ROW_BYTES ? ROW_BYTES : o.bytes;
	if (o.count < 1 || o.count > MOST || o.uses < 1 || o.bytes < 16 || o.bytes % 16)
		return 2;
	start();
	fill(strcmp(argv[1], "managed") == 0);
	printf("ready\n");
	fflush(stdout);
	for (unsigned i = 0; i < passes; i++)
		run_pass(i);
	return 0;
}
