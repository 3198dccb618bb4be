#include "core/image_text.h"

#include "base/bytes.h"
#include "base/units.h"

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
	t->at += 1 + strcspn(t->at + 1, "\"");
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
	return bits >= 8 && bits <= 128 ? bits / 8 : 0;
}

/* The count between brackets, as compilers write it; 0 where none is. */
static uint64_t read_count(struct text *t)
{
	const char *end;
	uint64_t count = next(t) ? units_parse_digits(t->word, &end) : 0;

	while (!is(t, "]") && next(t))
		;
	return count;
}

static uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t c;

	return __builtin_mul_overflow(a, b, &c) ? UINT64_MAX : c;
}

/* Behind .global: the bytes of what is declared up to the end or the first value. */
static uint64_t read_declaration(struct text *t)
{
	uint64_t each = 0, elements = 1;
	bool has_name = false;

	while (next(t) && !is(t, ";") && !is(t, "=") && !is(t, "{")) {
		if (is(t, ".align"))
			next(t);
		else if (is(t, ".v2") || is(t, ".v4"))
			elements = (uint64_t)(t->word[2] - '0');
		else if (type_bytes(t))
			each = type_bytes(t);
		else if (is(t, "["))
			elements = product(elements, read_count(t));
		else if (t->word[0] != '.' && is_word(t->word[0]))
			has_name = true;
		else if (is(t, ","))
			return 0; /* not as a compiler writes it */
	}
	return has_name ? product(each, elements) : 0;
}

/* What the driver takes for text begins with its version, behind comments perhaps. */
static bool is_text(const char *image)
{
	struct text t = { .at = image };

	return (image[0] == '/' || image[0] == '.' || strspn(image, " \t\r\n")) && next(&t) &&
	       is(&t, ".version");
}

bool image_text_read(const char *text, struct image_bytes *out)
{
	struct text t = { .at = text };
	uint64_t sum = 0;

	if (!is_text(text))
		return false;
	while (next(&t)) {
		if (is(&t, ".extern"))
			t.at += strcspn(t.at, ";");
		else if (is(&t, ".global"))
			sum = bytes_sum(sum, read_declaration(&t));
	}
	*out = (struct image_bytes){ .variable_bytes = sum, .code_bytes = (uint64_t)(t.at - text) };
	return true;
}
