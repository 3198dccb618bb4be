#include "tools/doctor_limits.h"

#include "base/units.h"
#include "tools/doctor_report.h"
#include "tools/tools_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "limit"

/* Variables of the command's own, which conf.def does not list. */
static const char *const own_variables[] = { "RATION_DIR", "RATION_LIB", "RATION_SIM",
					     "RATION_SIM_FILE" };

static bool is_known(const char *name)
{
	for (int i = 0; i < CONF_COUNT; i++)
		if (!strcmp(name, conf_name((enum conf_var)i)))
			return true;
	for (size_t i = 0; i < sizeof(own_variables) / sizeof(*own_variables); i++)
		if (!strcmp(name, own_variables[i]))
			return true;
	return false;
}

void doctor_limits_variables(const struct conf *conf)
{
	char name[128], text[128];

	for (char **e = environ; *e; e++) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		if (!strncmp(name, "RATION_", 7) && !is_known(name))
			doctor_report(
				DOCTOR_WARN, "configuration",
				"%s is set, but there is no such variable; ration(7) lists them",
				tools_printable(name, text, sizeof(text)));
	}
	if (conf->error[0])
		doctor_report(DOCTOR_FAIL, "configuration", "%s", conf->error);
	else
		doctor_report(DOCTOR_OK, "configuration", "all that is set is understood");
	if (conf->is_limited_by_file[LIMITS_MEM] && getenv(conf_name(CONF_RATION_MEM)) &&
	    !conf_is_from_file(conf, conf_name(CONF_RATION_MEM)))
		doctor_report(DOCTOR_WARN, "configuration",
			      "RATION_MEM is set, but " CONF_FILE
			      " sets the limits here and goes before it");
	if (conf->disabled)
		doctor_report(
			DOCTOR_WARN, "configuration",
			"CUDA_DISABLE_CONTROL switches the library off; unset it to have limits");
}

/* What source_of() lets conf_load() see: one variable of one configuration. */
static struct {
	const struct conf *conf;
	const char *name;
} only;

static const char *getenv_only(const char *name)
{
	if (!strcmp(name, only.name) || !strcmp(name, conf_name(CONF_NVIDIA_VISIBLE_DEVICES)))
		return conf_value(only.conf, name);
	return NULL;
}

static bool is_source(const struct conf *conf, const char *name, int index, const char *uuid,
		      char *out, size_t out_bytes)
{
	static struct conf part;

	if (!conf_value(conf, name))
		return false;
	only.conf = conf;
	only.name = name;
	if (conf_load(&part, "/nonexistent", getenv_only) < 0 ||
	    !limits_mentions(LIMITS_MEM, part.mem_spec, index, uuid) ||
	    limits_for_device(LIMITS_MEM, part.mem_spec, index, uuid) !=
		    limits_for_device(LIMITS_MEM, conf->mem_spec, index, uuid))
		return false;
	snprintf(out, out_bytes, "%s%s", name,
		 conf_is_from_file(conf, name) ? " in " CONF_FILE : "");
	return true;
}

/* The variable that gives this device its limit: the one of its own before the general one. */
static void source_of(const struct conf *conf, int index, const char *uuid, char *out,
		      size_t out_bytes)
{
	char name[64];

	snprintf(out, out_bytes, "%s", conf->mem_source);
	if (strncmp(conf->mem_source, "CUDA_", 5))
		return;
	for (int i = 0; i < DEVICE_LIST_MAX; i++) {
		snprintf(name, sizeof(name), "%s_%d", conf_name(CONF_CUDA_DEVICE_MEMORY_LIMIT), i);
		if (is_source(conf, name, index, uuid, out, out_bytes))
			return;
	}
	is_source(conf, conf_name(CONF_CUDA_DEVICE_MEMORY_LIMIT), index, uuid, out, out_bytes);
}

/* The index by which nvidia-smi knows the device; -1 where NVML does not say. */
static int index_of(const struct device_list *devices, const char *uuid)
{
	for (int i = 0; i < devices->count; i++)
		if (!strcmp(devices->entries[i].uuid, uuid))
			return devices->entries[i].is_mig ? -1 : devices->entries[i].index;
	return -1;
}

static const char *size_or_none(uint64_t bytes, char *buf, size_t buf_bytes)
{
	if (bytes == 0)
		snprintf(buf, buf_bytes, "no limit");
	else
		units_format_size(bytes, buf, buf_bytes);
	return buf;
}

static void report_row(const struct view *view, const char *path, int d, const struct conf *conf,
		       const struct device_list *devices)
{
	const struct view_device *dev = &view->devices[d];
	char uuid[HAMI_UUID_BYTES], limit[32], configured[32], source[RATION_SOURCE_BYTES] = "";
	char printable[RATION_SOURCE_BYTES];
	int index = index_of(devices, dev->uuid);
	uint64_t first = limits_for_device(LIMITS_MEM, view->mem_spec, index, dev->uuid);
	bool has_source;
	uint64_t now = limits_for_device(LIMITS_MEM, conf->mem_spec, index, dev->uuid);

	tools_printable(dev->uuid, uuid, sizeof(uuid));
	size_or_none(dev->limit_bytes, limit, sizeof(limit));
	size_or_none(now, configured, sizeof(configured));
	if (dev->limit_bytes != first)
		snprintf(source, sizeof(source), "the region, where it was changed");
	else if (!strcmp(view->mem_source, conf->mem_source) && now == first)
		source_of(conf, index, dev->uuid, source, sizeof(source));
	else
		snprintf(source, sizeof(source), "%s", view->mem_source);
	has_source = *source && (dev->limit_bytes || first);
	doctor_report(DOCTOR_OK, TOPIC, "device %d %s: %s%s%s", d, uuid, limit,
		      has_source ? ", from " : "",
		      tools_printable(has_source ? source : "", printable, sizeof(printable)));
	if (*conf->mem_spec && now != dev->limit_bytes)
		doctor_report(
			DOCTOR_WARN, TOPIC,
			"device %d %s: %s says %s, but the region %s holds until its last process "
			"has ended",
			d, uuid, conf->mem_source, configured, path);
}

void doctor_limits_of_region(const struct view *view, const char *path, const struct conf *conf,
			     const struct device_list *devices)
{
	for (int d = 0; d < view->device_count; d++)
		report_row(view, path, d, conf, devices);
}

void doctor_limits_of_conf(const struct conf *conf, const struct device_list *devices)
{
	char limit[32], source[RATION_SOURCE_BYTES];

	if (devices->count == 0 && *conf->mem_spec)
		doctor_report(DOCTOR_NOTE, TOPIC, "%s, from %s; there is no device to hold it on",
			      conf->mem_spec, conf->mem_source);
	for (int i = 0; i < devices->count; i++) {
		const struct device_list_entry *e = &devices->entries[i];
		int index = e->is_mig ? -1 : e->index;
		uint64_t bytes = limits_for_device(LIMITS_MEM, conf->mem_spec, index, e->uuid);

		source_of(conf, index, e->uuid, source, sizeof(source));
		doctor_report(DOCTOR_OK, TOPIC, "device %d %s: %s%s%s", e->index, e->uuid,
			      size_or_none(bytes, limit, sizeof(limit)), bytes ? ", from " : "",
			      bytes ? source : "");
	}
}
