/*
 * Arrays, mipmaps and imports under a limit. Which case does what is said at it.
 */
#include <pthread.h>

#include "client.h"
#include "client_held.h"

#define CONTEXT_BYTES (64 * MIB)

enum { ARRAYS = 120, THREADS = 4 };

/* An array or a mipmap. */
struct thing {
	CUarray array;
	CUmipmappedArray mipmap;
};

static const CUarray_format formats[] = { CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_HALF,
					  CU_AD_FORMAT_FLOAT };

/* Of odd sides: rows of a texel, many thin slices, a few layers. */
static CUresult make(unsigned *seed, struct thing *out)
{
	static const unsigned channels[] = { 1, 2, 4 };
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 1 + (size_t)rand_r(seed) % 500,
				      .Format = formats[rand_r(seed) % 3],
				      .NumChannels = channels[rand_r(seed) % 3] };
	int kind = rand_r(seed) % 5;

	*out = (struct thing){ NULL, NULL };
	if (kind > 0)
		d.Height = 1 + (size_t)rand_r(seed) % 300;
	if (kind > 1)
		d.Depth = 1 + (size_t)rand_r(seed) % 40;
	if (kind == 3)
		d.Flags = CUDA_ARRAY3D_LAYERED;
	if (kind == 4)
		return cuMipmappedArrayCreate(&out->mipmap, &d, 1 + (unsigned)rand_r(seed) % 5);
	return cuArray3DCreate_v2(&out->array, &d);
}

static void end(struct thing *t)
{
	if (t->array)
		OK(cuArrayDestroy(t->array));
	if (t->mipmap)
		OK(cuMipmappedArrayDestroy(t->mipmap));
	*t = (struct thing){ NULL, NULL };
}

/* shapes SEED: what is charged is what the card gave, whatever they are. */
static void shapes(int argc, char **argv)
{
	struct thing things[ARRAYS];
	unsigned seed;

	CHECK(argc == 1);
	seed = (unsigned)atoi(argv[0]);
	client_start();
	for (int i = 0; i < ARRAYS; i++)
		OK(make(&seed, &things[i]));
	client_pause("full");
	for (int i = 0; i < ARRAYS; i += 2)
		end(&things[i]);
	client_pause("half");
	for (int i = 1; i < ARRAYS; i += 2)
		end(&things[i]);
	client_pause("empty");
}

/* context: they go with their context. */
static void context(int argc, char **argv)
{
	struct thing thing;
	unsigned seed = 1;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	for (int i = 0; i < 20; i++)
		OK(make(&seed, &thing));
	CHECK(client_charged(0) > 2 * CONTEXT_BYTES);
	OK(cuCtxDestroy_v2(ctx));
	CHARGED_IS(0, CONTEXT_BYTES);
}

static CUcontext crowd;

static void *churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct thing things[8] = { { NULL, NULL } };

	OK(cuCtxSetCurrent(crowd));
	for (int i = 0; i < 100; i++) {
		struct thing *t = &things[rand_r(&seed) % 8];

		end(t);
		if (rand_r(&seed) % 3)
			OK(make(&seed, t));
	}
	for (int i = 0; i < 8; i++)
		end(&things[i]);
	return NULL;
}

/* threads: at once; at the end nothing is charged. */
static void threads(int argc, char **argv)
{
	pthread_t thread[THREADS];

	(void)argc;
	(void)argv;
	crowd = client_start();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	client_pause("ended");
}

/* small: they share a block of the card's to its end. */
static void small(int argc, char **argv)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
	CUarray arrays[1000] = { NULL };
	unsigned n = 0;
	CUresult res;

	(void)argc;
	(void)argv;
	client_start();
	while (n < 1000 && (res = cuArrayCreate_v2(&arrays[n], &d)) == CUDA_SUCCESS)
		n++;
	IS(res, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(!arrays[n]);
	client_say("arrays", n);
	CHARGED_IS(0, client_limit(0) - 2 * MIB); /* the last block is kept back */
	client_pause("full");
	while (n--)
		OK(cuArrayDestroy(arrays[n]));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* thin: an array that is mostly padding is refused where its texels alone would fit. */
static void thin(int argc, char **argv)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 1,
				      .Height = 16384,
				      .Depth = 512,
				      .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				      .NumChannels = 1 };
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	IS(cuArray3DCreate_v2(&array, &d), CUDA_ERROR_OUT_OF_MEMORY);
	CHARGED_IS(0, CONTEXT_BYTES);
	client_pause("refused");
	d.Depth = 8;
	OK(cuArray3DCreate_v2(&array, &d));
	OK(cuArrayDestroy(array));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* odd: nonsense; the answers are the driver's, and nothing stays charged. */
