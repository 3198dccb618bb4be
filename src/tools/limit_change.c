#include "tools/limit_change.h"

#include "shm/pace_call.h"
#include "shm/region.h"
#include "shm/spec.h"
#include "tools/region_write.h"
#include "tools/tools_common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SOURCE "ration limit"

/* Where a complaint goes. */
struct complaint {
	char *text;
	size_t bytes;
};

/* True when an item of `spec` is for `who` as it stands there. */
static bool has_item(enum limits_kind kind, const char *spec, const char *who)
{
	struct limits_item item;
	int rc;

	while ((rc = limits_next(kind, &spec, LIMITS_ZERO_IS_NONE, &item, NULL)) != 0)
		if (rc > 0 && !strcmp(item.who, who))
			return true;
	return false;
}

/* True when `item` names one of the tenant's devices, or what the limits before named. */
static bool is_known(enum limits_kind kind, const struct limits_item *item, const struct view *view)
{
	if (has_item(kind, view_spec(view, kind), item->who))
		return true;
	for (int d = 0; d < view->device_count; d++)
		if (limits_names(item->who, d, view->devices[d].uuid))
			return true;
	return !item->who[0];
}

static int complain_unknown(enum limits_kind kind, const char *who, const struct view *view,
			    struct complaint *err)
{
	char uuid[HAMI_UUID_BYTES];
	size_t n = (size_t)snprintf(err->text, err->bytes,
				    "%s: the tenant has no device '%s'; it has",
				    tools_limit_option(kind), who);

	for (int d = 0; d < view->device_count && n < err->bytes; d++)
		n += (size_t)snprintf(err->text + n, err->bytes - n, "%s %d (%s)", d ? "," : "", d,
				      tools_printable(view->devices[d].uuid, uuid, sizeof(uuid)));
	return -EINVAL;
}

/* Every item of `spec` must name a device of the tenant, if that is known yet. */
static int check_devices(enum limits_kind kind, const char *spec, const struct view *view,
			 struct complaint *err)
{
	struct limits_item item;

	for (const char *at = spec; limits_next(kind, &at, LIMITS_ZERO_IS_ERROR, &item, NULL) > 0;)
		if (view->device_count && !is_known(kind, &item, view))
			return complain_unknown(kind, item.who, view, err);
	return 0;
}

static int complain_lifted(enum limits_kind kind, const char *what, uint64_t amount,
			   struct complaint *err)
{
	char text[32];

	snprintf(err->text, err->bytes,
		 "%s: this would lift the limit of %s, now %s; give it one too%s",
		 tools_limit_option(kind), what, limits_format(kind, amount, text, sizeof(text)),
		 kind == LIMITS_SM ? ", 100 for none" : "");
	return -EINVAL;
}

/* Fills in old and new limits. A device that is not named any more is an oversight: -EINVAL. */
static int compare(enum limits_kind kind, const char *spec, struct limit_change *change,
		   struct complaint *err)
{
	const struct view *view = &change->before;
	char what[32];

	for (int d = 0; d < view->device_count; d++) {
		struct limit_change_device *dev = &change->devices[d];
		uint64_t named = limits_for_device(kind, spec, d, view->devices[d].uuid);

		dev->old[kind] = view_limit(view, kind, d);
		dev->new[kind] = limits_effective(kind, named);
		snprintf(what, sizeof(what), "device %d", d);
		if (dev->old[kind] && !named)
			return complain_lifted(kind, what, dev->old[kind], err);
	}
	return 0;
}

/* The text of the item of `spec` that is for all devices; "" = none. */
static void copy_general(enum limits_kind kind, const char *spec, char *out, size_t out_bytes)
{
	const char *start = spec, *at = spec;
	struct limits_item item;
	int rc;

	*out = '\0';
	for (; (rc = limits_next(kind, &at, LIMITS_ZERO_IS_NONE, &item, NULL)) != 0; start = at)
		if (rc > 0 && !item.who[0])
			snprintf(out, out_bytes, "%.*s", (int)strcspn(start, ","), start);
}

/*
 * The text to be stored. Devices may turn up that no process has used yet: the limit of all goes on to
 * hold for them, and one that the limits before named must have been named again.
 */
