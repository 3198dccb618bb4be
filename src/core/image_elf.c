#include "core/image_elf.h"

#include "base/bytes.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* EM_CUDA of newer <elf.h>; of a symbol's st_other, that it is a managed variable. */
enum { MACHINE_CUDA = 190, SYMBOL_MANAGED = 4, NAME_BYTES = 24 };

static bool has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Shared and local memory have sections too, which take none of the device's. */
static void add(struct image_bytes *sum, const char *name, uint64_t bytes)
{
	if (has_prefix(name, ".nv.global") || has_prefix(name, ".nv.constant"))
		sum->variable_bytes = bytes_sum(sum->variable_bytes, bytes);
	else if (has_prefix(name, ".text"))
		sum->code_bytes = bytes_sum(sum->code_bytes, bytes);
}

/*
 * The beginning of a name in a table of names; names are as long as they like. However long the
 * table says it is: nobody needs to look. False where there is none.
 */
static bool read_name(const struct image_source *s, const Elf64_Shdr *names, uint32_t at,
		      char out[NAME_BYTES])
{
	uint64_t from = bytes_sum(names->sh_offset, at);

	memset(out, 0, NAME_BYTES);
	if (image_source_copy(s, from, out, NAME_BYTES - 1))
		return true;
	for (unsigned i = 0; i < NAME_BYTES - 1; i++)
		if (!image_source_copy(s, bytes_sum(from, i), &out[i], 1) || !out[i])
			return i > 0;
	return true;
}

static bool read_section(const struct image_source *s, const Elf64_Ehdr *h, unsigned i,
			 Elf64_Shdr *out)
{
	return image_source_copy(s, bytes_sum(h->e_shoff, (uint64_t)i * sizeof(*out)), out,
				 sizeof(*out));
}

/* What the functions call that are elsewhere: those without a place. */
static unsigned call_of(const struct image_source *s, const Elf64_Sym *symbol,
			const Elf64_Shdr *names)
{
	char name[NAME_BYTES];

	if (symbol->st_shndx != SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return 0;
	return read_name(s, names, symbol->st_name, name) ? image_calls_of(name) : IMAGE_CALLS_ALL;
}

static bool is_managed(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_other & SYMBOL_MANAGED;
}

/*
 * What a table of symbols says. One that cannot be read may have any calls; which of its variables
 * are managed nobody knows then, and none is.
 */
static void read_symbols(const struct image_source *s, const Elf64_Shdr *symbols,
			 const Elf64_Shdr *names, struct image_bytes *sum)
{
	uint64_t count = symbols->sh_size / sizeof(Elf64_Sym);
	char *copy = image_source_take(s, symbols->sh_offset, symbols->sh_size);

	for (uint64_t i = 0; copy && i < count; i++) {
		Elf64_Sym symbol;

		memcpy(&symbol, copy + i * sizeof(symbol), sizeof(symbol));
		sum->calls |= call_of(s, &symbol, names);
		if (is_managed(&symbol))
			sum->managed_bytes = bytes_sum(sum->managed_bytes, symbol.st_size);
	}
	sum->calls |= copy || !count ? 0 : IMAGE_CALLS_ALL;
	free(copy);
}

static bool read_header(const struct image_source *s, Elf64_Ehdr *h)
{
	return image_source_copy(s, 0, h, sizeof(*h)) && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
	       h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_machine == MACHINE_CUDA &&
	       h->e_shentsize == sizeof(Elf64_Shdr);
}

bool image_elf_read(const struct image_source *s, struct image_bytes *out)
{
	struct image_bytes sum = { 0 };
	Elf64_Shdr names, section, symbol_names;
	char name[NAME_BYTES];
	unsigned count, at;
	Elf64_Ehdr h;

	if (!read_header(s, &h))
		return false;
	count = h.e_shnum;
	at = h.e_shstrndx;
	/* More than fit into these words stand in the first section. */
	if (h.e_shoff && (count == 0 || at == SHN_XINDEX)) {
		if (!read_section(s, &h, 0, &section) || section.sh_size > UINT32_MAX)
			return false;
		count = count ? count : (unsigned)section.sh_size;
		at = at == SHN_XINDEX ? section.sh_link : at;
	}
	if (at >= count || !read_section(s, &h, at, &names))
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (!read_section(s, &h, i, &section))
			return false;
		if (section.sh_name && !read_name(s, &names, section.sh_name, name))
			strcpy(name, ".nv.global");
		if (section.sh_name)
			add(&sum, name, section.sh_size);
		if (section.sh_type != SHT_SYMTAB)
			continue;
		if (section.sh_link < count && read_section(s, &h, section.sh_link, &symbol_names))
			read_symbols(s, &section, &symbol_names, &sum);
		else
			sum.calls = IMAGE_CALLS_ALL;
	}
	/* They stand among the others. */
	sum.variable_bytes = bytes_beyond(sum.variable_bytes, sum.managed_bytes);
	*out = sum;
	return true;
}
