/* RATION_SIM: "key=value,key=value". Per-device values may be lists: "mem=8g/16g". */
#include "machine_file.h"

#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 4096, SLICES_MAX = 7 };

/* A value as written, not zero-terminated. */
struct text {
	const char *at;
	size_t len;
};

struct key {
	const char *name;
	/* Sets device i from `value`, or the whole machine where is_global. 0 or -EINVAL. */
	int (*set)(struct machine_config *config, unsigned i, struct text value);
	bool is_global;
	const char *right; /* what a good value looks like */
};

static int parse_number(struct text value, unsigned min, unsigned max, unsigned *out)
{
	unsigned long number = 0;

	if (!value.len || value.len > 9)
		return -EINVAL;
	for (size_t k = 0; k < value.len; k++) {
		if (!isdigit((unsigned char)value.at[k]))
			return -EINVAL;
		number = number * 10 + (unsigned long)(value.at[k] - '0');
	}
	if (number < min || number > max)
		return -EINVAL;
	*out = (unsigned)number;
	return 0;
}

static int parse_size(struct text value, uint64_t min_bytes, uint64_t *out_bytes)
{
	uint64_t bytes;

	if (units_parse_size(value.at, value.len, &bytes) != UNITS_OK || bytes < min_bytes ||
	    bytes > UINT64_C(1) << 46)
		return -EINVAL;
	*out_bytes = bytes;
	return 0;
}

static int copy_text(struct text value, char *out, size_t out_bytes)
{
	if (!value.len || value.len >= out_bytes)
		return -EINVAL;
	for (size_t k = 0; k < value.len; k++) {
		if (!isprint((unsigned char)value.at[k]))
			return -EINVAL;
	}
	memcpy(out, value.at, value.len);
	memset(out + value.len, 0, out_bytes - value.len);
	return 0;
}

static int set_count(struct machine_config *config, unsigned i, struct text value)
{
	(void)i;
	return parse_number(value, 1, MACHINE_DEVICES, &config->count);
}

/* 12.4, or as CUDA itself writes it: 12040. */
static int set_driver(struct machine_config *config, unsigned i, struct text value)
{
	struct text major = { value.at, 0 }, minor = { NULL, 0 };
	unsigned high, low = 0;

	(void)i;
	if (!parse_number(value, 11000, 13090, &high)) {
		if (high % 10 || high % 1000 > 90)
			return -EINVAL;
		config->cuda_version = high;
		return 0;
	}
	while (major.len < value.len && value.at[major.len] != '.')
		major.len++;
	if (major.len < value.len) {
		minor.at = value.at + major.len + 1;
		minor.len = value.len - major.len - 1;
		if (parse_number(minor, 0, 9, &low))
			return -EINVAL;
	}
	if (parse_number(major, 11, 13, &high))
		return -EINVAL;
	config->cuda_version = high * 1000 + low * 10;
	return 0;
}

static int set_nvml(struct machine_config *config, unsigned i, struct text value)
{
	(void)i;
	for (size_t k = 0; k < value.len; k++) {
		if (!isdigit((unsigned char)value.at[k]) && value.at[k] != '.')
			return -EINVAL;
	}
	return copy_text(value, config->driver_version, sizeof(config->driver_version));
}

static int set_pids(struct machine_config *config, unsigned i, struct text value)
{
	(void)i;
	if (value.len != 4 || (memcmp(value.at, "host", 4) && memcmp(value.at, "same", 4) &&
			       memcmp(value.at, "bare", 4)))
		return -EINVAL;
	config->has_host_pids = value.at[0] == 'h';
	config->has_bare_rows = value.at[0] == 'b';
	return 0;
}

static int set_start(struct machine_config *config, unsigned i, struct text value)
{
	(void)i;
	return parse_number(value, 0, 10000, &config->start_ms);
}

static int set_heap(struct machine_config *config, unsigned i, struct text value)
{
	(void)i;
	if (!(value.len == 3 && !memcmp(value.at, "set", 3)) &&
	    !(value.len == 6 && !memcmp(value.at, "launch", 6)))
		return -EINVAL;
	config->has_early_heap = value.len == 3;
	return 0;
}