static int complete(enum limits_kind kind, const char *spec, struct limit_change *change,
		    struct complaint *err)
{
	const struct view *view = &change->before;
	const char *old = view_spec(view, kind);
	char general[RATION_SPEC_BYTES] = "", what[128];
	uint64_t amount = limits_effective(kind, limits_for_device(kind, old, -1, NULL));
	bool is_general = limits_for_device(kind, spec, -1, NULL) != 0;
	struct limits_item item;
	int n;

	if (!is_general && amount) {
		copy_general(kind, old, general, sizeof(general));
		change->kept[kind] = amount;
	}
	while (!is_general && !amount &&
	       limits_next(kind, &old, LIMITS_ZERO_IS_NONE, &item, NULL) > 0) {
		bool is_here = false;

		for (int d = 0; d < view->device_count; d++)
			is_here |= limits_names(item.who, d, view->devices[d].uuid);
		snprintf(what, sizeof(what), "device %s", item.who);
		if (!is_here && limits_effective(kind, item.amount) &&
		    !has_item(kind, spec, item.who))
			return complain_lifted(kind, what, item.amount, err);
	}
	n = snprintf(change->specs[kind], RATION_SPEC_BYTES, "%s%s%s", spec, *general ? "," : "",
		     general);
	if (n < RATION_SPEC_BYTES)
		return 0;
	snprintf(err->text, err->bytes, "%s: too many limits; at most %d characters",
		 tools_limit_option(kind), RATION_SPEC_BYTES - 1);
	return -EINVAL;
}

/* A device's limit is one word, so that who reads it sees the old or the new one. */
static void store_words(struct hami_region *hami, struct ration_region *own, enum limits_kind kind,
			const struct limit_change *change)
{
	for (int d = 0; d < change->before.device_count; d++) {
		uint64_t amount = change->devices[d].new[kind];

		if (kind == LIMITS_MEM)
			region_set_limit(hami, own, d, amount);
		else
			region_set_sm_limit(hami, own, d, amount);
	}
	/* A limit that is given here holds, as RATION_SM does. */
	if (kind == LIMITS_SM)
		__atomic_store_n(&own->sm_policy, SM_POLICY_FORCE, __ATOMIC_RELAXED);
}

/*
 * Stores texts and limits. Who finds a word cleared reads the text, or while that changes what it
 * was.
 */
static int store(int fd, const struct limit_change *change)
{
	char *map = mmap(NULL, RATION_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct hami_region *hami;
	struct ration_region *own;

	if (map == MAP_FAILED)
		return -errno;
	hami = (struct hami_region *)map;
	own = (struct ration_region *)(map + RATION_OFFSET);
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++) {
		if (!*change->specs[kind])
			continue;
		spec_begin(own, kind);
		store_words(hami, own, kind, change);
		spec_end(own, kind, change->specs[kind], SOURCE);
	}
	/* From here on every process of the tenant reads the new limits; who is held looks again. */
	for (int d = 0; d < RATION_DEVICES; d++)
		pace_call(&own->pace[d]);
	munmap(map, RATION_FILE_BYTES);
	return 0;
}

/* The creation lock is held, and the file was looked at. */
static int change_locked(int fd, const char *const specs[LIMITS_KINDS], struct limit_change *change,
			 struct complaint *err)
{
	int rc = 0;

	for (enum limits_kind kind = 0; rc == 0 && kind < LIMITS_KINDS; kind++) {
		if (!specs[kind])
			continue;
		rc = check_devices(kind, specs[kind], &change->before, err);
		if (rc == 0)
			rc = compare(kind, specs[kind], change, err);
		if (rc == 0)
			rc = complete(kind, specs[kind], change, err);
	}
	if (rc == 0) {
		rc = store(fd, change);
		if (rc < 0)
			snprintf(err->text, err->bytes, "the file cannot be mapped (%s)",
				 strerror(-rc));
	}
	return rc;
}

int limit_change_make(const char *path, const char *const specs[LIMITS_KINDS],
		      struct limit_change *out, char *out_error, size_t error_bytes)
{
	struct complaint err = { out_error, error_bytes };
	int fd, rc;

	memset(out, 0, sizeof(*out));
	fd = region_write_open(path, &out->before, out_error, error_bytes);
	if (fd < 0)
		return fd;
	rc = change_locked(fd, specs, out, &err);
	if (rc < 0)
		view_free(&out->before);
	close(fd);
	return rc;
}

void limit_change_free(struct limit_change *change)
{
	view_free(&change->before);
}
