/* RATION_SIM: what it means, and what is said of what it cannot mean. */
#include "machine_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define UUID_A "GPU-00112233-4455-6677-8899-aabbccddeeff"

static struct machine_config config;

static int read_config(const char *text)
{
	if (text)
		setenv("RATION_SIM", text, 1);
	else
		unsetenv("RATION_SIM");
	return machine_config_read(&config);
}

static void test_defaults(void **state)
{
	const char *const nothing[] = { NULL, "", " ", ",," };

	(void)state;
	for (size_t k = 0; k < sizeof(nothing) / sizeof(nothing[0]); k++) {
		assert_int_equal(read_config(nothing[k]), 0);
		assert_int_equal(config.count, 1);
		assert_string_equal(config.device[0].name, "Ration Software GPU");
		assert_int_equal(config.device[0].memory_bytes, 80 * GIB);
		assert_int_equal(config.device[0].context_bytes, 64 * MIB);
		assert_int_equal(config.device[0].sms, 132);
		assert_int_equal(config.device[0].cc_major, 9);
		assert_int_equal(config.device[0].cc_minor, 0);
		assert_int_equal(config.cuda_version, 13000);
		assert_string_equal(config.device[0].pci_bus_id, "00000000:01:00.0");
	}
}

static void test_driver_versions(void **state)
{
	const struct {
		const char *text;
		unsigned version;
	} good[] = {
		{ "driver=11", 11000 },   { "driver=12.4", 12040 },  { "driver=12040", 12040 },
		{ "driver=13.0", 13000 }, { "driver=13000", 13000 }, { "driver=11080", 11080 }
	};

	(void)state;
	for (size_t k = 0; k < sizeof(good) / sizeof(good[0]); k++) {
		assert_int_equal(read_config(good[k].text), 0);
		assert_int_equal(config.cuda_version, good[k].version);
	}
}

static void test_pids(void **state)
{
	(void)state;
	assert_int_equal(read_config("pids=same"), 0);
	assert_int_equal(config.has_host_pids, 0);
	assert_int_equal(read_config("pids=host"), 0);
	assert_int_equal(config.has_host_pids, 1);
	assert_int_equal(config.has_bare_rows, 0);
	assert_int_equal(read_config("pids=bare"), 0);
	assert_int_equal(config.has_host_pids, 0);
	assert_int_equal(config.has_bare_rows, 1);
}

static void test_p2p(void **state)
{
	(void)state;
	assert_int_equal(read_config("p2p=yes"), 0);
	assert_int_equal(config.has_no_peers, 0);
	assert_int_equal(read_config("p2p=no"), 0);
	assert_int_equal(config.has_no_peers, 1);
	assert_int_equal(read_config("p2p=n"), -EINVAL);
}

static void test_every_key(void **state)
{
	(void)state;
	assert_int_equal(read_config("count=2, mem = 1.5g ,reserved=0,context=4Mi,sms=16,cc=12.1,"
				     "driver=12.4,nvml=550.54.15,name=Sim GPU,clock=1000,"
				     "memclock=2000,seed=a b"),
			 0);
	assert_int_equal(config.count, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(config.device[i].memory_bytes, 1536 * MIB);
		assert_int_equal(config.device[i].reserved_bytes, 0);
		assert_int_equal(config.device[i].context_bytes, 4 * MIB);
		assert_int_equal(config.device[i].sms, 16);
		assert_int_equal(config.device[i].cc_major, 12);
		assert_int_equal(config.device[i].cc_minor, 1);
		assert_string_equal(config.device[i].name, "Sim GPU");
		assert_int_equal(config.device[i].clock_mhz, 1000);
		assert_int_equal(config.device[i].memory_clock_mhz, 2000);
	}
	assert_int_equal(config.cuda_version, 12040);
	assert_string_equal(config.driver_version, "550.54.15");
}

static void test_lists(void **state)
{
	(void)state;
	assert_int_equal(read_config("count=3,mem=8g/16g,name=A/B/C"), 0);
	assert_int_equal(config.device[0].memory_bytes, 8 * GIB);
	assert_int_equal(config.device[1].memory_bytes, 16 * GIB);
	assert_int_equal(config.device[2].memory_bytes, 16 * GIB);
	assert_string_equal(config.device[0].name, "A");
	assert_string_equal(config.device[2].name, "C");
}

static void test_slices(void **state)
{
	(void)state;
	assert_int_equal(read_config("count=3,mem=7g,sms=132,mig=0/2/7,name=Card"), 0);
	assert_int_equal(config.count, 3);
	assert_int_equal(config.devices, 3 + 2 + 7);
	for (unsigned i = 0; i < config.devices; i++) {
		const struct machine_device *d = &config.device[i];

		assert_int_equal(d->card, i < 3 ? i : i < 5 ? 1 : 2);
		assert_int_equal(d->slice, i < 3 ? 0 : i < 5 ? i - 2 : i - 4);
		assert_int_equal(strncmp(d->uuid, i < 3 ? "GPU-" : "MIG-", 4), 0);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(d->uuid, config.device[k].uuid);
	}
	assert_string_equal(config.device[3].name, "Card MIG 3g.4gb");
	assert_int_equal(config.device[3].memory_bytes, 3584 * MIB);
	assert_int_equal(config.device[3].sms, 66);
	assert_string_equal(config.device[11].name, "Card MIG 1g.1gb");
	assert_int_equal(config.device[11].memory_bytes, GIB);
	assert_int_equal(read_config("count=8,mig=7"), 0);
	assert_int_equal(read_config("count=9,mig=7"), -EINVAL);
	assert_int_equal(read_config("mig=8"), -EINVAL);
}

