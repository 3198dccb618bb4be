#include "drv/symbol.h"

#include "check.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

/* libc's own symbol; dlopen and dlsym are in libdl.so.2 before glibc 2.34. */
static void *libc_symbol(const char *name)
{
	static const char *const sonames[] = { "libc.so.6", "libdl.so.2" };
	void *found = NULL;

	for (int i = 0; i < 2 && !found; i++) {
		void *handle = dlopen(sonames[i], RTLD_LAZY | RTLD_NOLOAD);

		found = handle ? dlsym(handle, name) : NULL;
	}
	return found;
}

static void test_libcs_own_are_found(void **state)
{
	(void)state;
	assert_non_null(symbol_real_dlsym());
	assert_ptr_equal(symbol_real_dlsym(), libc_symbol("dlsym"));
	assert_ptr_equal(symbol_real_dlopen(), libc_symbol("dlopen"));
	/* The second time from what was found. */
	assert_ptr_equal(symbol_real_dlsym(), libc_symbol("dlsym"));
}

static void test_the_error_is_cleared(void **state)
{
	(void)state;
	symbol_real_dlsym();
	assert_null(dlsym(RTLD_DEFAULT, "no such symbol"));
	symbol_clear_error();
	assert_null(dlerror());
}

static void test_names_are_compared_whole(void **state)
{
	(void)state;
	assert_true(symbol_equal("", ""));
	assert_true(symbol_equal("cuInit", "cuInit"));
	assert_false(symbol_equal("cuInit", "cuIni"));
	assert_false(symbol_equal("cuIni", "cuInit"));
	assert_false(symbol_equal("cuInit", "cuInis"));
	assert_false(symbol_equal("", "c"));
}

struct range {
	uintptr_t within, low, high;
};

/* The range of the object that has an address, as the loader tells it. */
static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct range *r = arg;
	uintptr_t low = UINTPTR_MAX, high = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		low = from < low ? from : low;
		high = from + ph->p_memsz > high ? from + ph->p_memsz : high;
	}
	if (r->within < low || r->within >= high)
		return 0;
	r->low = low;
	r->high = high;
	return 1;
}

static void test_the_range_of_an_object(void **state)
{
	void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	struct range r = { .within = (uintptr_t)dlsym(handle, "qsort") };
	uintptr_t low, high;

	(void)state;
	assert_non_null(handle);
	assert_int_equal(dl_iterate_phdr(visit, &r), 1);
	symbol_range(handle, &low, &high);
	assert_int_equal(low, r.low);
	assert_int_equal(high, r.high);
	dlclose(handle);
}

static void *find_in_thread(void *arg)
{
	(void)arg;
	return (void *)symbol_real_dlsym();
}

static void test_threads_find_the_same(void **state)
{
	pthread_t threads[4];
	void *found;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, find_in_thread, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &found);
		assert_ptr_equal(found, libc_symbol("dlsym"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_find_the_same),
		cmocka_unit_test(test_libcs_own_are_found),
		cmocka_unit_test(test_the_error_is_cleared),
		cmocka_unit_test(test_names_are_compared_whole),
		cmocka_unit_test(test_the_range_of_an_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
