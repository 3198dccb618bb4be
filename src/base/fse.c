#include "base/fse.h"

#include <string.h>

enum { LOG_LEAST = 5, REPEAT_MORE = 3 };

static unsigned log2_of(unsigned n)
{
	return 31 - (unsigned)__builtin_clz(n);
}

/* Symbols of less than one state are at the end; true when the rest has its place. */
static bool spread(struct fse *f, const int16_t *states, unsigned symbols)
{
	unsigned size = 1u << f->log, high = size, at = 0;
	unsigned step = (size >> 1) + (size >> 3) + 3;
	unsigned sum = 0;

	for (unsigned s = 0; s < symbols; s++)
		sum += states[s] < 0 ? 1 : (unsigned)states[s];
	if (sum != size)
		return false;
	for (unsigned s = 0; s < symbols; s++)
		if (states[s] < 0)
			f->state[--high].symbol = (uint8_t)s;
	for (unsigned s = 0; s < symbols; s++) {
		for (int i = 0; i < states[s]; i++) {
			f->state[at].symbol = (uint8_t)s;
			do
				at = (at + step) & (size - 1);
			while (at >= high);
		}
	}
	return true;
}

bool fse_make(struct fse *out, const int16_t *states, unsigned symbols, unsigned log)
{
	uint16_t next[FSE_SYMBOLS_MOST];

	out->log = log;
	if (!spread(out, states, symbols))
		return false;
	for (unsigned s = 0; s < symbols; s++)
		next[s] = states[s] < 0 ? 1 : (uint16_t)states[s];
	for (unsigned i = 0; i < 1u << log; i++) {
		unsigned n = next[out->state[i].symbol]++, bits = log - log2_of(n);

		out->state[i].bits = (uint8_t)bits;
		out->state[i].first = (uint16_t)((n << bits) - (1u << log));
	}
	return true;
}

void fse_make_one(struct fse *out, uint8_t symbol)
{
	out->log = 0;
	out->state[0].symbol = symbol;
	out->state[0].bits = 0;
	out->state[0].first = 0;
}

/* The description as far as it was read. */
struct reader {
	const uint8_t *at;
	size_t bytes;
	uint64_t bit;
	int left; /* states that no symbol has yet */
};

/* How many states the next symbol has: numbers that cannot be any more make others shorter. */
static int read_states(struct reader *r)
{
	unsigned most = (unsigned)r->left + 1, bits = log2_of(most) + 1;
	unsigned half = (1u << (bits - 1)) - 1, few = (1u << bits) - 1 - most;
	unsigned value = (unsigned)bits_at(r->at, r->bytes, r->bit, bits);

	if ((value & half) < few) {
		value &= half;
		r->bit += bits - 1;
	} else {
		if (value > half)
			value -= few;
		r->bit += bits;
	}
	return (int)value - 1;
}

/* How many symbols follow that have none. */
static unsigned read_zeros(struct reader *r)
{
	unsigned zeros = 0, more;

	do {
		more = (unsigned)bits_at(r->at, r->bytes, r->bit, 2);
		r->bit += 2;
		zeros += more;
	} while (more == REPEAT_MORE && zeros < FSE_SYMBOLS_MOST);
	return zeros;
}

size_t fse_read(struct fse *out, const uint8_t *at, size_t bytes, unsigned symbols,
		unsigned log_most)
{
	struct reader r = { .at = at, .bytes = bytes, .bit = 4 };
	unsigned log = (unsigned)bits_at(at, bytes, 0, 4) + LOG_LEAST, s = 0;
	int16_t states[FSE_SYMBOLS_MOST] = { 0 };

	if (log > log_most)
		return 0;
	r.left = 1 << log;
	while (r.left > 0 && s < symbols && r.bit <= bytes * 8) {
		states[s] = (int16_t)read_states(&r);
		r.left -= states[s] < 0 ? 1 : states[s];
		if (states[s++] == 0)
			s += read_zeros(&r);
	}
	if (r.left != 0 || s > symbols || r.bit > bytes * 8 || !fse_make(out, states, s, log))
		return 0;
	return (size_t)((r.bit + 7) / 8);
}

unsigned fse_first(const struct fse *f, struct bits *b)
{
	return (unsigned)bits_take(b, f->log);
}

unsigned fse_next(const struct fse *f, struct bits *b, unsigned state)
{
	return f->state[state].first + (unsigned)bits_take(b, f->state[state].bits);
}