static void test_identities(void **state)
{
	struct machine_config first;

	(void)state;
	assert_int_equal(read_config("count=64,seed=x"), 0);
	first = config;
	for (unsigned i = 0; i < 64; i++) {
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(config.device[i].uuid, config.device[k].uuid);
	}
	assert_int_equal(read_config("seed=x"), 0);
	assert_string_equal(config.device[0].uuid, first.device[0].uuid);
	assert_string_equal(config.device[0].serial, first.device[0].serial);
	assert_int_equal(read_config("seed=y"), 0);
	assert_string_not_equal(config.device[0].uuid, first.device[0].uuid);
	/* Explicit UUIDs stand over the seed, wherever it is written. */
	assert_int_equal(read_config("count=2,uuid=" UUID_A ",seed=x"), 0);
	assert_string_equal(config.device[0].uuid, UUID_A);
	assert_int_equal(config.device[0].uuid_bytes[1], 0x11);
	assert_int_equal(config.device[0].uuid_bytes[15], 0xff);
	assert_string_equal(config.device[1].uuid, first.device[1].uuid);
}

/* Reads `text`, which is wrong, and returns what was said of it. */
static const char *complaint(const char *text)
{
	static char said[8192];
	FILE *file = tmpfile();
	int kept = dup(2);
	size_t len;
	int err;

	assert_non_null(file);
	dup2(fileno(file), 2);
	err = read_config(text);
	dup2(kept, 2);
	close(kept);
	rewind(file);
	len = fread(said, 1, sizeof(said) - 1, file);
	said[len] = 0;
	fclose(file);
	if (err != -EINVAL)
		fail_msg("'%.60s' was read: %d", text, err);
	return said;
}

static void test_bad_values(void **state)
{
	static const struct {
		const char *text;
		const char *named; /* in the complaint */
	} bad[] = {
		{ "mem=4x", "mem=4x" },
		{ "mem=-1", "mem=-1" },
		{ "mem=", "mem=" },
		{ "mem", "mem" },
		{ "mem=0", "mem=0" },
		{ "mem=1.5.2g", "1.5.2g" },
		{ "mem=99999999999999g", "99999999999999g" },
		{ "mem=8g/x", "mem=x" },
		{ "reserved=all", "reserved=all" },
		{ "context=all", "context=all" },
		{ "count=0", "count=0" },
		{ "count=65", "1 to 64" },
		{ "count=two", "count=two" },
		{ "sms=0", "sms=0" },
		{ "cc=9", "cc=9" },
		{ "cc=9.x", "cc=9.x" },
		{ "cc=.0", "cc=.0" },
		{ "driver=x", "driver=x" },
		{ "driver=12.", "driver=12." },
		{ "driver=12045", "driver=12045" },
		{ "driver=12100", "driver=12100" },
		{ "driver=1204", "driver=1204" },
		{ "driver=99", "11.0 to 13.9" },
		{ "driver=14000", "11.0 to 13.9" },
		{ "pids=hos", "pids=hos" },
		{ "pids=", "pids=" },
		{ "nvml=abc", "nvml=abc" },
		{ "name=", "name=" },
		{ "uuid=GPU-1", "uuid=GPU-1" },
		{ "uuid=GPU-0011223344556677-8899-aabb-ccddeeff0011", "hex digits" },
		{ "count=2,uuid=" UUID_A "/" UUID_A, "devices 0 and 1" },
		{ "colour=red", "'colour'" },
		{ "=1", "''" },
		{ "count=2,,memory=1g", "'memory'" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		const char *said = complaint(bad[k].text);
		const char *end = strchr(said, '\n');

		if (!strstr(said, bad[k].named) || !strstr(said, "RATION_SIM"))
			fail_msg("of '%s' it said: %s", bad[k].text, said);
		assert_non_null(end);
		assert_int_equal(end[1], 0); /* one line */
	}
}

static void test_too_long(void **state)
{
	static char text[10000];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	assert_non_null(strstr(complaint(text), "longer"));
	(void)snprintf(text, sizeof(text), "name=");
	memset(text + 5, 'a', 96);
	text[5 + 96] = 0;
	assert_non_null(strstr(complaint(text), "name="));
	text[5 + 95] = 0;
	assert_int_equal(read_config(text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_every_key),
		cmocka_unit_test(test_driver_versions),
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_p2p),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_identities),
		cmocka_unit_test(test_bad_values),
		cmocka_unit_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
