#include "drv/real.h"

#include "drv/symbol.h"

#include <dlfcn.h>
#include <errno.h>

struct real real;

const struct real_row real_rows[] = {
#define HOOK(sym) { #sym, offsetof(struct real, sym), REAL_CUDA },
#define USE(sym) HOOK(sym)
#include "abi/cuda.def"
#undef HOOK
#define HOOK(sym) { #sym, offsetof(struct real, sym), REAL_NVML },
#include "abi/nvml.def"
#undef HOOK
#undef USE
};
const size_t real_row_count = sizeof(real_rows) / sizeof(*real_rows);

static const char *const sonames[REAL_LIBS] = { "libcuda.so.1", "libnvidia-ml.so.1" };

/*
 * Written by whoever finds the library first; two threads store the same values. handle is stored
 * last, with release, and read with acquire.
 */
static struct {
	void *handle;
	uintptr_t low, high;
} libs[REAL_LIBS];

SYMBOL_EARLY static void **slot_of(const struct real_row *row)
{
	return (void **)((char *)&real + row->offset);
}

SYMBOL_EARLY void *real_pointer(const struct real_row *row)
{
	return __atomic_load_n(slot_of(row), __ATOMIC_RELAXED);
}

SYMBOL_EARLY static bool adopt(enum real_lib lib, void *handle)
{
	symbol_dlsym *dlsym_fn = symbol_real_dlsym();
	uintptr_t low, high;

	for (size_t i = 0; i < real_row_count; i++) {
		if (real_rows[i].lib != lib)
			continue;
		__atomic_store_n(slot_of(&real_rows[i]), dlsym_fn(handle, real_rows[i].name),
				 __ATOMIC_RELAXED);
	}
	symbol_clear_error();
	symbol_range(handle, &low, &high);
	__atomic_store_n(&libs[lib].low, low, __ATOMIC_RELAXED);
	__atomic_store_n(&libs[lib].high, high, __ATOMIC_RELAXED);
	__atomic_store_n(&libs[lib].handle, handle, __ATOMIC_RELEASE);
	return true;
}

SYMBOL_EARLY bool real_find(enum real_lib lib)
{
	symbol_dlopen *dlopen_fn;
	void *handle;

	if (__atomic_load_n(&libs[lib].handle, __ATOMIC_ACQUIRE))
		return true;
	dlopen_fn = symbol_real_dlopen();
	handle = dlopen_fn ? dlopen_fn(sonames[lib], RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (!handle) {
		symbol_clear_error();
		return false;
	}
	/* The reference that dlopen took is kept: the driver stays while we point into it. */
	return adopt(lib, handle);
}

void *real_symbol(enum real_lib lib, const char *name)
{
	symbol_dlsym *dlsym_fn = symbol_real_dlsym();
	void *p;

	if (!real_find(lib) || !dlsym_fn)
		return NULL;
	p = dlsym_fn(RTLD_DEFAULT, name);
	if (!p)
		p = dlsym_fn(libs[lib].handle, name);
	symbol_clear_error();
	return p;
}

int real_load_nvml(void)
{
	symbol_dlopen *dlopen_fn = symbol_real_dlopen();
	void *handle;

	if (real_find(REAL_NVML))
		return 0;
	handle = dlopen_fn ? dlopen_fn(sonames[REAL_NVML], RTLD_LAZY | RTLD_LOCAL) : NULL;
	if (!handle) {
		symbol_clear_error();
		return -ENOENT;
	}
	adopt(REAL_NVML, handle);
	return 0;
}

SYMBOL_EARLY bool real_owns(const void *address)
{
	uintptr_t at = (uintptr_t)address;

	for (int lib = 0; lib < REAL_LIBS; lib++)
		if (__atomic_load_n(&libs[lib].handle, __ATOMIC_ACQUIRE) &&
		    at >= __atomic_load_n(&libs[lib].low, __ATOMIC_RELAXED) &&
		    at < __atomic_load_n(&libs[lib].high, __ATOMIC_RELAXED))
			return true;
	return false;
}
