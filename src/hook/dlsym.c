#include "hook/dlsym.h"

#include "drv/symbol.h"
#include "hook/lookup.h"

#include <dlfcn.h>

static SYMBOL_EARLY struct dlsym_route answer(void *pointer)
{
	return (struct dlsym_route){ 1, pointer };
}

SYMBOL_EARLY struct dlsym_route dlsym_route(void *handle, const char *name, void *caller)
{
	symbol_dlsym *real_dlsym = symbol_real_dlsym();
	const struct real_row *row = NULL;
	void *hook, *driver, *p;

	if (!real_dlsym)
		return answer(NULL);
	if (name && ((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v')))
		row = lookup_name(name);
	hook = row ? lookup_hook(row) : NULL;
	if (!hook)
		return (struct dlsym_route){ 0, (void *)real_dlsym };

	driver = real_find(row->lib) ? real_pointer(row) : NULL;
	/*
	 * The driver's own lookups get the driver's own: a plain jump would find our export first.
	 */
	if (driver && real_owns(caller))
		return handle == RTLD_DEFAULT ? answer(driver) :
						(struct dlsym_route){ 0, (void *)real_dlsym };
	if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
		if (driver)
			return answer(hook);
		/*
		 * From our own code RTLD_NEXT is what the process would find if we were not there.
		 */
		return answer(real_dlsym(RTLD_NEXT, name));
	}
	p = real_dlsym(handle, name);
	if (p && p == driver)
		return answer(hook);
	if (p == hook && !driver)
		return answer(real_dlsym(RTLD_NEXT, name));
	return answer(p);
}
