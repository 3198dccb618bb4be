#include "tools/soname.h"

#include <stddef.h>
#include <stdint.h>

const char *soname_of(const struct link_map *map)
{
	const char *strings = NULL;
	uint64_t at = UINT64_MAX;

	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
		/* The linker leaves an offset here for the objects that it does not relocate. */
		if (d->d_tag == DT_STRTAB)
			strings = (const char *)(d->d_un.d_ptr < map->l_addr ?
							 d->d_un.d_ptr + map->l_addr :
							 d->d_un.d_ptr);
		else if (d->d_tag == DT_SONAME)
			at = d->d_un.d_val;
	}
	return strings && at != UINT64_MAX ? strings + at : "";
}
