#include "hook/lookup.h"

#include "drv/symbol.h"

#include <string.h>

/* In the order of real_rows: both come from the same tables. */
static void *const hooks[] = {
#define HOOK(sym) (void *)hook_##sym,
#define USE(sym) NULL,
#include "abi/cuda.def"
#include "abi/nvml.def"
#undef HOOK
#undef USE
};

/* As strcmp(). */
SYMBOL_EARLY static int order(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (unsigned char)*a - (unsigned char)*b;
}

SYMBOL_EARLY const struct real_row *lookup_name(const char *name)
{
	/* Both tables ascend, and so do they one behind the other. */
	for (size_t low = 0, high = real_row_count; low < high;) {
		size_t middle = low + (high - low) / 2;
		int sign = order(name, real_rows[middle].name);

		if (sign == 0)
			return &real_rows[middle];
		if (sign < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

SYMBOL_EARLY void *lookup_hook(const struct real_row *row)
{
	return hooks[row - real_rows];
}

static bool in_family(const char *row, const char *asked)
{
	size_t n = strlen(asked);

	if (!strncmp(row, asked, n) && (row[n] == '\0' || row[n] == '_'))
		return true;
	/* The one name whose later form is no suffix: cuda.h renames it so from CUDA 12 on. */
	return !strcmp(asked, "cuGraphInstantiate") && !strcmp(row, "cuGraphInstantiateWithFlags");
}

void *lookup_pointer(const char *asked, const void *driver_pointer)
{
	for (size_t i = 0; i < real_row_count; i++)
		if (hooks[i] && real_pointer(&real_rows[i]) == driver_pointer &&
		    in_family(real_rows[i].name, asked))
			return hooks[i];
	return NULL;
}