static int set_p2p(struct machine_config *config, unsigned i, struct text value)
{
	bool is_yes = value.len == 3 && !memcmp(value.at, "yes", 3);

	(void)i;
	if (!is_yes && (value.len != 2 || memcmp(value.at, "no", 2)))
		return -EINVAL;
	config->has_no_peers = !is_yes;
	return 0;
}

static int set_mem(struct machine_config *config, unsigned i, struct text value)
{
	return parse_size(value, MIB, &config->device[i].memory_bytes);
}

static int set_reserved(struct machine_config *config, unsigned i, struct text value)
{
	return parse_size(value, 0, &config->device[i].reserved_bytes);
}

static int set_context(struct machine_config *config, unsigned i, struct text value)
{
	return parse_size(value, 0, &config->device[i].context_bytes);
}

static int set_sms(struct machine_config *config, unsigned i, struct text value)
{
	return parse_number(value, 1, 1024, &config->device[i].sms);
}

static int set_clock(struct machine_config *config, unsigned i, struct text value)
{
	return parse_number(value, 1, 100000, &config->device[i].clock_mhz);
}

static int set_memory_clock(struct machine_config *config, unsigned i, struct text value)
{
	return parse_number(value, 1, 100000, &config->device[i].memory_clock_mhz);
}

static int set_name(struct machine_config *config, unsigned i, struct text value)
{
	return copy_text(value, config->device[i].name, sizeof(config->device[i].name));
}

static int set_cc(struct machine_config *config, unsigned i, struct text value)
{
	const char *dot = memchr(value.at, '.', value.len);
	unsigned major, minor;

	if (!dot ||
	    parse_number((struct text){ value.at, (size_t)(dot - value.at) }, 1, 99, &major) ||
	    parse_number((struct text){ dot + 1, value.len - (size_t)(dot - value.at) - 1 }, 0, 9,
			 &minor))
		return -EINVAL;
	config->device[i].cc_major = major;
	config->device[i].cc_minor = minor;
	return 0;
}

