/*
 * churn SEED THREADS MIB: until a line comes, threads take, fill, copy, check and free memory at
 * random, with so much at a time at most; every byte that is read back is compared with what the
 * host has. Other threads of the library may move any of it at any moment.
 */
#include "client.h"

#include <pthread.h>

/* What the software GPU and examples/kernels.h name; a real driver has no use for this program. */
#define PARAM ".param .u64 "
#define BODY ")\n{\n\tret;\n}\n"
static const char image[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			    ".visible .entry spin(" PARAM "ns" BODY ".visible .entry fill(" PARAM
			    "address, .param .u32 value, " PARAM "words" BODY
			    ".visible .entry copy(" PARAM "to, " PARAM "from, " PARAM "bytes" BODY;

enum { PIECES = 24 };

struct piece {
	CUdeviceptr addr; /* 0: none */
	uint64_t bytes;
	unsigned char *host; /* what it holds */
};

struct churner {
	pthread_t thread;
	unsigned seed;
	CUstream stream;
	struct piece pieces[PIECES];
	uint64_t held_bytes, most_bytes, rounds;
};

static CUcontext ctx;
static CUfunction spin, fill_words, copy_bytes;
static _Atomic bool is_over;

static unsigned draw(struct churner *c, unsigned below)
{
	return (unsigned)rand_r(&c->seed) % below;
}

/* From a byte to 8 MiB, small ones more often; sometimes 40. */
static uint64_t draw_bytes(struct churner *c)
{
	uint64_t most = draw(c, 40) ? UINT64_C(1) << draw(c, 24) : 40 * MIB;

	return 1 + ((uint64_t)draw(c, 1 << 30) << 16 | draw(c, 1 << 16)) % most;
}

static void launch(struct churner *c, CUfunction function, void **params)
{
	OK(cuLaunchKernel(function, 8, 1, 1, 64, 1, 1, 0, c->stream, params, NULL));
}

static void check(struct churner *c, struct piece *p, uint64_t at, uint64_t bytes)
{
	unsigned char *got = malloc(bytes);

	CHECK(got);
	OK(cuMemcpyDtoHAsync_v2(got, p->addr + at, bytes, c->stream));
	OK(cuStreamSynchronize(c->stream));
	if (memcmp(got, p->host + at, bytes) != 0) {
		uint64_t i = 0;

		while (got[i] == p->host[at + i])
			i++;
		fprintf(stderr, "byte %llu of %llu is %d, not %d\n", (unsigned long long)(at + i),
			(unsigned long long)p->bytes, got[i], p->host[at + i]);
		_exit(1);
	}
	free(got);
}

static void set_host(struct churner *c, struct piece *p)
{
	uint64_t word = (uint64_t)draw(c, 1 << 30) * 2654435761u;

	for (uint64_t i = 0; i < p->bytes; i += sizeof(word)) {
		word = word * 6364136223846793005u + 1442695040888963407u;
		memcpy(p->host + i, &word,
		       p->bytes - i < sizeof(word) ? p->bytes - i : sizeof(word));
	}
}

static void put(struct churner *c, struct piece *p)
{
	set_host(c, p);
	OK(cuMemcpyHtoDAsync_v2(p->addr, p->host, p->bytes, c->stream));
}

static void take(struct churner *c, struct piece *p)
{
	uint64_t bytes = draw_bytes(c);
	CUresult res;

	if (c->held_bytes + bytes > c->most_bytes)
		return;
	res = cuMemAlloc_v2(&p->addr, bytes);
	if (res == CUDA_ERROR_OUT_OF_MEMORY) {
		p->addr = 0;
		return;
	}
	OK(res);
	p->bytes = bytes;
	p->host = malloc(bytes);
	CHECK(p->host);
	c->held_bytes += bytes;
	put(c, p);
}

/* Work that is under way may still write to it when it is freed: that must not show anywhere. */
static void give(struct churner *c, struct piece *p)
{
	uint64_t nap_ns = 200000, words = p->bytes / 4;
	unsigned value = 0xdeadbeef;
	void *nap[] = { &nap_ns };
	void *write[] = { &p->addr, &value, &words };

	check(c, p, 0, p->bytes);
	if (draw(c, 4) == 0) {
		launch(c, spin, nap);
		launch(c, fill_words, write);
	}
	OK(cuMemFree_v2(p->addr));
	c->held_bytes -= p->bytes;
	free(p->host);
	*p = (struct piece){ 0 };
}

static void fill_piece(struct churner *c, struct piece *p)
{
	unsigned value = draw(c, 1 << 30);
	uint64_t words = p->bytes / 4;
	void *params[] = { &p->addr, &value, &words };

	launch(c, fill_words, params);
	for (uint64_t i = 0; i < words; i++)
		memcpy(p->host + 4 * i, &value, 4);
}

static void set_part(struct churner *c, struct piece *p)
{
	uint64_t at = draw(c, 1 << 30) % p->bytes, bytes = 1 + draw(c, 1 << 30) % (p->bytes - at);
	unsigned char value = (unsigned char)draw(c, 256);

	OK(cuMemsetD8Async(p->addr + at, value, bytes, c->stream));
	memset(p->host + at, value, bytes);
}

static void copy_piece(struct churner *c, struct piece *to, struct piece *from)
{
	uint64_t bytes = to->bytes < from->bytes ? to->bytes : from->bytes;
	void *params[] = { &to->addr, &from->addr, &bytes };

	if (to == from)
		return;
	if (draw(c, 2))
		launch(c, copy_bytes, params);
	else
		OK(cuMemcpyDtoDAsync_v2(to->addr, from->addr, bytes, c->stream));
	memcpy(to->host, from->host, bytes);
}

static void round_of(struct churner *c)
{
	struct piece *p = &c->pieces[draw(c, PIECES)], *q = &c->pieces[draw(c, PIECES)];

	if (!p->addr) {
		take(c, p);
		return;
	}
	switch (draw(c, 8)) {
	case 0:
	case 1:
		give(c, p);
		break;
	case 2:
		fill_piece(c, p);
		break;
	case 3:
		set_part(c, p);
		break;
	case 4:
		put(c, p);
		break;
	case 5:
		check(c, p, 0, p->bytes);
		break;
	default:
		if (q->addr)
			copy_piece(c, p, q);
	}
}

static void *churn(void *arg)
{
	struct churner *c = arg;
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
	while (!is_over) {
		round_of(c);
		c->rounds++;
	}
	for (int i = 0; i < PIECES; i++)
		if (c->pieces[i].addr)
			give(c, &c->pieces[i]);
	OK(cuStreamSynchronize(c->stream));
	OK(cuStreamDestroy_v2(c->stream));
	return NULL;
}

int main(int argc, char **argv)
{
	static struct churner churners[16];
	uint64_t rounds = 0;
	CUmodule module;
	int threads;

	CHECK(argc == 4);
	threads = atoi(argv[2]);
	CHECK(threads >= 1 && threads <= 16);
	ctx = client_start();
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&fill_words, module, "fill"));
	OK(cuModuleGetFunction(&copy_bytes, module, "copy"));
	for (int i = 0; i < threads; i++) {
		churners[i].seed = (unsigned)atoi(argv[1]) + (unsigned)i;
		churners[i].most_bytes = strtoull(argv[3], NULL, 10) * MIB / (unsigned)threads;
		CHECK(pthread_create(&churners[i].thread, NULL, churn, &churners[i]) == 0);
	}
	client_pause("working");
	is_over = true;
	for (int i = 0; i < threads; i++) {
		CHECK(pthread_join(churners[i].thread, NULL) == 0);
		rounds += churners[i].rounds;
	}
	OK(cuModuleUnload(module));
	client_say("rounds", rounds);
	if (getenv("RATION_REGION") && client_own())
		client_say("moved", __atomic_load_n(&client_own()->residency[0].moved_bytes,
						    __ATOMIC_RELAXED) /
					    MIB);
	CHARGED_IS(0, 64 * MIB);
	client_pause("end");
	return 0;
}
