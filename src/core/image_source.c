#include "core/image_source.h"

#include "base/bytes.h"
#include "base/sys.h"

#include <stdlib.h>
#include <string.h>

/* No page is smaller. */
enum { PIECE_BYTES = 4096 };

struct image_source image_source_of(const void *image)
{
	return (struct image_source){ .at = image, .bytes = UINT64_MAX };
}

static bool is_inside(const struct image_source *s, uint64_t offset, uint64_t bytes)
{
	return offset <= s->bytes && bytes <= s->bytes - offset;
}

bool image_source_copy(const struct image_source *s, uint64_t offset, void *out, size_t bytes)
{
	uintptr_t from;

	if (!s->at || !is_inside(s, offset, bytes) ||
	    __builtin_add_overflow((uintptr_t)s->at, offset, &from))
		return false;
	if (!s->is_ours)
		return sys_copy_own(out, (const void *)from, bytes) == 0;
	memcpy(out, (const void *)from, bytes);
	return true;
}

char *image_source_take(const struct image_source *s, uint64_t offset, uint64_t bytes)
{
	char *copy = bytes <= IMAGE_COPY_MOST_BYTES ? malloc((size_t)bytes + 1) : NULL;

	if (!copy)
		return NULL;
	if (!image_source_copy(s, offset, copy, (size_t)bytes)) {
		free(copy);
		return NULL;
	}
	copy[bytes] = '\0';
	return copy;
}

static bool begins_as_text(const struct image_source *s)
{
	char first;

	return image_source_copy(s, 0, &first, 1) && first && strchr("/.# \t\r\n\v\f\xef", first);
}

/* How much of it is read at a time: up to the end of a page, behind which nothing may be. */
static size_t piece_bytes(const struct image_source *s, uint64_t offset)
{
	uint64_t bytes = PIECE_BYTES - ((uintptr_t)s->at + offset) % PIECE_BYTES;

	return (size_t)bytes_least(bytes, s->bytes - offset);
}

char *image_source_take_text(const struct image_source *s)
{
	size_t room = 0, bytes = 0;
	char *text = NULL;

	if (!begins_as_text(s))
		return NULL;
	for (;;) {
		size_t piece = piece_bytes(s, bytes);

		if (room < bytes + piece + 1) {
			char *grown;

			room = (bytes + piece + 1) * 2;
			grown = room <= IMAGE_COPY_MOST_BYTES ? realloc(text, room) : NULL;
			if (!grown)
				goto out_free;
			text = grown;
		}
		if (!image_source_copy(s, bytes, text + bytes, piece))
			goto out_free;
		text[bytes + piece] = '\0';
		if (piece == 0 || strlen(text + bytes) < piece)
			return text;
		bytes += piece;
	}
out_free:
	free(text);
	return NULL;
}

struct image_source image_source_part(const struct image_source *s, uint64_t offset, uint64_t bytes)
{
	struct image_source part = { .is_ours = s->is_ours };
	uintptr_t from;

	if (is_inside(s, offset, bytes) &&
	    !__builtin_add_overflow((uintptr_t)s->at, offset, &from)) {
		part.at = (const void *)from;
		part.bytes = bytes;
	}
	return part;
}
