#include "tools/doctor_limits.h"

#include "tools/doctor_report.h"
#include "tools/doctor_variables.h"
#include "tools/tools_common.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "limit"

/* Whoever may name another file than the operator's limits were meant for has them once more. */
static void note_region(const struct conf *conf)
{
	if ((conf->is_limited_by_file[LIMITS_MEM] || conf->is_limited_by_file[LIMITS_SM]) &&
	    !conf_is_from_file(conf, conf_name(CONF_RATION_REGION)) &&
	    !conf_is_from_file(conf, conf_name(CONF_CUDA_DEVICE_MEMORY_SHARED_CACHE)))
		doctor_report(
			DOCTOR_NOTE, "configuration",
			CONF_FILE
			" sets limits and names no region: each region that a program chooses has "
			"them once more; set RATION_REGION there to have one");
}

void doctor_limits_variables(const struct conf *conf)
{
	bool is_right = doctor_variables_report(conf);

	if (conf->error[0])
		doctor_report(DOCTOR_FAIL, "configuration", "%s", conf->error);
	else if (is_right)
		doctor_report(DOCTOR_OK, "configuration", "all that is set is understood");
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++) {
		const char *ours = conf_name(conf_ours(kind));

		if (conf->is_limited_by_file[kind] && getenv(ours) &&
		    !conf_is_from_file(conf, ours))
			doctor_report(DOCTOR_WARN, "configuration",
				      "%s is set, but " CONF_FILE
				      " sets the limits here and goes before it",
				      ours);
	}
	note_region(conf);
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

static bool is_source(const struct conf *conf, enum limits_kind kind, const char *name, int index,
		      const char *uuid, char *out, size_t out_bytes)
{
	static struct conf part;
	const char *spec = conf_spec(&part, kind);

	if (!conf_value(conf, name))
		return false;
	only.conf = conf;
	only.name = name;
	if (conf_load(&part, "/nonexistent", getenv_only) < 0 ||
	    !limits_mentions(kind, spec, index, uuid) ||
	    limits_for_device(kind, spec, index, uuid) !=
		    limits_for_device(kind, conf_spec(conf, kind), index, uuid))
		return false;
	snprintf(out, out_bytes, "%s%s", name,
		 conf_is_from_file(conf, name) ? " in " CONF_FILE : "");
	return true;
}

/* The variable that gives this device its limit: the one of its own before the general one. */
static void source_of(const struct conf *conf, enum limits_kind kind, int index, const char *uuid,
		      char *out, size_t out_bytes)
{
	const char *general = conf_name(conf_schedulers(kind));
	char name[64];

	snprintf(out, out_bytes, "%s", conf_source(conf, kind));
	if (strncmp(conf_source(conf, kind), "CUDA_", 5))
		return;
	for (int i = 0; i < DEVICE_LIST_MAX; i++) {
		snprintf(name, sizeof(name), "%s_%d", general, i);
		if (is_source(conf, kind, name, index, uuid, out, out_bytes))
			return;
	}
	is_source(conf, kind, general, index, uuid, out, out_bytes);
}

/* The index by which nvidia-smi knows the device; -1 where NVML does not say. */
static int index_of(const struct device_list *devices, const char *uuid)
{
	for (int i = 0; i < devices->count; i++)
		if (!strcmp(devices->entries[i].uuid, uuid))
			return devices->entries[i].is_mig ? -1 : devices->entries[i].index;
	return -1;
}

/* What a line says is limited, where it is not memory. */
static const char *subject(enum limits_kind kind)
{
	return kind == LIMITS_SM ? "GPU time " : "";
}

static const char *amount_or_none(enum limits_kind kind, uint64_t amount, char *buf,
				  size_t buf_bytes)
{
	if (amount == 0)
		snprintf(buf, buf_bytes, "no limit");
	else
		limits_format(kind, amount, buf, buf_bytes);
	return buf;
}

/* A limit of GPU time that is set and does not hold surprises whoever set it. */
static void report_policy(enum sm_policy policy, bool is_held, const char *device)
{
	if (policy == SM_POLICY_DISABLE)
		doctor_report(
			DOCTOR_WARN, TOPIC,
			"%s: GPU_CORE_UTILIZATION_POLICY is disable, so the limit of GPU time "
			"does not hold",
			device);
	else if (!is_held)
		doctor_report(DOCTOR_WARN, TOPIC,
			      "%s: the scheduler's monitor has switched the limit of GPU time off; "
			      "it holds when the monitor wants it, or always with "
			      "GPU_CORE_UTILIZATION_POLICY=force",
			      device);
	else if (policy == SM_POLICY_DEFAULT)
		doctor_report(DOCTOR_NOTE, TOPIC,
			      "%s: a scheduler's monitor may switch the limit of GPU time off; it "
			      "holds always with GPU_CORE_UTILIZATION_POLICY=force",
			      device);
}

/* True when the limits came from a variable that is not set any more, and no other is. */
static bool is_left_over(const struct view *view, enum limits_kind kind, const struct conf *conf)
{
	const char *source = view_source(view, kind);

	return !*conf_spec(conf, kind) && !conf_value(conf, source) &&
	       (!strncmp(source, "CUDA_", 5) || !strncmp(source, "RATION_", 7));
}

