#include "cuda_image.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_binary.h"
#include "cuda_kernel.h"

enum { NO_KERNEL = -1, ALIGN_MAX = 65536 };

/* A place in the text. A word is letters, digits and what else names and directives are made of. */
struct reader {
	const char *at;
	const char *word;
	size_t len;
	int depth;  /* of braces */
	int kernel; /* whose body this is, or NO_KERNEL */
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static void skip_blank(struct reader *r)
{
	for (;;) {
		while (isspace((unsigned char)*r->at))
			r->at++;
		if (r->at[0] == '/' && r->at[1] == '/') {
			r->at += strcspn(r->at, "\n");
		} else if (r->at[0] == '/' && r->at[1] == '*') {
			const char *end = strstr(r->at + 2, "*/");

			r->at = end ? end + 2 : r->at + strlen(r->at);
		} else {
			return;
		}
	}
}

/* The next word, or one other character. False at the end. */
static bool next(struct reader *r)
{
	skip_blank(r);
	if (!*r->at)
		return false;
	r->word = r->at;
	while (is_word(*r->at))
		r->at++;
	if (r->at == r->word)
		r->at++;
	r->len = (size_t)(r->at - r->word);
	return true;
}

static bool is(const struct reader *r, const char *text)
{
	return r->len == strlen(text) && memcmp(r->word, text, r->len) == 0;
}

/* Bytes of a type such as .b8 or .f64; 0 for another word. */
static uint64_t type_bytes(const struct reader *r)
{
	unsigned long bits;

	if (r->len < 3 || r->word[0] != '.' || !strchr("busf", r->word[1]))
		return 0;
	bits = strtoul(r->word + 2, NULL, 10);
	return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

/* A declaration behind its state space: attributes, a type, a name, sizes. */
struct declaration {
	const char *name;
	size_t name_len;
	uint64_t align, size_bytes;
	bool is_managed;
};

/* Reads up to the end of the first name's sizes. False when it is not understood. */
static bool read_declaration(struct reader *r, struct declaration *out)
{
	uint64_t factor = 1;

	*out = (struct declaration){ .align = 1 };
	while (next(r) && r->word[0] == '.') {
		if (is(r, ".align") && next(r)) {
			out->align = strtoul(r->word, NULL, 10);
		} else if (is(r, ".attribute")) {
			while (next(r) && r->word[0] != ')')
				out->is_managed |= is(r, ".managed");
		} else if (is(r, ".v2") || is(r, ".v4")) {
			factor = (uint64_t)(r->word[2] - '0');
		} else if (type_bytes(r)) {
			out->size_bytes = type_bytes(r);
		}
	}
	if (!is_word(r->word[0]) || out->size_bytes == 0 || out->align > ALIGN_MAX ||
	    out->align == 0 || (out->align & (out->align - 1)))
		return false;
	out->name = r->word;
	out->name_len = r->len;
	out->size_bytes *= factor;
	if (out->align < out->size_bytes)
		out->align = out->size_bytes;
	skip_blank(r);
	while (*r->at == '[') {
		char *end;
		unsigned long long count = strtoull(r->at + 1, &end, 10);

		if (__builtin_mul_overflow(out->size_bytes, count, &out->size_bytes) || *end != ']')
			return false;
		r->at = end + 1;
		skip_blank(r);
	}
	return true;
}

static CUresult add_variable(struct cuda_image *image, const struct declaration *d)
{
	size_t room = (size_t)image->variables + 1;
	struct cuda_variable *grown = realloc(image->variable, room * sizeof(*grown));
	struct cuda_variable *v;
	uint64_t *end;

	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	image->variable = grown;
	v = &grown[image->variables];
	v->name = strndup(d->name, d->name_len);
	if (!v->name)
		return CUDA_ERROR_OUT_OF_MEMORY;
	v->is_managed = d->is_managed;
	end = v->is_managed ? &image->managed_bytes : &image->variables_bytes;
	v->offset = (*end + d->align - 1) / d->align * d->align;
	v->size_bytes = d->size_bytes;
	image->variables++;
	if (__builtin_add_overflow(v->offset, v->size_bytes, end))
		return CUDA_ERROR_INVALID_IMAGE;
	return CUDA_SUCCESS;
}

static int kernel_of(const struct reader *r)
{
	for (int i = 0; i < cuda_kernel_count(); i++)
		if (is(r, cuda_kernel_get(i)->name))
			return i;
	return NO_KERNEL;
}

/* Behind .extern, up to the end of what it declares. */
static unsigned read_extern(struct reader *r)
{
	unsigned calls = 0;
	bool is_func = false;

	while (next(r) && !is(r, ";")) {
		is_func |= is(r, ".func");
		if (is(r, "vprintf"))
			calls |= CALLS_PRINT;
		else if (is(r, "malloc") || is(r, "free"))
			calls |= CALLS_HEAP;
		else if (is(r, "__assertfail"))
			calls |= CALLS_OTHER;
		else if (r->len > 10 && !strncmp(r->word, "cudaLaunch", 10))
			calls |= CALLS_LAUNCH;
	}
	return is_func ? calls : 0;
}

static CUresult read_word(struct reader *r, struct cuda_image *image)
{
	struct declaration d;

	if (is(r, "{")) {
		r->depth++;
	} else if (is(r, "}")) {
		if (--r->depth == 0)
			r->kernel = NO_KERNEL;
	} else if (is(r, ".entry") || is(r, ".func")) {
		bool is_entry = is(r, ".entry");

		r->kernel = next(r) && is_entry ? kernel_of(r) : NO_KERNEL;
	} else if (is(r, ".global") && r->depth == 0) {
		if (read_declaration(r, &d) && d.size_bytes)
			return add_variable(image, &d);
	} else if (is(r, ".local") && r->kernel != NO_KERNEL) {
		if (read_declaration(r, &d))
			image->local_bytes[r->kernel] += (uint32_t)d.size_bytes;
	} else if (is(r, ".extern")) {
		image->calls |= read_extern(r);
	}
	return CUDA_SUCCESS;
}

static CUresult read_text(const char *text, struct cuda_image *image)
{
	struct reader r = { .at = text, .kernel = NO_KERNEL };
	CUresult res = CUDA_SUCCESS;

	while (res == CUDA_SUCCESS && next(&r))
		res = read_word(&r, image);
	return res;
}

static CUresult read_any(const void *image, struct cuda_image *out)
{
	char *text = NULL;
	CUresult res;

	if (!cuda_binary_is(image))
		return read_text(image, out);
	res = cuda_binary_read(image, out, &text);
	if (res == CUDA_SUCCESS && text)
		res = read_text(text, out);
	free(text);
	return res;
}

CUresult cuda_image_read(const void *image, struct cuda_image **out_image)
{
	struct cuda_image *i;
	CUresult res = CUDA_SUCCESS;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!cuda_binary_is(image) && !strstr(image, ".version"))
		return CUDA_ERROR_INVALID_IMAGE;
	i = calloc(1, sizeof(*i));
	if (!i)
		return CUDA_ERROR_OUT_OF_MEMORY;
	i->references = 1;
	i->local_bytes = calloc((size_t)cuda_kernel_count(), sizeof(*i->local_bytes));
	if (!i->local_bytes)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	else
		res = read_any(image, i);
	if (res == CUDA_SUCCESS)
		*out_image = i;
	else
		cuda_image_put(i);
	return res;
}

void cuda_image_put(struct cuda_image *image)
{
	if (!image || --image->references)
		return;
	for (int i = 0; i < image->variables; i++)
		free(image->variable[i].name);
	free(image->variable);
	free(image->local_bytes);
	free(image);
}

const struct cuda_variable *cuda_image_find(const struct cuda_image *image, const char *name)
{
	for (int i = 0; i < image->variables; i++)
		if (strcmp(image->variable[i].name, name) == 0)
			return &image->variable[i];
	return NULL;
}