static void write_uuid(struct machine_device *device)
{
	const unsigned char *b = device->uuid_bytes;

	(void)snprintf(device->uuid, sizeof(device->uuid),
		       "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		       device->slice ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6],
		       b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "GPU-" and 32 hex digits, grouped 8-4-4-4-12. */
static int set_uuid(struct machine_config *config, unsigned i, struct text value)
{
	static const char shape[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	unsigned char bytes[16] = { 0 };
	unsigned digits = 0;

	if (value.len != sizeof(shape) - 1)
		return -EINVAL;
	for (size_t k = 0; k < value.len; k++) {
		int digit = hex_digit(value.at[k]);

		if (shape[k] != 'x') {
			if (value.at[k] != shape[k])
				return -EINVAL;
			continue;
		}
		if (digit < 0)
			return -EINVAL;
		bytes[digits / 2] = (unsigned char)(bytes[digits / 2] << 4 | digit);
		digits++;
	}
	memcpy(config->device[i].uuid_bytes, bytes, sizeof(bytes));
	write_uuid(&config->device[i]);
	return 0;
}

/* FNV-1a over the seed, then one mixed word per question: the same seed gives the same identities
 * on every machine. */
static uint64_t seeded(struct text seed, uint64_t question)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t k = 0; k < seed.len; k++)
		hash = (hash ^ (unsigned char)seed.at[k]) * UINT64_C(0x100000001b3);
	hash += question * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
	return hash ^ hash >> 31;
}

static void seed_device(struct machine_device *device, unsigned i, struct text seed)
{
	uint64_t words[2] = { seeded(seed, 3 * i), seeded(seed, 3 * i + 1) };

	memcpy(device->uuid_bytes, words, sizeof(device->uuid_bytes));
	device->uuid_bytes[6] = (unsigned char)((device->uuid_bytes[6] & 0x0f) | 0x40);
	device->uuid_bytes[8] = (unsigned char)((device->uuid_bytes[8] & 0x3f) | 0x80);
	write_uuid(device);
	(void)snprintf(device->serial, sizeof(device->serial), "%013llu",
		       (unsigned long long)(seeded(seed, 3 * i + 2) % UINT64_C(10000000000000)));
}

static int set_mig(struct machine_config *config, unsigned i, struct text value)
{
	return parse_number(value, 0, SLICES_MAX, &config->device[i].slices);
}

static int set_seed(struct machine_config *config, unsigned i, struct text value)
{
	(void)i;
	if (!value.len)
		return -EINVAL;
	for (unsigned k = 0; k < MACHINE_DEVICES; k++)
		seed_device(&config->device[k], k, value);
	return 0;
}

#define RIGHT_SIZE "a size such as 8g, 1.5g or 512m (up to 64t)"

static const struct key keys[] = {
	{ "count", set_count, true, "a number of devices from 1 to 64" },
	{ "driver", set_driver, true, "a CUDA version from 11.0 to 13.9, such as 12.4 or 12040" },
	{ "nvml", set_nvml, true, "a driver version such as 580.65.06" },
	{ "pids", set_pids, true,
	  "same or host: whose pids NVML's lists show; bare: without bytes" },
	{ "start", set_start, true, "milliseconds that a context takes, from 0 to 10000" },
	{ "heap", set_heap, true, "launch or set: what brings the heap of kernels" },
	{ "p2p", set_p2p, true, "yes or no" },
	{ "seed", set_seed, true, "any text; UUIDs and serial numbers follow from it" },
	{ "mem", set_mem, false, RIGHT_SIZE ", at least 1m" },
	{ "reserved", set_reserved, false, RIGHT_SIZE ", or 0" },
	{ "context", set_context, false, RIGHT_SIZE ", or 0" },
	{ "sms", set_sms, false, "a number of multiprocessors from 1 to 1024" },
	{ "clock", set_clock, false, "a frequency in MHz from 1 to 100000" },
	{ "memclock", set_memory_clock, false, "a frequency in MHz from 1 to 100000" },
	{ "name", set_name, false, "up to 95 printable characters without ',' and '/'" },
	{ "mig", set_mig, false, "a number of MIG slices from 1 to 7, or 0" },
	{ "cc", set_cc, false, "a compute capability such as 9.0" },
	{ "uuid", set_uuid, false, "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx in hex digits" },
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static int complain_value(const struct key *key, struct text value)
{
	fprintf(stderr, "ration-sim: RATION_SIM: %s=%.*s: not understood; %s takes %s\n", key->name,
		(int)value.len, value.at, key->name, key->right);
	return -EINVAL;
}

static int complain_key(struct text item)
{
	char names[256] = "";
	size_t len = 0;

	for (unsigned k = 0; k < KEYS; k++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", k ? ", " : "",
					keys[k].name);
	fprintf(stderr, "ration-sim: RATION_SIM: '%.*s': no such setting; there are %s\n",
		(int)item.len, item.at, names);
	return -EINVAL;
}

/* Cuts the part before `separator` off `rest`. */
static struct text cut(struct text *rest, char separator)
{
	const char *end = memchr(rest->at, separator, rest->len);
	struct text part = { rest->at, end ? (size_t)(end - rest->at) : rest->len };
	size_t used = part.len + (end ? 1 : 0);

	rest->at += used;
	rest->len -= used;
	return part;
}

/* A list gives devices 0, 1, .. a value each; its last value holds for all further devices. */
static int set_each(const struct key *key, struct machine_config *config, struct text value)
{
	struct text rest = value;
	struct text part = cut(&rest, '/');

	for (unsigned i = 0; i < MACHINE_DEVICES; i++) {
		if (key->set(config, i, part))
			return complain_value(key, part);
		if (!rest.len && key->set == set_uuid)
			return 0; /* a UUID names one device; the others keep their own */
		if (rest.len)
			part = cut(&rest, '/');
	}
	return 0;
}

static struct text trim(struct text text)
{
	while (text.len && isspace((unsigned char)text.at[0])) {
		text.at++;
		text.len--;
	}
	while (text.len && isspace((unsigned char)text.at[text.len - 1]))
		text.len--;
	return text;
}

static int set_item(struct machine_config *config, struct text item)
{
	struct text value = item;
	struct text name = trim(cut(&value, '='));

	value = trim(value);
	if (!item.len)
		return 0;
	for (unsigned k = 0; k < KEYS; k++) {
		if (strlen(keys[k].name) != name.len || memcmp(keys[k].name, name.at, name.len))
			continue;
		if (!keys[k].is_global)
			return set_each(&keys[k], config, value);
		return keys[k].set(config, 0, value) ? complain_value(&keys[k], value) : 0;
	}
	return complain_key(name);
}

static void set_defaults(struct machine_config *config)
{
	memset(config, 0, sizeof(*config)); /* padding too: configurations are compared as bytes */
	config->count = 1;
	config->cuda_version = 13000;
	(void)snprintf(config->driver_version, sizeof(config->driver_version), "580.65.06");
	for (unsigned i = 0; i < MACHINE_DEVICES; i++) {
		struct machine_device *device = &config->device[i];

		(void)snprintf(device->name, sizeof(device->name), "Ration Software GPU");
		seed_device(device, i, (struct text){ "ration", 6 });
		device->card = i;
		device->pci_bus = i + 1;
		(void)snprintf(device->pci_bus_id, sizeof(device->pci_bus_id), "%08X:%02X:%02X.0",
			       device->pci_domain, device->pci_bus, device->pci_device);
		device->memory_bytes = 80 * GIB;
		device->reserved_bytes = 512 * MIB;
		device->context_bytes = 64 * MIB;
		device->sms = 132;
		device->cc_major = 9;
		device->clock_mhz = 1980;
		device->memory_clock_mhz = 2619;
	}
}

/* The name of a slice has its sevenths of the card's compute and its memory. */
static void make_slice(const struct machine_device *card, unsigned place,
		       struct machine_device *out)
{
	unsigned slices = card->slices;
	char kind[32];
	size_t len;

	*out = *card;
	out->slices = 0;
	out->slice = place;
	out->memory_bytes = card->memory_bytes / slices / MIB * MIB;
	out->reserved_bytes = card->reserved_bytes / slices / MIB * MIB;
	out->sms = card->sms / slices ? card->sms / slices : 1;
	(void)snprintf(kind, sizeof(kind), " MIG %ug.%llugb", SLICES_MAX / slices,
		       (unsigned long long)((out->memory_bytes + GIB - 1) / GIB));
	/* The card's name is cut where both do not fit. */
	len = strnlen(out->name, sizeof(out->name) - strlen(kind) - 1);
	memcpy(out->name + len, kind, strlen(kind) + 1);
	out->uuid_bytes[0] = (unsigned char)(card->uuid_bytes[0] ^ 0xa0);
	out->uuid_bytes[3] = (unsigned char)(card->uuid_bytes[3] + place);
	write_uuid(out);
}

/* Behind the cards stand the slices of those that are divided. Too many: -EINVAL and a line. */
static int make_slices(struct machine_config *config)
{
	config->devices = config->count;
	for (unsigned i = 0; i < config->count; i++) {
		for (unsigned place = 1; place <= config->device[i].slices; place++) {
			if (config->devices == MACHINE_DEVICES) {
				fprintf(stderr,
					"ration-sim: RATION_SIM: mig: more than %d cards and slices\n",
					MACHINE_DEVICES);
				return -EINVAL;
			}
			make_slice(&config->device[i], place, &config->device[config->devices++]);
		}
	}
	return 0;
}

static bool has_two_alike(const struct machine_config *config)
{
	for (unsigned i = 0; i < config->devices; i++) {
		for (unsigned k = 0; k < i; k++) {
			if (memcmp(config->device[i].uuid_bytes, config->device[k].uuid_bytes, 16))
				continue;
			fprintf(stderr,
				"ration-sim: RATION_SIM: uuid=%s: given to devices %u and %u; "
				"each needs its own\n",
				config->device[i].uuid, k, i);
			return true;
		}
	}
	return false;
}

int machine_config_read(struct machine_config *out_config)
{
	const char *env = secure_getenv("RATION_SIM");
	struct text rest = { env ? env : "", 0 };
	struct text items;

	set_defaults(out_config);
	rest.len = strlen(rest.at);
	if (rest.len > TEXT_BYTES) {
		fprintf(stderr, "ration-sim: RATION_SIM: longer than %d bytes\n", TEXT_BYTES);
		return -EINVAL;
	}
	/* The seed first, whatever its place: explicit UUIDs stand over it. */
	for (int pass = 0; pass < 2; pass++) {
		for (items = rest; items.len;) {
			struct text item = trim(cut(&items, ','));
			bool is_seed = item.len >= 4 && !memcmp(item.at, "seed", 4);

			if (is_seed == (pass == 0) && set_item(out_config, item))
				return -EINVAL;
		}
	}
	return make_slices(out_config) || has_two_alike(out_config) ? -EINVAL : 0;
}
