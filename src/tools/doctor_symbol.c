#include "tools/doctor_symbol.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

/* What the dynamic section says, as the dynamic linker has relocated it. */
struct tables {
	const ElfW(Sym) *symbols;
	const char *strings;
	const uint32_t *gnu_hash, *hash; /* one of them tells how many symbols there are */
};

static void read_dynamic(const ElfW(Dyn) *d, struct tables *out)
{
	memset(out, 0, sizeof(*out));
	for (; d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)d->d_un.d_ptr;

		if (d->d_tag == DT_SYMTAB)
			out->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			out->strings = at;
		else if (d->d_tag == DT_GNU_HASH)
			out->gnu_hash = at;
		else if (d->d_tag == DT_HASH)
			out->hash = at;
	}
}

/* The last symbol is the end of the chain that begins last. */
static uint32_t gnu_count(const uint32_t *h)
{
	uint32_t buckets = h[0], first = h[1], bloom_words = h[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *bucket = h + 4 + bloom_words, *chain = bucket + buckets;
	uint32_t last = 0;

	for (uint32_t i = 0; i < buckets; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

void *doctor_symbol_find(void *handle, const char *name)
{
	struct link_map *map;
	struct tables t;
	uint32_t count;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
		return NULL;
	read_dynamic(map->l_ld, &t);
	if (!t.symbols || !t.strings || (!t.gnu_hash && !t.hash))
		return NULL;
	count = t.gnu_hash ? gnu_count(t.gnu_hash) : t.hash[1];
	for (uint32_t i = 0; i < count; i++) {
		const ElfW(Sym) *s = &t.symbols[i];

		if (s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
		    !strcmp(t.strings + s->st_name, name))
			return (void *)(map->l_addr + s->st_value);
	}
	return NULL;
}
