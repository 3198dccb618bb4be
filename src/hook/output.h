/*
 * What the program had in an output of a call. Where the driver made what was asked for and the
 * limit has it undone, that is put back: the driver's own refusal leaves it alone, and nobody shall
 * find a handle there that is no more.
 */
#pragma once

#include <stdint.h>
#include <string.h>

struct output {
	void *at; /* NULL: there is none */
	uint64_t was;
	uint8_t bytes;
};

static inline struct output output_save(void *at, uint8_t bytes)
{
	struct output o = { .at = at, .bytes = bytes };

	if (at)
		memcpy(&o.was, at, bytes);
	return o;
}

/* Of a handle, an address or a number, before a call that is going to write it. */
#define OUTPUT_SAVE(out)                                                      \
	({                                                                    \
		_Static_assert(sizeof(*(out)) <= sizeof(uint64_t), "a word"); \
		output_save((out), sizeof(*(out)));                           \
	})

static inline void output_restore(const struct output *o)
{
	if (o->at)
		memcpy(o->at, &o->was, o->bytes);
}
