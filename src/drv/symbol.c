#include "drv/symbol.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

/* Weak: a program on musl has neither, and must start all the same. */
extern struct r_debug _r_debug __attribute__((weak));
extern __typeof__(dl_iterate_phdr) dl_iterate_phdr __attribute__((weak));

typedef char *symbol_dlerror(void);

/* The same values whoever stores them; each is read with acquire. Kept over fork. */
static struct {
	symbol_dlsym *dlsym;
	symbol_dlopen *dlopen;
	symbol_dlerror *dlerror;
} found;

struct object {
	const char *strings;
	const char *soname;
	const ElfW(Sym) *symbols;
	const uint32_t *gnu_hash;
	const uint32_t *hash;
};

SYMBOL_EARLY bool symbol_equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

SYMBOL_EARLY static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

SYMBOL_EARLY static void read_dynamic(uintptr_t base, const ElfW(Dyn) *dyn, struct object *o)
{
	uintptr_t soname = 0;

	o->strings = o->soname = NULL;
	o->symbols = NULL;
	o->gnu_hash = o->hash = NULL;
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		uintptr_t at = dyn->d_un.d_ptr;

		/* glibc has relocated these in place, musl and the vdso have not. */
		if (at < base)
			at += base;
		if (dyn->d_tag == DT_STRTAB)
			o->strings = (const char *)at;
		else if (dyn->d_tag == DT_SYMTAB)
			o->symbols = (const ElfW(Sym) *)at;
		else if (dyn->d_tag == DT_GNU_HASH)
			o->gnu_hash = (const uint32_t *)at;
		else if (dyn->d_tag == DT_HASH)
			o->hash = (const uint32_t *)at;
		else if (dyn->d_tag == DT_SONAME)
			soname = dyn->d_un.d_val;
	}
	o->soname = o->strings && soname ? o->strings + soname : "";
}

SYMBOL_EARLY static bool is_function(const struct object *o, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &o->symbols[i];

	return s->st_shndx != SHN_UNDEF && (s->st_info & 15) == STT_FUNC &&
	       symbol_equal(o->strings + s->st_name, name);
}

SYMBOL_EARLY static const ElfW(Sym) *find_gnu(const struct object *o, const char *name)
{
	uint32_t buckets = o->gnu_hash[0], first = o->gnu_hash[1], bloom = o->gnu_hash[2];
	const uint32_t *bucket = o->gnu_hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t h = gnu_hash(name), i = buckets ? bucket[h % buckets] : 0;

	if (i < first || i == 0)
		return NULL;
	for (;; i++) {
		if (((chain[i - first] ^ h) >> 1) == 0 && is_function(o, i, name))
			return &o->symbols[i];
		if (chain[i - first] & 1)
			return NULL;
	}
}

SYMBOL_EARLY static void *find(uintptr_t base, const struct object *o, const char *name)
{
	const ElfW(Sym) *s = NULL;

	if (!o->strings || !o->symbols)
		return NULL;
	if (o->gnu_hash)
		s = find_gnu(o, name);
	else if (o->hash)
		for (uint32_t i = 1; i < o->hash[1] && !s; i++)
			if (is_function(o, i, name))
				s = &o->symbols[i];
	return s ? (void *)(base + s->st_value) : NULL;
}

struct wanted {
	void *dlsym, *dlopen, *dlerror;
};

SYMBOL_EARLY static void look(uintptr_t base, const struct object *o, struct wanted *w)
{
	if (!w->dlsym)
		w->dlsym = find(base, o, "dlsym");
	if (!w->dlopen)
		w->dlopen = find(base, o, "dlopen");
	if (!w->dlerror)
		w->dlerror = find(base, o, "dlerror");
}

SYMBOL_EARLY static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wanted *w = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Dyn) *dyn;
		struct object o;

		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		dyn = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		if (dyn == _DYNAMIC)
			return 0;
		read_dynamic(info->dlpi_addr, dyn, &o);
		look(info->dlpi_addr, &o, w);
	}
	return w->dlsym && w->dlopen;
}

SYMBOL_EARLY static void find_all(void)
{
	struct wanted w = { NULL, NULL, NULL };

	if (__atomic_load_n(&found.dlsym, __ATOMIC_ACQUIRE))
		return;
	if (&_r_debug) {
		for (struct link_map *l = _r_debug.r_map; l && !(w.dlsym && w.dlopen);
		     l = l->l_next) {
			struct object o;

			read_dynamic(l->l_addr, l->l_ld, &o);
			if (symbol_equal(o.soname, "libc.so.6") ||
			    symbol_equal(o.soname, "libdl.so.2"))
				look(l->l_addr, &o, &w);
		}
	}
	if (!w.dlsym && dl_iterate_phdr)
		dl_iterate_phdr(visit, &w);
	__atomic_store_n(&found.dlopen, (symbol_dlopen *)w.dlopen, __ATOMIC_RELAXED);
	__atomic_store_n(&found.dlerror, (symbol_dlerror *)w.dlerror, __ATOMIC_RELAXED);
	/* Read with acquire above: who sees dlsym sees the other two. */
	__atomic_store_n(&found.dlsym, (symbol_dlsym *)w.dlsym, __ATOMIC_RELEASE);
}

SYMBOL_EARLY symbol_dlsym *symbol_real_dlsym(void)
{
	find_all();
	return __atomic_load_n(&found.dlsym, __ATOMIC_ACQUIRE);
}

SYMBOL_EARLY symbol_dlopen *symbol_real_dlopen(void)
{
	find_all();
	return __atomic_load_n(&found.dlopen, __ATOMIC_ACQUIRE);
}

SYMBOL_EARLY void symbol_clear_error(void)
{
	symbol_dlerror *clear = __atomic_load_n(&found.dlerror, __ATOMIC_ACQUIRE);

	if (clear)
		clear();
}

SYMBOL_EARLY void symbol_range(void *handle, uintptr_t *out_low, uintptr_t *out_high)
{
	/* A glibc handle is its link map; the ELF header is mapped at the object's base. */
	const struct link_map *map = handle;
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)map->l_addr;
	const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(map->l_addr + header->e_phoff);
	uintptr_t low = UINTPTR_MAX, high = 0;

	for (int i = 0; i < header->e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		if (ph[i].p_vaddr < low)
			low = ph[i].p_vaddr;
		if (ph[i].p_vaddr + ph[i].p_memsz > high)
			high = ph[i].p_vaddr + ph[i].p_memsz;
	}
	*out_low = map->l_addr + low;
	*out_high = map->l_addr + high;
}
