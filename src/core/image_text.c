#include "core/image_text.h"

#include "base/bytes.h"
#include "base/units.h"
#include "core/image_number.h"

#include <stdbool.h>
#include <string.h>

/* Up to a zero. A word is letters, digits and what directives and names are made of. */
struct text {
	const char *at;
	const char *word;
	size_t len;
};

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_$.%", c));
}

static void skip_comment(struct text *t)
{
	const char *end;

	if (t->at[1] == '/') {
		t->at += strcspn(t->at, "\n");
		return;
	}
	end = strstr(t->at + 2, "*/");
	t->at = end ? end + 2 : t->at + strlen(t->at);
}

static void skip_string(struct text *t)
{
	for (t->at++; *t->at && *t->at != '"'; t->at++)
		t->at += t->at[0] == '\\' && t->at[1];
	t->at += *t->at == '"';
}

/* The next word or other character, but for blanks, comments and strings. False at the end. */
static bool next(struct text *t)
{
	for (;;) {
		t->at += strspn(t->at, " \t\r\n\v\f");
		if (t->at[0] == '/' && (t->at[1] == '/' || t->at[1] == '*'))
			skip_comment(t);
		else if (t->at[0] == '"')
			skip_string(t);
		else
			break;
	}
	t->word = t->at;
	if (!*t->at)
		return false;
	while (is_word(*t->at))
		t->at++;
	t->at += t->at == t->word;
	t->len = (size_t)(t->at - t->word);
	return true;
}

static bool is(const struct text *t, const char *word)
{
	return t->len == strlen(word) && memcmp(t->word, word, t->len) == 0;
}

/* Bytes of a type such as .b8, .u32 or .f64; 0 for another word. */
static uint64_t type_bytes(const struct text *t)
{
	const char *end;
	uint64_t bits;

	if (t->len < 3 || t->word[0] != '.' || !strchr("busf", t->word[1]))
		return 0;
	bits = units_parse_digits(t->word + 2, &end);
	return end == t->word + t->len && bits >= 8 && bits <= 128 ? bits / 8 : 0;
}

/* What is between brackets; the second stands behind them, or at the end. */
static uint64_t read_count(struct text *t)
{
	size_t len = strcspn(t->at, "]");
	uint64_t count = image_number_read(t->at, len);

	t->at += len + (t->at[len] == ']');
	return count;
}

static bool is_empty_count(const struct text *t)
{
	return t->at[strspn(t->at, " \t\r\n\v\f")] == ']';
}

/* Behind the bracket: up to the one that ends it. */
static void skip_brackets(struct text *t)
{
	int depth = 1;

	while (depth && next(t))
		depth += is(t, "(") ? 1 : is(t, ")") ? -1 : 0;
}

/* Behind '=': how many values there are, up to what ends them, which is next. */
static uint64_t skip_values(struct text *t)
{
	struct text before = *t;
	uint64_t values = 1;
	int depth = 0;

	while (next(t) && !is(t, ";") && !(is(t, ",") && depth == 0)) {
		depth += is(t, "{") || is(t, "(") ? 1 : is(t, "}") || is(t, ")") ? -1 : 0;
		values += is(t, ",");
		before = *t;
	}
	*t = before;
	return values;
}

/* A declaration of one or more variables of a type, and what it takes from an aligned place on. */
struct declaration {
	uint64_t sum, each, vector, elements;
	uint64_t align_bytes; /* 0: that of the type */
	uint64_t most_align_bytes;
	bool has_name, is_opaque, is_managed;
	bool is_open; /* as many as it has values */
};

/* One variable's declaration is over. */
static void end_variable(struct declaration *d)
{
	uint64_t one_bytes = bytes_product(d->each, d->vector);
	uint64_t bytes = bytes_product(one_bytes, d->is_open ? 0 : d->elements);
	uint64_t align_bytes = d->align_bytes ? d->align_bytes : one_bytes;

	/* Of a type that is unknown. */
	if (d->has_name && !d->each && !d->is_opaque)
		bytes = UINT64_MAX;
	align_bytes = align_bytes ? align_bytes : 1;
	if (d->has_name) {
		d->sum = bytes_sum(bytes_round_up(d->sum, align_bytes), bytes);
		if (align_bytes > d->most_align_bytes)
			d->most_align_bytes = align_bytes;
	}
	d->elements = 1;
	d->has_name = d->is_open = false;
}

