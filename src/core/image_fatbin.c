#include "core/image_fatbin.h"

#include "base/bytes.h"
#include "base/lz4.h"
#include "base/zstd.h"
#include "core/image_elf.h"
#include "core/image_text.h"

#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC UINT32_C(0xba55ed50)
#define WRAPPER_MAGIC UINT32_C(0x466243b1)

enum { KIND_TEXT = 1, KIND_ELF = 2, MEMBER_LEAST_BYTES = 16 };
/* Four bytes of zstd can be a run of 128 KiB. */
enum { RATIO_MOST = 32 << 10 };

/* What a variable of the program points to it with. */
struct wrapper {
	uint32_t magic, version;
	const void *fatbin;
	const void *more;
};

struct header {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; /* of the members */
};

/* Before each member. Of a short header the rest is zeros. */
struct member {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t bytes; /* up to the next member */
	uint32_t packed_bytes;
	uint32_t options_at;
	uint16_t minor, major;
	uint32_t arch;
	uint32_t name_at, name_bytes;
	uint64_t flags;
	uint64_t reserved;
	uint64_t plain_bytes; /* of one that is packed */
};
_Static_assert(sizeof(struct header) == 16 && sizeof(struct member) == 64, "as in the file");

/* A member's bytes as they are packed, and how many they are unpacked: at most, then exactly. */
struct packed {
	const char *at;
	uint64_t bytes, plain_bytes;
	bool is_zstd;
};

/* Of zstd the frames say it themselves, whatever the header says. */
static struct packed packed_of(const struct member *m, const char *at)
{
	struct packed p = { .at = at,
			    .bytes = m->packed_bytes ? bytes_least(m->packed_bytes, m->bytes) :
						       m->bytes,
			    .plain_bytes = m->plain_bytes };

	p.is_zstd = zstd_is(at, (size_t)p.bytes);
	if (p.is_zstd)
		p.plain_bytes = zstd_most_bytes(at, (size_t)p.bytes);
	return p;
}

/* Unpacks them into memory for one more, which is 0. NULL where that cannot be done. */
static char *unpack(struct packed *p)
{
	int64_t made;
	char *plain;

	if (p->plain_bytes == 0 || p->plain_bytes > IMAGE_COPY_MOST_BYTES)
		return NULL;
	plain = malloc((size_t)p->plain_bytes + 1);
	if (!plain)
		return NULL;
	if (p->is_zstd)
		made = zstd_decode(p->at, (size_t)p->bytes, plain, (size_t)p->plain_bytes);
	else
		made = lz4_decode(p->at, (size_t)p->bytes, plain, (size_t)p->plain_bytes);
	if (made < 0 || (!p->is_zstd && made != (int64_t)p->plain_bytes)) {
		free(plain);
		return NULL;
	}
	p->plain_bytes = (uint64_t)made;
	plain[made] = '\0';
	return plain;
}

/* What the bytes of a member say; false where they say nothing. */
static bool read_plain(const char *plain, uint64_t bytes, struct image_bytes *out)
{
	struct image_source s = { .at = plain, .bytes = bytes, .is_ours = true };

	if (image_elf_read(&s, out))
		return true;
	return image_text_read(plain, out);
}

