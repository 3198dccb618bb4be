/*
 * Images for tests, built by hand: cubins, fat binaries, blocks of LZ4, frames of zstd.
 */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Grows; the caller frees `at`. */
struct image_build {
	unsigned char *at;
	size_t bytes;
};

static inline size_t image_build_add(struct image_build *b, const void *what, size_t bytes)
{
	size_t at = b->bytes;

	b->at = realloc(b->at, b->bytes + bytes + 1);
	if (!b->at)
		abort();
	if (what)
		memcpy(b->at + at, what, bytes);
	else
		memset(b->at + at, 0, bytes);
	b->bytes += bytes;
	b->at[b->bytes] = 0;
	return at;
}

static inline void image_build_word(struct image_build *b, uint64_t value, size_t bytes)
{
	/* The formats are of the low end first, as the machines that have such devices. */
	image_build_add(b, &value, bytes);
}

/* A section of a cubin; one without bytes in the file is SHT_NOBITS. */
struct image_section {
	const char *name;
	uint64_t bytes;
	int is_nobits;
};

static inline struct image_build image_build_elf(const struct image_section *sections,
						 unsigned count)
{
	struct image_build b = { 0 }, names = { 0 };
	Elf64_Shdr *table = calloc(count + 2, sizeof(*table));
	Elf64_Ehdr h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, 1, 1 },
			 .e_type = 2,
			 .e_machine = 190,
			 .e_version = 1,
			 .e_ehsize = sizeof(h),
			 .e_shentsize = sizeof(*table),
			 .e_shnum = (uint16_t)(count + 2),
			 .e_shstrndx = 1 };

	if (!table)
		abort();
	image_build_add(&b, NULL, sizeof(h));
	image_build_add(&names, "", 1);
	for (unsigned i = 0; i < count; i++) {
		Elf64_Shdr *s = &table[i + 2];

		s->sh_name = (Elf64_Word)image_build_add(&names, sections[i].name,
							 strlen(sections[i].name) + 1);
		s->sh_type = sections[i].is_nobits ? SHT_NOBITS : SHT_PROGBITS;
		s->sh_offset = b.bytes;
		s->sh_size = sections[i].bytes;
		if (!sections[i].is_nobits)
			image_build_add(&b, NULL, sections[i].bytes);
	}
	table[1].sh_name = (Elf64_Word)image_build_add(&names, ".shstrtab", 10);
	table[1].sh_type = SHT_STRTAB;
	table[1].sh_size = names.bytes;
	table[1].sh_offset = image_build_add(&b, names.at, names.bytes);
	image_build_add(&b, NULL, -b.bytes % 8);
	h.e_shoff = image_build_add(&b, table, (count + 2) * sizeof(*table));
	memcpy(b.at, &h, sizeof(h));
	free(names.at);
	free(table);
	return b;
}

static inline void image_build_length(struct image_build *b, size_t length)
{
	for (; length >= 255; length -= 255)
		image_build_word(b, 255, 1);
	image_build_word(b, length, 1);
}

/* An LZ4 block of the bytes: runs of one byte are matches, the rest is literals. */
static inline struct image_build image_build_lz4(const void *plain, size_t bytes)
{
	const unsigned char *p = plain;
	struct image_build b = { 0 };
	size_t from = 0, at = 0;

	while (at < bytes) {
		size_t run = 1, literals;

		while (at + run < bytes && p[at + run] == p[at])
			run++;
		/* The last bytes are literals. */
		if (run < 8 || at + run + 12 > bytes) {
			at += run;
			continue;
		}
		literals = at + 1 - from;
		run--;
		image_build_word(&b,
				 (literals < 15 ? literals : 15) << 4 |
					 (run - 4 < 15 ? run - 4 : 15),
				 1);
		if (literals >= 15)
			image_build_length(&b, literals - 15);
		image_build_add(&b, p + from, literals);
		image_build_word(&b, 1, 2);
		if (run - 4 >= 15)
			image_build_length(&b, run - 4 - 15);
		at += run + 1;
		from = at;
	}
	image_build_word(&b, (bytes - from < 15 ? bytes - from : 15) << 4, 1);
	if (bytes - from >= 15)
		image_build_length(&b, bytes - from - 15);
	image_build_add(&b, p + from, bytes - from);
	return b;
}

/* The head of a block of a zstd frame. */
static inline void image_build_block(struct image_build *b, unsigned kind, size_t bytes,
				     int is_last)
{
	image_build_word(b, (uint64_t)bytes << 3 | kind << 1 | (unsigned)is_last, 3);
}

/* A frame of zstd of the bytes: long runs of one byte are blocks, and what is between them. */
static inline struct image_build image_build_zstd(const void *plain, size_t bytes)
{
	enum { MOST = 128 << 10, RAW = 0, RUN = 1 };
	const unsigned char *p = plain;
	struct image_build b = { 0 };
	size_t from = 0, at = 0;

	image_build_word(&b, 0xfd2fb528, 4);
	/* Without a size; a window of 128 KiB. */
	image_build_word(&b, 7 << 11, 2);
	while (at < bytes) {
		size_t run = 1;

		while (at + run < bytes && run < MOST && p[at + run] == p[at])
			run++;
		if (run < 8 && at + run - from < MOST - 8) {
			at += run;
			continue;
		}
		image_build_block(&b, RAW, at - from, 0);
		image_build_add(&b, p + from, at - from);
		image_build_block(&b, RUN, run, 0);
		image_build_add(&b, p + at, 1);
		at += run;
		from = at;
	}
	image_build_block(&b, RAW, bytes - from, 1);
	image_build_add(&b, p + from, bytes - from);
	return b;
}

enum { IMAGE_TEXT = 1, IMAGE_ELF = 2, IMAGE_PACKED = 0x2000, IMAGE_ZSTD = 0x8000 };

/* Begins a fat binary; its members follow. */
static inline struct image_build image_build_fatbin(void)
{
	struct image_build b = { 0 };

	image_build_word(&b, 0xba55ed50, 4);
	image_build_word(&b, 1, 2);
	image_build_word(&b, 16, 2);
	image_build_word(&b, 0, 8);
	return b;
}

/* One member; `plain_bytes` of one that is packed, else 0. */
static inline void image_build_member(struct image_build *b, unsigned kind, unsigned arch,
				      const struct image_build *what, uint64_t plain_bytes,
				      uint64_t flags)
{
	uint64_t padded = (what->bytes + 7) / 8 * 8, all;

	image_build_word(b, kind, 2);
	image_build_word(b, 0x101, 2);
	image_build_word(b, 64, 4);
	image_build_word(b, padded, 8);
	image_build_word(b, plain_bytes ? what->bytes : 0, 4);
	image_build_word(b, 0, 4);
	image_build_word(b, 0, 4);
	image_build_word(b, arch, 4);
	image_build_word(b, 0, 8);
	image_build_word(b, flags, 8);
	image_build_word(b, 0, 8);
	image_build_word(b, plain_bytes, 8);
	image_build_add(b, what->at, what->bytes);
	image_build_add(b, NULL, padded - what->bytes);
	all = b->bytes - 16;
	memcpy(b->at + 8, &all, sizeof(all));
}