/* Behind .attribute: whether that is one of those between the brackets that follow. */
static bool has_attribute(struct text *t, const char *word)
{
	int depth = next(t) && is(t, "(");
	bool has = false;

	while (depth && next(t)) {
		depth += is(t, "(") ? 1 : is(t, ")") ? -1 : 0;
		has |= is(t, word);
	}
	return has;
}

static void read_type(struct declaration *d, struct text *t)
{
	if (is(t, ".attribute"))
		d->is_managed = has_attribute(t, ".managed");
	else if (is(t, ".align"))
		d->align_bytes = next(t) ? image_number_read(t->word, t->len) : 0;
	else if (is(t, ".v2") || is(t, ".v4") || is(t, ".v8"))
		d->vector = (uint64_t)(t->word[2] - '0');
	else if (is(t, ".texref") || is(t, ".samplerref") || is(t, ".surfref"))
		d->is_opaque = true;
	else if (type_bytes(t))
		d->each = type_bytes(t);
}

/* A word or other character of it; false where that is not as anybody writes it. */
static bool read_part(struct declaration *d, struct text *t)
{
	if (t->word[0] == '.') {
		read_type(d, t);
	} else if (is(t, "(")) {
		skip_brackets(t);
	} else if (is(t, "[") && is_empty_count(t)) {
		d->is_open = true;
		read_count(t);
	} else if (is(t, "[")) {
		d->elements = bytes_product(d->elements, read_count(t));
	} else if (is(t, "=")) {
		uint64_t values = skip_values(t);

		d->elements = d->is_open ? bytes_product(d->elements, values) : d->elements;
		d->is_open = false;
	} else if (is(t, ",")) {
		end_variable(d);
	} else if (is_word(t->word[0]) && !d->has_name) {
		d->has_name = true;
	} else {
		return false;
	}
	return true;
}

/* Behind .global: what is declared comes behind the others of its kind. */
static void read_declaration(struct text *t, struct image_bytes *sum)
{
	struct declaration d = { .vector = 1, .elements = 1, .most_align_bytes = 1 };
	uint64_t *to;

	while (next(t) && !is(t, ";")) {
		if (!read_part(&d, t)) {
			sum->variable_bytes = UINT64_MAX;
			return;
		}
	}
	if (!is(t, ";"))
		return; /* a text without an end, which nobody takes */
	end_variable(&d);
	to = d.is_managed ? &sum->managed_bytes : &sum->variable_bytes;
	*to = bytes_sum(bytes_round_up(*to, d.most_align_bytes), d.sum);
}

enum { NAME_BYTES = 64 };

/* The name before the parameters of a function that is elsewhere: what is called by it. */
static unsigned read_name(const struct text *t)
{
	char name[NAME_BYTES] = "";

	if (t->len < sizeof(name))
		memcpy(name, t->word, t->len);
	return image_calls_of(name);
}

/*
 * Behind .extern: up to the end of what is declared elsewhere. A function's result stands in
 * brackets before its name.
 */
static unsigned read_extern(struct text *t)
{
	unsigned calls = 0;

	if (!next(t) || !is(t, ".func")) {
		t->at = t->word + strcspn(t->word, ";");
		return 0;
	}
	while (next(t) && !is(t, ";")) {
		if (is(t, "("))
			skip_brackets(t);
		else if (!calls && is_word(t->word[0]) && t->word[0] != '.')
			calls = read_name(t);
	}
	return calls;
}

/* What comes before a text and is none of it: a mark of its encoding, lines of a preprocessor. */
static const char *skip_head(const char *image)
{
	image += strncmp(image, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	for (;;) {
		image += strspn(image, " \t\r\n\v\f");
		if (*image != '#')
			return image;
		image += strcspn(image, "\n");
	}
}

/* What the driver takes for text begins with its version, behind comments perhaps. */
static bool is_text(const char *image)
{
	struct text t = { .at = skip_head(image) };

	return (*t.at == '/' || *t.at == '.') && next(&t) && is(&t, ".version");
}

bool image_text_read(const char *text, struct image_bytes *out)
{
	struct text t = { .at = text };
	struct image_bytes sum = { 0 };
	bool is_pointer = false;

	if (!is_text(text))
		return false;
	while (next(&t)) {
		if (is(&t, ".extern"))
			sum.calls |= read_extern(&t);
		else if (is(&t, ".global") && !is_pointer)
			read_declaration(&t, &sum);
		/* What a parameter points to is declared elsewhere. */
		is_pointer = is(&t, ".ptr");
	}
	sum.code_bytes = (uint64_t)(t.at - text);
	*out = sum;
	return true;
}