static bool read_packed(const struct member *m, const char *at, struct image_bytes *out)
{
	struct packed p = packed_of(m, at);
	char *plain = unpack(&p);
	bool is_known = plain && read_plain(plain, p.plain_bytes, out);

	free(plain);
	return is_known;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * How long one is unpacked that cannot be read, at most: as its header says, but no more than any
 * packing makes of it, nor less than it is, or its frames (`at` NULL: they are not there) make.
 */
static uint64_t length_of(const struct member *m, const char *at)
{
	uint64_t most = m->bytes < UINT64_MAX / RATIO_MOST ? m->bytes * RATIO_MOST : UINT64_MAX;
	uint64_t bytes = larger(m->bytes, bytes_least(m->plain_bytes, most));

	return at && packed_of(m, at).is_zstd ? larger(bytes, packed_of(m, at).plain_bytes) : bytes;
}

/* What one member takes. Where nobody can tell, as much as it is long. */
static struct image_bytes read_member(const struct image_source *s, uint64_t at,
				      const struct member *m)
{
	struct image_bytes bytes = { 0 };
	char *copy = image_source_take(s, at, m->bytes);
	bool is_known = copy &&
			(read_plain(copy, m->bytes, &bytes) || read_packed(m, copy, &bytes));

	if (!is_known)
		bytes = (struct image_bytes){ .variable_bytes = length_of(m, copy),
					      .calls = IMAGE_CALLS_ALL };
	free(copy);
	return bytes;
}

/* Machine code runs on later cards of the same major architecture. */
static bool fits(const struct member *m, unsigned arch)
{
	return m->kind == KIND_ELF && (arch == 0 || (m->arch / 10 == arch / 10 && m->arch <= arch));
}

static void note(struct image_bytes *most, const struct image_bytes *b)
{
	if (b->variable_bytes > most->variable_bytes)
		most->variable_bytes = b->variable_bytes;
	if (b->managed_bytes > most->managed_bytes)
		most->managed_bytes = b->managed_bytes;
	if (b->code_bytes > most->code_bytes)
		most->code_bytes = b->code_bytes;
	most->calls |= b->calls;
}

/* True when what ends at `end` is there as far as that; nobody else says how long it is. */
static bool is_there(const struct image_source *s, uint64_t end)
{
	char last;

	return image_source_copy(s, end - 1, &last, 1);
}

/* The next member at *inout_at, which is moved behind it. False at the end. */
static bool next(const struct image_source *s, uint64_t *inout_at, struct member *out,
		 uint64_t *out_payload_at)
{
	uint64_t at = *inout_at;

	memset(out, 0, sizeof(*out));
	if (!image_source_copy(s, at, out, MEMBER_LEAST_BYTES) ||
	    out->header_bytes < MEMBER_LEAST_BYTES ||
	    !image_source_copy(s, at, out, bytes_least(out->header_bytes, sizeof(*out))))
		return false;
	*out_payload_at = at + out->header_bytes;
	*inout_at = bytes_sum(*out_payload_at, out->bytes);
	return *inout_at <= s->bytes && is_there(s, *inout_at);
}

/*
 * The most of the members that fit as machine code, or of those that are none; machine code that
 * does not fit is nobody's. False where there are none.
 */
static bool read_members(const struct image_source *s, unsigned arch, bool is_fitting,
			 struct image_bytes *out)
{
	uint64_t at = 0, payload_at;
	bool has_any = false;
	struct member m;

	while (next(s, &at, &m, &payload_at)) {
		struct image_bytes bytes;

		if (is_fitting ? !fits(&m, arch) : m.kind == KIND_ELF)
			continue;
		bytes = read_member(s, payload_at, &m);
		note(out, &bytes);
		has_any = true;
	}
	return has_any;
}

bool image_fatbin_read(const struct image_source *s, unsigned arch, struct image_bytes *out)
{
	struct image_source all = *s, members;
	struct wrapper wrapper;
	bool has_fitting;
	struct header h;

	if (image_source_copy(s, 0, &wrapper, sizeof(wrapper)) && wrapper.magic == WRAPPER_MAGIC)
		all = image_source_of(wrapper.fatbin);
	if (!image_source_copy(&all, 0, &h, sizeof(h)) || h.magic != FATBIN_MAGIC ||
	    h.header_bytes < sizeof(h))
		return false;
	members = image_source_part(&all, h.header_bytes, h.bytes);
	has_fitting = read_members(&members, arch, true, out);
	/* Nobody knows that one will fit, where the architecture is not known. */
	if (has_fitting && arch)
		return true;
	return read_members(&members, arch, false, out) || has_fitting;
}
