#include "cuda_binary.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/lz4.h"
#include "base/zstd.h"
#include "cuda_device.h"
#include "cuda_image.h"

#define FATBIN_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

enum { MACHINE_CUDA = 190, KIND_TEXT = 1, KIND_ELF = 2 };

struct wrapper {
	uint32_t magic, version;
	const void *fatbin, *more;
};

struct fatbin {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes;
};

struct member {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t bytes;
	uint32_t packed_bytes, options_at;
	uint16_t minor, major;
	uint32_t arch, name_at, name_bytes;
	uint64_t flags, reserved, plain_bytes;
};

static uint32_t magic_of(const void *image)
{
	uint32_t magic = 0;

	/* up to a zero, which text ends with */
	memcpy(&magic, image, strnlen(image, sizeof(magic)));
	return magic;
}

bool cuda_binary_is(const void *image)
{
	uint32_t magic = magic_of(image);

	return magic == FATBIN_MAGIC || magic == WRAPPER_MAGIC ||
	       memcmp(&magic, ELFMAG, SELFMAG) == 0;
}

static CUresult read_elf(const void *image, struct cuda_image *inout)
{
	const char *at = image;
	Elf64_Shdr s, names;
	Elf64_Ehdr h;

	memcpy(&h, image, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_machine != MACHINE_CUDA || h.e_shentsize != sizeof(s) || h.e_shstrndx >= h.e_shnum)
		return CUDA_ERROR_INVALID_IMAGE;
	memcpy(&names, at + h.e_shoff + h.e_shstrndx * sizeof(s), sizeof(s));
	for (size_t i = 0; i < h.e_shnum; i++) {
		const char *name;

		memcpy(&s, at + h.e_shoff + i * sizeof(s), sizeof(s));
		name = at + names.sh_offset + s.sh_name;

		if (!strncmp(name, ".nv.global", strlen(".nv.global")))
			inout->variables_bytes += s.sh_size;
		else if (!strncmp(name, ".text", strlen(".text")))
			inout->code_bytes += s.sh_size;
	}
	return CUDA_SUCCESS;
}

/* What a member holds, unpacked; the caller frees it. NULL when that cannot be done. */
static char *plain_of(const struct member *m)
{
	uint64_t bytes = m->plain_bytes ? m->plain_bytes : m->bytes;
	const char *at = (const char *)m + m->header_bytes;
	char *plain = malloc(bytes + 1);

	if (!plain)
		return NULL;
	plain[bytes] = '\0';
	if (!m->plain_bytes) {
		memcpy(plain, at, bytes);
		return plain;
	}
	if ((zstd_is(at, m->packed_bytes) ?
		     zstd_decode(at, m->packed_bytes, plain, bytes) :
		     lz4_decode(at, m->packed_bytes, plain, bytes)) == (int64_t)bytes)
		return plain;
	free(plain);
	return NULL;
}

static bool fits(const struct member *m)
{
	const struct machine_device *d = cuda_device_get(0);

	return m->kind == KIND_ELF && m->arch / 10 == d->cc_major && m->arch % 10 <= d->cc_minor;
}

/* Machine code for the device, of the latest architecture; else text. NULL when it has neither. */
static const struct member *choose(const struct fatbin *f)
{
	const char *at = (const char *)f + f->header_bytes, *end = at + f->bytes;
	const struct member *code = NULL, *text = NULL;

	while (at < end) {
		const struct member *m = (const void *)at;

		if (fits(m) && (!code || m->arch > code->arch))
			code = m;
		if (m->kind == KIND_TEXT)
			text = m;
		at += m->header_bytes + m->bytes;
	}
	return code ? code : text;
}

static CUresult read_fatbin(const struct fatbin *f, struct cuda_image *inout, char **out_text)
{
	const struct member *m;
	char *plain;
	CUresult res;

	if (f->magic != FATBIN_MAGIC)
		return CUDA_ERROR_INVALID_IMAGE;
	m = choose(f);
	if (!m)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	plain = plain_of(m);
	if (!plain)
		return CUDA_ERROR_INVALID_IMAGE;
	if (m->kind == KIND_TEXT) {
		*out_text = plain;
		return CUDA_SUCCESS;
	}
	res = read_elf(plain, inout);
	free(plain);
	return res;
}

CUresult cuda_binary_read(const void *image, struct cuda_image *inout, char **out_text)
{
	const struct wrapper *wrapper = image;

	*out_text = NULL;
	if (magic_of(image) == WRAPPER_MAGIC)
		image = wrapper->fatbin;
	return magic_of(image) == FATBIN_MAGIC ? read_fatbin(image, inout, out_text) :
						 read_elf(image, inout);
}