static void odd(int argc, char **argv)
{
	CUDA_ARRAY_DESCRIPTOR flat = {
		.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4
	};
	CUDA_ARRAY3D_DESCRIPTOR deep = { .Width = 16,
					 .Height = 16,
					 .Depth = 16,
					 .Format = CU_AD_FORMAT_FLOAT,
					 .NumChannels = 4 };
	CUDA_ARRAY_DESCRIPTOR f;
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUmipmappedArray mipmap;
	CUarray array;

	(void)argc;
	(void)argv;
	printf("early %d %d\n", cuArrayCreate_v2(&array, &flat), cuArray3DCreate_v2(&array, &deep));
	client_start();
	printf("null %d %d %d %d\n", cuArrayCreate_v2(NULL, &flat), cuArrayCreate_v2(&array, NULL),
	       cuArray3DCreate_v2(NULL, &deep), cuArray3DCreate_v2(&array, NULL));
	printf("null mipmap %d %d\n", cuMipmappedArrayCreate(NULL, &deep, 1),
	       cuMipmappedArrayCreate(&mipmap, NULL, 1));
	f = flat, f.Width = 0;
	printf("no width %d\n", cuArrayCreate_v2(&array, &f));
	f = flat, f.Width = SIZE_MAX;
	printf("huge %d\n", cuArrayCreate_v2(&array, &f));
	f = flat, f.NumChannels = 3;
	printf("channels %d\n", cuArrayCreate_v2(&array, &f));
	f = flat, f.NumChannels = UINT32_MAX;
	printf("channels %d\n", cuArrayCreate_v2(&array, &f));
	f = flat, f.Format = (CUarray_format)0x7777;
	printf("format %d\n", cuArrayCreate_v2(&array, &f));
	d = deep, d.Width = d.Height = d.Depth = SIZE_MAX;
	printf("huge %d\n", cuArray3DCreate_v2(&array, &d));
	d = deep, d.Width = d.Height = d.Depth = (size_t)1 << 32;
	printf("past 2^64 %d\n", cuArray3DCreate_v2(&array, &d));
	d = deep, d.Flags = UINT32_MAX;
	printf("flags %d\n", cuArray3DCreate_v2(&array, &d));
	for (unsigned levels = 0; levels <= 64; levels += 32) {
		CUresult res = cuMipmappedArrayCreate(&mipmap, &deep, levels ? levels : UINT32_MAX);

		/* More than there can be are perhaps taken for all there can be. */
		printf("levels %d\n", res);
		if (res == CUDA_SUCCESS)
			OK(cuMipmappedArrayDestroy(mipmap));
	}
	printf("destroy %d %d\n", cuArrayDestroy(NULL), cuMipmappedArrayDestroy(NULL));
	printf("destroy %d\n", cuArrayDestroy((CUarray)(uintptr_t)0xdead000));
	if (getenv("RATION_MEM"))
		CHARGED_IS(0, CONTEXT_BYTES);
}

/* faults: whichever call fails, nothing stays charged in the end. */
static void faults(int argc, char **argv)
{
	struct thing things[12] = { { NULL, NULL } };
	unsigned seed = 3;

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 12; i++)
		if (make(&seed, &things[i]) != CUDA_SUCCESS)
			things[i] = (struct thing){ NULL, NULL };
	for (int i = 0; i < 12; i++) {
		while (things[i].array && cuArrayDestroy(things[i].array) != CUDA_SUCCESS)
			;
		while (things[i].mipmap &&
		       cuMipmappedArrayDestroy(things[i].mipmap) != CUDA_SUCCESS)
			;
	}
	CHARGED_IS(0, CONTEXT_BYTES);
}

static void *take_block(void *ctx)
{
	CUdeviceptr addr;

	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc_v2(&addr, BLOCK_BYTES));
	return NULL;
}

/*
 * beside: the arrays that blocks were given for go while others lie in them, and the card cannot be
 * asked, since another thread's allocation is in the driver. Nobody has the blocks meanwhile.
 */
static void beside(int argc, char **argv)
{
	enum { PAIRS = 3 };
	const CUDA_ARRAY_DESCRIPTOR large = { 256, 304, CU_AD_FORMAT_FLOAT, 4 };
	const CUDA_ARRAY_DESCRIPTOR small = { 256, 176, CU_AD_FORMAT_FLOAT, 4 };
	CUarray first[PAIRS], second[PAIRS];
	CUdeviceptr addr[64];
	struct client_held held = client_held_find();
	CUcontext ctx;
	int count = 0;

	(void)argc;
	(void)argv;
	ctx = client_start();
	for (int i = 0; i < PAIRS; i++) {
		OK(cuArrayCreate_v2(&first[i], &large));
		OK(cuArrayCreate_v2(&second[i], &small));
	}
	CHARGED_IS(0, CONTEXT_BYTES + PAIRS * BLOCK_BYTES);
	client_held_start(&held, take_block, ctx);
	for (int i = 0; i < PAIRS; i++)
		OK(cuArrayDestroy(first[i]));
	while (count < 64 && cuMemAlloc_v2(&addr[count], BLOCK_BYTES) == CUDA_SUCCESS)
		count++;
	client_held_end(&held);
	while (count > 0)
		OK(cuMemFree_v2(addr[--count]));
	CHARGED_IS(0, CONTEXT_BYTES + (PAIRS + 1) * BLOCK_BYTES);
	for (int i = 0; i < PAIRS; i++)
		OK(cuArrayDestroy(second[i]));
	CHARGED_IS(0, CONTEXT_BYTES + BLOCK_BYTES);
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "shapes", shapes }, { "context", context }, { "threads", threads },
		{ "small", small },   { "thin", thin },       { "odd", odd },
		{ "faults", faults }, { "beside", beside },   { 0 },
	};

	return client_main(argc, argv, cases);
}
