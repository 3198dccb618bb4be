/*
 * How much one way to get device memory obtains under the tenant's limit: on whatever driver is
 * found.
 *
 *   matrix WAY PIECE MAX    takes pieces of so many bytes until one is refused, MAX at most
 *
 * Says "ready" before the first piece, "full" after the last and "empty" when all was given back,
 * with these figures before each word, and waits there for a line:
 *
 *   pieces   taken
 *   result   of the call that ended it; 0: MAX was reached
 *   step     the most that one piece took off what cuMemGetInfo calls free
 *   free     what it says is left
 */
#include "client.h"
#include "matrix_share.h"
#include "matrix_way.h"

/* Small pieces share blocks: looking at every one would take most of the time. */
enum { LOOK_EVERY = 256, SMALL_BYTES = 65536 };

static uint64_t free_bytes(void)
{
	size_t left, total;

	OK(cuMemGetInfo_v2(&left, &total));
	return left;
}

struct figures {
	uint64_t pieces, step_bytes;
	CUresult result;
};

static void take_all(const struct matrix_way *way, uint64_t piece_bytes, uint64_t most,
		     struct matrix_piece *pieces, struct figures *f)
{
	uint64_t before = free_bytes(), after;

	while (f->pieces < most) {
		f->result = way->take(piece_bytes, &pieces[f->pieces]);
		if (f->result != CUDA_SUCCESS)
			return;
		f->pieces++;
		if (piece_bytes && piece_bytes < SMALL_BYTES && f->pieces % LOOK_EVERY)
			continue;
		after = free_bytes();
		if (before > after && before - after > f->step_bytes)
			f->step_bytes = before - after;
		before = after;
	}
}

static void say(const char *word, const struct figures *f)
{
	client_say("pieces", f->pieces);
	client_say("result", f->result);
	client_say("step", f->step_bytes);
	client_say("free", free_bytes());
	client_pause(word);
}

int main(int argc, char **argv)
{
	const struct matrix_way *way = argc == 4 ? matrix_way_find(argv[1]) : NULL;
	uint64_t piece_bytes, most;
	struct matrix_piece *pieces;
	struct figures f = { .pieces = 0 };
	CUresult res;

	if (!way) {
		fprintf(stderr, "%s: no such way\n", argc > 1 ? argv[1] : argv[0]);
		return 2;
	}
	piece_bytes = strtoull(argv[2], NULL, 10);
	most = strtoull(argv[3], NULL, 10);
	pieces = calloc(most, sizeof(*pieces));
	CHECK(pieces);
	matrix_share_fork();
	client_start();
	res = way->start ? way->start() : CUDA_SUCCESS;
	f.result = res;
	say("ready", &f);
	if (res == CUDA_SUCCESS)
		take_all(way, piece_bytes, most, pieces, &f);
	say("full", &f);
	for (uint64_t i = f.pieces; i-- > 0;)
		OK(way->give(&pieces[i]));
	if (res == CUDA_SUCCESS && way->settle && f.pieces)
		OK(way->settle());
	say("empty", &f);
	free(pieces);
	return 0;
}