static uint64_t effective_of(enum limits_kind kind, const char *spec, int index, const char *uuid)
{
	return limits_effective(kind, limits_for_device(kind, spec, index, uuid));
}

/* The three limits of a device: in force, as the tenant began with, as configured here. */
struct amounts {
	uint64_t held, first, now;
};

/* Where the limit in force came from, as it follows the amount: ", from ..." or "". */
static void write_origin(const struct view *view, enum limits_kind kind, int index,
			 const char *uuid, const struct amounts *amounts, const struct conf *conf,
			 char *out, size_t out_bytes)
{
	char source[RATION_SOURCE_BYTES], printable[RATION_SOURCE_BYTES];
	bool is_kept = false;

	if (amounts->held != amounts->first) {
		snprintf(source, sizeof(source), "the region, where it was changed");
	} else if (!strcmp(view_source(view, kind), conf_source(conf, kind)) &&
		   amounts->now == amounts->first) {
		source_of(conf, kind, index, uuid, source, sizeof(source));
	} else {
		snprintf(source, sizeof(source), "%s", view_source(view, kind));
		is_kept = is_left_over(view, kind, conf);
	}
	*out = '\0';
	if (*source && (amounts->held || amounts->first))
		snprintf(out, out_bytes, "%s%s%s",
			 is_kept ? ", kept from an earlier process of this file (" : ", from ",
			 tools_printable(source, printable, sizeof(printable)), is_kept ? ")" : "");
}

static void report_row(const struct view *view, const char *path, enum limits_kind kind, int d,
		       const struct conf *conf, const struct device_list *devices)
{
	const struct view_device *dev = &view->devices[d];
	char device[HAMI_UUID_BYTES + 32], uuid[HAMI_UUID_BYTES], text[32];
	char origin[RATION_SOURCE_BYTES + 64];
	int index = index_of(devices, dev->uuid);
	const struct amounts amounts = {
		.held = view_limit(view, kind, d),
		.first = effective_of(kind, view_spec(view, kind), index, dev->uuid),
		.now = effective_of(kind, conf_spec(conf, kind), index, dev->uuid),
	};

	snprintf(device, sizeof(device), "device %d %s", d,
		 tools_printable(dev->uuid, uuid, sizeof(uuid)));
	write_origin(view, kind, index, dev->uuid, &amounts, conf, origin, sizeof(origin));
	doctor_report(DOCTOR_OK, TOPIC, "%s: %s%s%s", device, subject(kind),
		      amount_or_none(kind, amounts.held, text, sizeof(text)), origin);
	if (kind == LIMITS_SM && amounts.held)
		report_policy(view->sm_policy, view->is_sm_held, device);
	if (*conf_spec(conf, kind) && amounts.now != amounts.held)
		doctor_report(
			DOCTOR_WARN, TOPIC,
			"%s: %s says %s, but the region %s holds until its last process has ended",
			device, conf_source(conf, kind),
			amount_or_none(kind, amounts.now, text, sizeof(text)), path);
}

/* Whether there is anything to say of a kind's limits here: memory always. */
static bool is_spoken_of(const struct view *view, enum limits_kind kind, const struct conf *conf)
{
	bool is_limited = kind == LIMITS_MEM || *conf_spec(conf, kind);

	if (view)
		is_limited = is_limited || *view_spec(view, kind);
	for (int d = 0; view && d < view->device_count; d++)
		is_limited = is_limited || view_limit(view, kind, d);
	return is_limited;
}

void doctor_limits_of_region(enum limits_kind kind, const struct view *view, const char *path,
			     const struct conf *conf, const struct device_list *devices)
{
	if (!is_spoken_of(view, kind, conf))
		return;
	for (int d = 0; d < view->device_count; d++)
		report_row(view, path, kind, d, conf, devices);
}

static void report_configured(enum limits_kind kind, const struct conf *conf,
			      const struct device_list_entry *e)
{
	char device[RATION_UUID_BYTES + 32], text[32], source[RATION_SOURCE_BYTES];
	int index = e->is_mig ? -1 : e->index;
	uint64_t amount = effective_of(kind, conf_spec(conf, kind), index, e->uuid);

	snprintf(device, sizeof(device), "device %d %s", e->index, e->uuid);
	source_of(conf, kind, index, e->uuid, source, sizeof(source));
	doctor_report(DOCTOR_OK, TOPIC, "%s: %s%s%s%s", device, subject(kind),
		      amount_or_none(kind, amount, text, sizeof(text)), amount ? ", from " : "",
		      amount ? source : "");
	if (kind == LIMITS_SM && amount)
		report_policy(conf->sm_policy, true, device);
}

void doctor_limits_of_conf(enum limits_kind kind, const struct conf *conf,
			   const struct device_list *devices)
{
	const char *spec = conf_spec(conf, kind);

	if (!is_spoken_of(NULL, kind, conf))
		return;
	if (devices->count == 0 && *spec)
		doctor_report(DOCTOR_NOTE, TOPIC, "%s%s, from %s; there is no device to hold it on",
			      subject(kind), spec, conf_source(conf, kind));
	for (int i = 0; i < devices->count; i++)
		report_configured(kind, conf, &devices->entries[i]);
}
