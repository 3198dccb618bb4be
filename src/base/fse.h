/*
 * Finite state entropy tables, as RFC 8878 (zstd) has them: each state stands for a symbol and says
 * from which states the next one is, by so many bits.
 */
#pragma once

#include "base/bits.h"

enum { FSE_LOG_MOST = 9, FSE_SYMBOLS_MOST = 256 };

struct fse {
	unsigned log; /* of the number of states */
	struct {
		uint8_t symbol, bits;
		uint16_t first;
	} state[1 << FSE_LOG_MOST];
};

/* Makes one of which each symbol has so many states; -1: less than one. False: they are wrong. */
bool fse_make(struct fse *out, const int16_t *states, unsigned symbols, unsigned log);

/* One that stands for a symbol without any bits. */
void fse_make_one(struct fse *out, uint8_t symbol);

/*
 * Reads the description of one of up to 2^log_most states and `symbols` symbols. Returns how many
 * bytes it takes; 0 where it is broken.
 */
size_t fse_read(struct fse *out, const uint8_t *at, size_t bytes, unsigned symbols,
		unsigned log_most);

/* The first state, and the one after `state`, of which there are fewer than 2^log. */
unsigned fse_first(const struct fse *f, struct bits *b);
unsigned fse_next(const struct fse *f, struct bits *b, unsigned state);
