#include "core/image_number.h"

#include <stdbool.h>
#include <string.h>

/* Brackets in brackets. */
enum { DEPTH_MOST = 16, LEVELS = 6 };

struct expression {
	const char *at, *end;
	int depth;
	bool is_broken;
};

/* What binds closer stands later. Of two characters where the second is not 0. */
static const struct operator
{
	char name[3];
	int level;
}
operators[] = { { "|", 0 }, { "^", 1 }, { "&", 2 }, { "<<", 3 }, { ">>", 3 },
		{ "+", 4 }, { "-", 4 }, { "*", 5 }, { "/", 5 },  { "%", 5 } };

static void skip_blanks(struct expression *e)
{
	while (e->at < e->end && strchr(" \t\r\n\v\f", *e->at))
		e->at++;
}

static bool takes(struct expression *e, const char *what)
{
	size_t len = strlen(what);

	skip_blanks(e);
	if ((size_t)(e->end - e->at) < len || memcmp(e->at, what, len) != 0)
		return false;
	e->at += len;
	return true;
}

static uint64_t broken(struct expression *e)
{
	e->is_broken = true;
	return 0;
}

/* What the digit is worth; 99 of what is none. */
static unsigned digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	c |= 32;
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 99;
}

/* As C has them, and in twos: the base, behind what says it. */
static unsigned read_base(struct expression *e)
{
	if (takes(e, "0x") || takes(e, "0X"))
		return 16;
	if (takes(e, "0b") || takes(e, "0B"))
		return 2;
	return e->at < e->end && *e->at == '0' ? 8 : 10;
}

static uint64_t read_literal(struct expression *e)
{
	unsigned base = read_base(e);
	const char *from = e->at;
	uint64_t value = 0;

	for (; e->at < e->end && digit_of(*e->at) < base; e->at++)
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit_of(*e->at), &value))
			return broken(e);
	if (e->at == from)
		return broken(e);
	if (e->at < e->end && *e->at == 'U')
		e->at++;
	return value;
}

/* Made of the two; what has no value, or another than in 64 bits, is broken. */
static uint64_t apply(struct expression *e, char name, uint64_t a, uint64_t b)
{
	uint64_t value = 0;
	bool is_over = false;

	switch (name) {
	case '|':
		return a | b;
	case '^':
		return a ^ b;
	case '&':
		return a & b;
	case '<':
		is_over = b >= 64 || a << b >> b != a;
		return is_over ? broken(e) : a << b;
	case '>':
		return b >= 64 ? broken(e) : a >> b;
	case '+':
		is_over = __builtin_add_overflow(a, b, &value);
		break;
	case '-':
		is_over = __builtin_sub_overflow(a, b, &value);
		break;
	case '*':
		is_over = __builtin_mul_overflow(a, b, &value);
		break;
	case '/':
		return b ? a / b : broken(e);
	default:
		return b ? a % b : broken(e);
	}
	return is_over ? broken(e) : value;
}

static uint64_t read_level(struct expression *e, int level);

static uint64_t read_operand(struct expression *e)
{
	uint64_t value;

	if (!takes(e, "("))
		return read_literal(e);
	if (e->depth == DEPTH_MOST)
		return broken(e);
	e->depth++;
	value = read_level(e, 0);
	e->depth--;
	return takes(e, ")") ? value : broken(e);
}

/* An operator of the level; NULL: another thing follows. */
static const struct operator* read_operator(struct expression *e, int level)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (operators[i].level == level && takes(e, operators[i].name))
			return &operators[i];
	return NULL;
}

/* Up to what binds less. */
static uint64_t read_level(struct expression *e, int level)
{
	const struct operator* o;
	uint64_t value;

	if (level == LEVELS)
		return read_operand(e);
	value = read_level(e, level + 1);
	while (!e->is_broken && (o = read_operator(e, level)))
		value = apply(e, o->name[0], value, read_level(e, level + 1));
	return value;
}

uint64_t image_number_read(const char *at, size_t len)
{
	struct expression e = { .at = at, .end = at + len };
	uint64_t value = read_level(&e, 0);

	skip_blanks(&e);
	return e.is_broken || e.at != e.end ? UINT64_MAX : value;
}
