#include "tools/doctor_loaded.h"

#include "tools/doctor_report.h"
#include "tools/soname.h"

#include <dlfcn.h>
#include <string.h>

#define TOPIC "preload"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Libraries that do the same work: HAMi-core and the line of vgpu-manager. */
static bool is_foreign(const struct link_map *map, const char *name)
{
	static const char *const names[] = { "libvgpu.so", "libvgpu-control.so",
					     "libcuda-control.so" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]) || !strcmp(base_name(map->l_name), names[i]))
			return true;
	return false;
}

/* The loaded objects in the order in which the linker looks through them. */
static const struct link_map *first_map(void)
{
	struct link_map *map = NULL;
	void *self = dlopen(NULL, RTLD_LAZY);

	if (!self || dlinfo(self, RTLD_DI_LINKMAP, &map) < 0)
		return NULL;
	dlclose(self);
	return map;
}

void doctor_loaded_find(struct doctor_loaded *out)
{
	memset(out, 0, sizeof(*out));
	for (const struct link_map *map = first_map(); map; map = map->l_next) {
		const char *name = soname_of(map);

		if (!strcmp(name, "libration.so")) {
			if (out->own_count < DOCTOR_LOADED_MAX)
				out->own[out->own_count++] = map;
		} else if (is_foreign(map, name) && out->foreign_count < DOCTOR_LOADED_MAX) {
			out->foreign[out->foreign_count++] = map;
		}
	}
}

void doctor_loaded_report(const struct doctor_loaded *loaded)
{
	for (int i = 0; i < loaded->foreign_count; i++)
		doctor_report(
			DOCTOR_FAIL, TOPIC,
			"%s is loaded, another library that limits the GPU; both at once count "
			"twice: take it out of LD_PRELOAD or /etc/ld.so.preload",
			loaded->foreign[i]->l_name);
	for (int i = 1; i < loaded->own_count; i++)
		doctor_report(
			DOCTOR_WARN, TOPIC,
			"%s is a second copy of the library, which stays idle behind %s; preload "
			"only one",
			loaded->own[i]->l_name, loaded->own[0]->l_name);
}

static const struct link_map *map_of(void *function)
{
	struct link_map *map = NULL;
	Dl_info info;

	return dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

bool doctor_loaded_has(const struct doctor_loaded *loaded, void *function)
{
	return loaded->own_count > 0 && map_of(function) == loaded->own[0];
}

void *doctor_loaded_first(const char *name)
{
	for (const struct link_map *map = first_map(); map; map = map->l_next) {
		void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD), *function;

		if (!handle)
			continue;
		/* A handle answers with what the objects below it define: that does not count. */
		function = dlsym(handle, name);
		dlclose(handle);
		if (function && map_of(function) == map)
			return function;
	}
	return NULL;
}
