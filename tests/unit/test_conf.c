#include "base/conf.h"

#include "base/units.h"
#include "child.h"
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#define UUID_A "GPU-aaaaaaaa-0000-0000-0000-000000000000"
#define UUID_B "GPU-bbbbbbbb-0000-0000-0000-000000000000"

static const char *const *environment; /* "NAME=VALUE", ended by NULL */

static const char *fake_getenv(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; environment[i]; i++)
		if (!strncmp(environment[i], name, n) && environment[i][n] == '=')
			return environment[i] + n + 1;
	return NULL;
}

static struct conf conf;

#define ENV(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

static int load(const char *file, const char *const *env)
{
	environment = env;
	return conf_load(&conf, file, fake_getenv);
}

static int load_env(const char *const *env)
{
	return load("/nonexistent/overrideEnv", env);
}

/* Writes the operator's file and loads it over `env`. */
static int load_file(const char *text, const char *const *env)
{
	return load(scratch_file("overrideEnv", text, strlen(text)), env);
}

static void test_places(void **state)
{
	(void)state;
	assert_int_equal(load_env(ENV()), 0);
	assert_false(conf.is_movable || conf.is_oversubscribed);
	assert_int_equal(conf_region_flags(&conf), 0);
	assert_false(conf.has_signals);
	assert_int_equal(load_env(ENV("RATION_MOVABLE=true", "RATION_SIGNALS=1")), 0);
	assert_true(conf.has_signals);
	assert_int_equal(conf_region_flags(&conf), RATION_FLAG_MOVABLE);
	assert_false(conf.may_move_rdma);
	assert_int_equal(load_env(ENV("RATION_RDMA=move")), 0);
	assert_true(conf.may_move_rdma && !conf.is_movable);
	assert_int_equal(load_env(ENV("RATION_RDMA=stay")), 0);
	assert_false(conf.may_move_rdma);
	assert_int_equal(load_env(ENV("RATION_RDMA=true")), -EINVAL);
	assert_int_equal(load_env(ENV("CUDA_OVERSUBSCRIBE=true")), 0);
	assert_int_equal(conf_region_flags(&conf), RATION_FLAG_MOVABLE | RATION_FLAG_OVERSUBSCRIBE);
	assert_int_equal(load_env(ENV("CUDA_OVERSUBSCRIBE=1")), 0);
	assert_false(conf.is_movable);
	assert_int_equal(load_env(ENV("CUDA_OVERSUBSCRIBE=true", "RATION_OVERSUBSCRIBE=false")), 0);
	assert_false(conf.is_movable);
	assert_int_equal(load_env(ENV("RATION_RESIDENT=8g", "RATION_HOST=512m")), 0);
	assert_true(conf.is_movable && conf.is_oversubscribed);
	assert_int_equal(conf.resident_bytes, 8 * GIB);
	assert_int_equal(conf.host_bytes, 512 * MIB);
}

static void test_places_that_cannot_be_understood(void **state)
{
	static const char *const wrong[] = { "RATION_RESIDENT=0",      "RATION_RESIDENT=0:8g",
					     "RATION_HOST=lots",       "RATION_HOST=",
					     "RATION_HOST=1g,2g",      "RATION_MOVABLE=perhaps",
					     "RATION_OVERSUBSCRIBE=2g" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(load_env(ENV(wrong[i])), -EINVAL);
		assert_int_equal(strncmp(conf.error, wrong[i], strcspn(wrong[i], "=")), 0);
	}
}

static void test_nothing_set(void **state)
{
	(void)state;
	assert_int_equal(load_env(ENV()), 0);
	assert_string_equal(conf.error, "");
	assert_string_equal(conf.mem_spec, "");
	assert_string_equal(conf.mem_source, "");
	assert_string_equal(conf.sm_spec, "");
	assert_string_equal(conf.sm_source, "");
	assert_int_equal(conf.sm_policy, SM_POLICY_DEFAULT);
	assert_string_equal(conf.region_path, CONF_DEFAULT_REGION);
	assert_true(conf.region_is_default);
	assert_string_equal(conf.name, "");
	assert_int_equal(conf.log, LOG_ERROR);
	assert_false(conf.disabled);
	assert_false(conf.context_free);
	assert_int_equal(conf.priority, 1);
}

static void test_our_variables(void **state)
{
	(void)state;
	assert_int_equal(load_env(ENV("RATION_MEM=0:10g,1:4g", "RATION_REGION=/r/x",
				      "RATION_NAME=job 7", "RATION_LOG=debug",
				      "RATION_CHARGE_CONTEXT=false")),
			 0);
	assert_string_equal(conf.mem_spec, "0:10g,1:4g");
	assert_string_equal(conf.mem_source, "RATION_MEM");
	assert_string_equal(conf.region_path, "/r/x");
	assert_false(conf.region_is_default);
	assert_string_equal(conf.name, "job 7");
	assert_int_equal(conf.log, LOG_DEBUG);
	assert_true(conf.context_free);
}

/* Every wrong value fails, and the message has the variable and the text. */
static void test_what_cannot_be_understood(void **state)
{
	static const struct {
		const char *set, *name, *text;
	} cases[] = {
		{ "RATION_MEM=4x", "RATION_MEM", "'4x'" },
		{ "RATION_MEM=-1", "RATION_MEM", "'-1'" },
		{ "RATION_MEM=", "RATION_MEM", "is empty" },
		{ "RATION_MEM=1.5.2g", "RATION_MEM", "'1.5.2g'" },
		{ "RATION_MEM=99999999999999g", "RATION_MEM", "too big" },
		{ "RATION_MEM=0", "RATION_MEM", "is zero" },
		{ "RATION_MEM=1g,2g", "RATION_MEM", "twice" },
		{ "RATION_MEM=gpu0:1g", "RATION_MEM", "'gpu0:1g'" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=4x", "CUDA_DEVICE_MEMORY_LIMIT:", "'4x'" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=", "CUDA_DEVICE_MEMORY_LIMIT:", "is empty" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=-1", "CUDA_DEVICE_MEMORY_LIMIT:", "'-1'" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=99999999999999g",
		  "CUDA_DEVICE_MEMORY_LIMIT:", "too big" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=1g,2g", "CUDA_DEVICE_MEMORY_LIMIT:", "1g,2g" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=0:1g", "CUDA_DEVICE_MEMORY_LIMIT:", "list" },
		{ "CUDA_DEVICE_MEMORY_LIMIT_0=1.5.2g", "CUDA_DEVICE_MEMORY_LIMIT_0:", "'1.5.2g'" },
		{ "CUDA_DEVICE_MEMORY_LIMIT_0=0x10m", "CUDA_DEVICE_MEMORY_LIMIT_0:", "'0x10m'" },
		{ "CUDA_DEVICE_MEMORY_LIMIT_63=x", "CUDA_DEVICE_MEMORY_LIMIT_63:", "'x'" },
		{ "RATION_SM=0", "RATION_SM:", "is zero" },
		{ "RATION_SM=101", "RATION_SM:", "'101'" },
		{ "RATION_SM=-5", "RATION_SM:", "'-5'" },
		{ "RATION_SM=abc", "RATION_SM:", "'abc'" },
		{ "RATION_SM=30x", "RATION_SM:", "'30x'" },
		{ "RATION_SM=", "RATION_SM:", "is empty" },
		{ "RATION_SM=1:", "RATION_SM:", "nothing behind the colon" },
		{ "RATION_SM=0:30,0:50", "RATION_SM:", "twice" },
		{ "CUDA_DEVICE_SM_LIMIT=lots", "CUDA_DEVICE_SM_LIMIT:", "'lots'" },
		{ "CUDA_DEVICE_SM_LIMIT=-1", "CUDA_DEVICE_SM_LIMIT:", "'-1'" },
		{ "CUDA_DEVICE_SM_LIMIT=", "CUDA_DEVICE_SM_LIMIT:", "is empty" },
		{ "CUDA_DEVICE_SM_LIMIT=0:30", "CUDA_DEVICE_SM_LIMIT:", "give one percentage" },
		{ "CUDA_DEVICE_SM_LIMIT_3=30m", "CUDA_DEVICE_SM_LIMIT_3:", "'30m'" },
		{ "RATION_LOG=loud", "RATION_LOG:", "'loud'" },
		{ "RATION_LOG=", "RATION_LOG:", "error, warn, info, debug" },
		{ "RATION_CHARGE_CONTEXT=maybe", "RATION_CHARGE_CONTEXT:", "'maybe'" },
		{ "CUDA_DISABLE_CONTROL=2", "CUDA_DISABLE_CONTROL:", "'2'" },
		{ "RATION_REGION=", "RATION_REGION:", "is empty" },
		{ "CUDA_DEVICE_MEMORY_SHARED_CACHE=", "CUDA_DEVICE_MEMORY_SHARED_CACHE:",
		  "is empty" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (load_env(ENV(cases[i].set)) != -EINVAL)
			fail_msg("%s was taken", cases[i].set);
		if (strncmp(conf.error, cases[i].name, strlen(cases[i].name)) != 0)
			fail_msg("'%s' does not begin with %s", conf.error, cases[i].name);
		assert_says(conf.error, cases[i].text);
		assert_false(conf.disabled);
	}
}

static void test_the_first_error_is_told(void **state)
{
	(void)state;
	assert_int_equal(load_env(ENV("CUDA_DISABLE_CONTROL=2", "RATION_MEM=4x")), -EINVAL);
	assert_says(conf.error, "RATION_MEM");
	assert_null(strstr(conf.error, "CONTROL"));
}

static void test_long_values(void **state)
{
	char set[8192];

	(void)state;
	memset(set, '/', sizeof(set));
	memcpy(set, "RATION_REGION=", 14);
	set[sizeof(set) - 1] = '\0';
	assert_int_equal(load_env(ENV(set)), -EINVAL);
	assert_says(conf.error, "RATION_REGION: the path is too long");
	memset(set, '9', sizeof(set) - 1);
	memcpy(set, "CUDA_DEVICE_MEMORY_LIMIT_3=", 27);
	assert_int_equal(load_env(ENV(set)), -EINVAL);
	assert_says(conf.error, "CUDA_DEVICE_MEMORY_LIMIT_3");
	memcpy(set, "RATION_MEM=", 11);
	assert_int_equal(load_env(ENV(set)), -EINVAL);
	assert_says(conf.error, "RATION_MEM");
}

static void test_scheduler_limits(void **state)
{
	(void)state;
	assert_int_equal(load_env(ENV("CUDA_DEVICE_MEMORY_LIMIT=3000m")), 0);
	assert_string_equal(conf.mem_spec, "3000m");
	assert_string_equal(conf.mem_source, "CUDA_DEVICE_MEMORY_LIMIT");

	assert_int_equal(load_env(ENV("CUDA_DEVICE_MEMORY_LIMIT_0=3000m",
				      "CUDA_DEVICE_MEMORY_LIMIT_2=1g",
				      "CUDA_DEVICE_MEMORY_LIMIT=5g")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 3000 * MIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 1, UUID_A), 5 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 2, UUID_A), 1 * GIB);
	assert_string_equal(conf.mem_source, "CUDA_DEVICE_MEMORY_LIMIT_0");

	/* Koordinator writes plain bytes. */
	assert_int_equal(load_env(ENV("CUDA_DEVICE_MEMORY_LIMIT=8589934592")), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 8 * GIB);

	/* Ours goes before theirs. */
	assert_int_equal(load_env(ENV("RATION_MEM=2g", "CUDA_DEVICE_MEMORY_LIMIT_0=7g")), 0);
	assert_string_equal(conf.mem_spec, "2g");
}

static void test_limits_of_gpu_time(void **state)
{
	static const char *const more[] = { "100", "101", "4294967326" };
	char set[64];

	(void)state;
	assert_int_equal(load_env(ENV("RATION_SM=0:30,1:50%")), 0);
	assert_string_equal(conf.sm_spec, "0:30,1:50%");
	assert_string_equal(conf.sm_source, "RATION_SM");
	assert_int_equal(conf.sm_policy, SM_POLICY_FORCE);
	assert_string_equal(conf.mem_spec, "");
	assert_int_equal(load_env(ENV("RATION_SM=100")), 0);
	assert_string_equal(conf.sm_spec, "100");

	/* The schedulers'; memory's variables are others. */
	assert_int_equal(load_env(ENV("CUDA_DEVICE_SM_LIMIT=30", "CUDA_DEVICE_SM_LIMIT_1=50",
				      "CUDA_DEVICE_SM_LIMIT_2=0", "CUDA_DEVICE_SM_LIMIT_3=100",
				      "CUDA_DEVICE_MEMORY_LIMIT_3=1g")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_SM, conf.sm_spec, 0, UUID_A), 30);
	assert_int_equal(limits_for_device(LIMITS_SM, conf.sm_spec, 1, UUID_A), 50);
	assert_int_equal(limits_for_device(LIMITS_SM, conf.sm_spec, 2, UUID_A), 30);
	assert_int_equal(limits_for_device(LIMITS_SM, conf.sm_spec, 3, UUID_A), 100);
	assert_string_equal(conf.sm_source, "CUDA_DEVICE_SM_LIMIT_1");
	assert_int_equal(conf.sm_policy, SM_POLICY_DEFAULT);
	assert_string_equal(conf.mem_spec, "3:1g");

	/* Zero, and a hundred and more, are no limit. */
	assert_int_equal(load_env(ENV("CUDA_DEVICE_SM_LIMIT=0")), 0);
	assert_int_equal(limits_for_device(LIMITS_SM, conf.sm_spec, 0, UUID_A), 0);
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
		snprintf(set, sizeof(set), "CUDA_DEVICE_SM_LIMIT=%s", more[i]);
		assert_int_equal(load_env(ENV(set)), 0);
		assert_int_equal(limits_for_device(LIMITS_SM, conf.sm_spec, 0, UUID_A), 100);
	}

	/* By place in NVIDIA_VISIBLE_DEVICES, as memory's. */
	assert_int_equal(load_env(ENV("NVIDIA_VISIBLE_DEVICES=" UUID_B "," UUID_A,
				      "CUDA_DEVICE_SM_LIMIT_0=20")),
			 0);
	assert_string_equal(conf.sm_spec, UUID_B ":20");

	/* Ours goes before theirs, and no policy and no monitor switches it off. */
	assert_int_equal(load_env(ENV("RATION_SM=40", "CUDA_DEVICE_SM_LIMIT=20",
				      "GPU_CORE_UTILIZATION_POLICY=disable")),
			 0);
	assert_string_equal(conf.sm_spec, "40");
	assert_int_equal(conf.sm_policy, SM_POLICY_FORCE);
}

static void test_policy(void **state)
{
	static const struct {
		const char *set;
		enum sm_policy policy;
	} cases[] = {
		{ "GPU_CORE_UTILIZATION_POLICY=force", SM_POLICY_FORCE },
		{ "GPU_CORE_UTILIZATION_POLICY=FORCE", SM_POLICY_FORCE },
		{ "GPU_CORE_UTILIZATION_POLICY=disable", SM_POLICY_DISABLE },
		{ "GPU_CORE_UTILIZATION_POLICY=DISABLE", SM_POLICY_DISABLE },
		{ "GPU_CORE_UTILIZATION_POLICY=Disable", SM_POLICY_DEFAULT },
		{ "GPU_CORE_UTILIZATION_POLICY=default", SM_POLICY_DEFAULT },
		{ "GPU_CORE_UTILIZATION_POLICY=", SM_POLICY_DEFAULT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(load_env(ENV("CUDA_DEVICE_SM_LIMIT=30", cases[i].set)), 0);
		assert_int_equal(conf.sm_policy, cases[i].policy);
	}
}

/* Whatever limit of GPU time the operator's file sets, the environment loosens it in no way. */
static void test_gpu_time_below_the_file(void **state)
{
	static const char *const files[] = { "CUDA_DEVICE_SM_LIMIT=30\n", "RATION_SM=30\n",
					     "CUDA_DEVICE_SM_LIMIT_0=30\n" };
	const char *const *loose = ENV("RATION_SM=90", "CUDA_DEVICE_SM_LIMIT_0=90",
				       "GPU_CORE_UTILIZATION_POLICY=disable",
				       "CUDA_DISABLE_CONTROL=true");

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		assert_int_equal(load_file(files[i], loose), 0);
		assert_int_equal(limits_for_device(LIMITS_SM, conf.sm_spec, 0, UUID_A), 30);
		assert_says(conf.sm_source, "/overrideEnv");
		if (conf.sm_policy == SM_POLICY_DISABLE || conf.disabled)
			fail_msg("the environment goes above the file's %s", files[i]);
	}
	/* It may be stricter. */
	assert_int_equal(load_file(files[0], ENV("GPU_CORE_UTILIZATION_POLICY=force")), 0);
	assert_int_equal(conf.sm_policy, SM_POLICY_FORCE);
	/* The file's own policy counts, over the environment's too. */
	assert_int_equal(load_file("CUDA_DEVICE_SM_LIMIT=30\nGPU_CORE_UTILIZATION_POLICY=disable\n",
				   ENV("GPU_CORE_UTILIZATION_POLICY=force")),
			 0);
	assert_int_equal(conf.sm_policy, SM_POLICY_DISABLE);
	assert_int_equal(load_file("GPU_CORE_UTILIZATION_POLICY=force\n",
				   ENV("GPU_CORE_UTILIZATION_POLICY=disable",
				       "CUDA_DEVICE_SM_LIMIT=30")),
			 0);
	assert_int_equal(conf.sm_policy, SM_POLICY_FORCE);
	/* A limit of memory there leaves GPU time to the environment, and the other way round. */
	assert_int_equal(load_file("RATION_MEM=1g\n", loose), 0);
	assert_string_equal(conf.sm_spec, "90");
	assert_int_equal(load_file("RATION_SM=30\n",
				   ENV("RATION_MEM=5g", "RATION_CHARGE_CONTEXT=false")),
			 0);
	assert_string_equal(conf.mem_spec, "5g");
	assert_true(conf.context_free);
}

/* Zero is no limit there, but a device's own zero leaves it to the limit of all. */
static void test_zero_of_one_device(void **state)
{
	(void)state;
	assert_int_equal(
		load_env(ENV("CUDA_DEVICE_MEMORY_LIMIT_0=0", "CUDA_DEVICE_MEMORY_LIMIT=5g")), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 5 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 1, UUID_A), 5 * GIB);
	assert_string_equal(conf.mem_source, "CUDA_DEVICE_MEMORY_LIMIT");

	assert_int_equal(load_env(ENV("CUDA_DEVICE_MEMORY_LIMIT_0=0m",
				      "CUDA_DEVICE_MEMORY_LIMIT_1=2g",
				      "CUDA_DEVICE_MEMORY_LIMIT=0")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 1, UUID_A), 2 * GIB);

	/* Alone it says that there is none. */
	assert_int_equal(load_env(ENV("CUDA_DEVICE_MEMORY_LIMIT_0=0")), 0);
	assert_string_equal(conf.mem_spec, "0:0");

	/* What is wrong with either is not passed over. */
	assert_int_equal(load_env(
				 ENV("CUDA_DEVICE_MEMORY_LIMIT_0=", "CUDA_DEVICE_MEMORY_LIMIT=5g")),
			 -EINVAL);
	assert_says(conf.error, "CUDA_DEVICE_MEMORY_LIMIT_0: ");
	assert_int_equal(load_env(
				 ENV("CUDA_DEVICE_MEMORY_LIMIT_0=0", "CUDA_DEVICE_MEMORY_LIMIT=x")),
			 -EINVAL);
	assert_says(conf.error, "CUDA_DEVICE_MEMORY_LIMIT: ");
}

static const char *real_getenv(const char *name)
{
	return getenv(name);
}

static const char *no_getenv(const char *name)
{
	(void)name;
	return NULL;
}

static void body_index_out_of_reach(void *name)
{
	clearenv();
	CHECK(setenv(name, "1", 1) == 0);
	CHECK(conf_load(&conf, "/nonexistent/overrideEnv", real_getenv) == -EINVAL);
	CHECK(!strncmp(conf.error, name, strlen(name)) && conf.error[strlen(name)] == ':');
	CHECK(strstr(conf.error, "0 to 63"));
	/* What a program with another's rights must not see does not count. */
	CHECK(conf_load(&conf, "/nonexistent/overrideEnv", no_getenv) == 0);
	/* Ours goes before theirs, right or wrong. */
	CHECK(setenv("RATION_MEM", "2g", 1) == 0);
	CHECK(setenv("RATION_SM", "30", 1) == 0);
	CHECK(conf_load(&conf, "/nonexistent/overrideEnv", real_getenv) == 0);
}

static void body_index_in_reach(void *name)
{
	clearenv();
	CHECK(conf_load(&conf, "/nonexistent/overrideEnv", real_getenv) == 0);
	CHECK(setenv(name, "1g", 1) == 0);
	CHECK(conf_load(&conf, "/nonexistent/overrideEnv", real_getenv) == 0);
}

/* A limit that we cannot hold is an error, not passed over. */
static void test_index_out_of_reach(void **state)
{
	static const char *const wrong[] = { "CUDA_DEVICE_MEMORY_LIMIT_64",
					     "CUDA_DEVICE_MEMORY_LIMIT_99",
					     "CUDA_DEVICE_MEMORY_LIMIT_00",
					     "CUDA_DEVICE_MEMORY_LIMIT_01",
					     "CUDA_DEVICE_MEMORY_LIMIT_18446744073709551617",
					     "CUDA_DEVICE_SM_LIMIT_64" };
	static const char *const right[] = { "CUDA_DEVICE_MEMORY_LIMIT_0",
					     "CUDA_DEVICE_MEMORY_LIMIT_63",
					     "CUDA_DEVICE_MEMORY_LIMIT_",
					     "CUDA_DEVICE_MEMORY_LIMIT_99x",
					     "CUDA_DEVICE_MEMORY_LIMITS_99" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		child_run(body_index_out_of_reach, (void *)wrong[i]);
	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
		child_run(body_index_in_reach, (void *)right[i]);
}

static void test_index_out_of_reach_in_the_file(void **state)
{
	(void)state;
	assert_int_equal(load_file("CUDA_DEVICE_MEMORY_LIMIT_99=1g\n",
				   ENV("CUDA_DISABLE_CONTROL=true", "RATION_MEM=5g")),
			 -EINVAL);
	assert_says(conf.error, "CUDA_DEVICE_MEMORY_LIMIT_99 in /overrideEnv: ");
	assert_false(conf.disabled);
}

static void test_all_indices(void **state)
{
	static char text[65][64];
	const char *env[65];

	(void)state;
	for (int i = 0; i < 64; i++) {
		snprintf(text[i], sizeof(text[i]), "CUDA_DEVICE_MEMORY_LIMIT_%d=%dm", i, i + 1);
		env[i] = text[i];
	}
	env[64] = NULL;
	assert_int_equal(load_env(env), 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, i, UUID_A),
				 (uint64_t)(i + 1) * MIB);
}

/* LIMIT_i means the i-th of NVIDIA_VISIBLE_DEVICES, in whatever order NVML counts them. */
static void test_visible_uuids(void **state)
{
	(void)state;
	assert_int_equal(load_env(ENV("NVIDIA_VISIBLE_DEVICES=" UUID_B "," UUID_A,
				      "CUDA_DEVICE_MEMORY_LIMIT_0=1g",
				      "CUDA_DEVICE_MEMORY_LIMIT_1=2g")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 1, UUID_B), 1 * GIB);
	assert_int_equal(limits_check(LIMITS_MEM, conf.mem_spec, LIMITS_ZERO_IS_NONE, NULL), 0);

	/* Shorter than the limits, or no UUIDs: by index. */
	assert_int_equal(load_env(ENV("NVIDIA_VISIBLE_DEVICES=" UUID_B,
				      "CUDA_DEVICE_MEMORY_LIMIT_1=2g")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 1, UUID_A), 2 * GIB);
	for (int i = 0; i < 4; i++) {
		static const char *const lists[] = {
			"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=0,1",
			"NVIDIA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"
		};

		assert_int_equal(load_env(ENV(lists[i], "CUDA_DEVICE_MEMORY_LIMIT_0=2g")), 0);
		assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 2 * GIB);
	}
}

/* What is no UUID that a specification can name must not lose the limit. */
static void test_odd_visible_devices(void **state)
{
	static const char *const lists[] = {
		"NVIDIA_VISIBLE_DEVICES=GPU-",
		"NVIDIA_VISIBLE_DEVICES=GPU-abc",
		"NVIDIA_VISIBLE_DEVICES=GPU-aaaaaaaa:0,GPU-bbbbbbbb:1",
		"NVIDIA_VISIBLE_DEVICES=GPU-" UUID_A UUID_B,
		"NVIDIA_VISIBLE_DEVICES=,,,",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		assert_int_equal(load_env(ENV(lists[i], "CUDA_DEVICE_MEMORY_LIMIT_0=2g")), 0);
		assert_int_equal(limits_check(LIMITS_MEM, conf.mem_spec, LIMITS_ZERO_IS_NONE, NULL),
				 0);
		if (limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A) != 2 * GIB)
			fail_msg("%s: '%s' limits device 0 not", lists[i], conf.mem_spec);
	}
}

static void test_region_paths(void **state)
{
	(void)state;
	assert_int_equal(load_env(ENV("CUDA_DEVICE_MEMORY_SHARED_CACHE=/c/u.cache", "POD_UID=p",
				      "CONTAINER_NAME=n")),
			 0);
	assert_string_equal(conf.region_path, "/c/u.cache");
	assert_int_equal(load_env(ENV("RATION_REGION=/r", "CUDA_DEVICE_MEMORY_SHARED_CACHE=/c")),
			 0);
	assert_string_equal(conf.region_path, "/r");
	assert_false(conf.region_is_pod);
	assert_int_equal(load_env(ENV("POD_UID=p-1", "CONTAINER_NAME=web")), 0);
	assert_string_equal(conf.region_path, "/usr/local/vgpu/containers/p-1_web/usage.cache");
	assert_false(conf.region_is_default);
	assert_true(conf.region_is_pod);
	assert_int_equal(load_env(ENV("POD_UID=p", "CONTAINER_NAME=n", "CONTAINER_VGPU_MOUNT=/m")),
			 0);
	assert_string_equal(conf.region_path, "/m/containers/p_n/usage.cache");
	assert_int_equal(load_env(ENV("POD_UID=p", "CONTAINER_NAME=n", "CONTAINER_VGPU_MOUNT=")),
			 0);
	assert_string_equal(conf.region_path, "/usr/local/vgpu/containers/p_n/usage.cache");
	/* One of the two alone, or one that leads elsewhere, names nothing. */
	assert_int_equal(load_env(ENV("POD_UID=p")), 0);
	assert_true(conf.region_is_default);
	assert_false(conf.region_is_pod);
	assert_int_equal(load_env(ENV("POD_UID=", "CONTAINER_NAME=n")), 0);
	assert_true(conf.region_is_default);
	assert_int_equal(load_env(ENV("POD_UID=../../etc", "CONTAINER_NAME=n")), 0);
	assert_true(conf.region_is_default);
	assert_int_equal(load_env(ENV("POD_UID=p", "CONTAINER_NAME=a/b")), 0);
	assert_true(conf.region_is_default);
}

/* Folders cannot be looked into for want of memory. */
static bool is_starved;

DIR *opendir(const char *path)
{
	int fd;

	if (is_starved) {
		errno = ENOMEM;
		return NULL;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopendir(fd);
}

/* What cannot be looked at lifts no limit. */
static void test_region_that_cannot_be_looked_for(void **state)
{
	(void)state;
	is_starved = true;
	assert_int_equal(load_env(ENV("CONTAINER_VGPU_MOUNT=/m")), -EINVAL);
	assert_non_null(strstr(conf.error, "/m: Cannot allocate memory"));
	assert_int_equal(load_env(ENV("RATION_REGION=/r")), 0);
	is_starved = false;
	assert_int_equal(load_env(ENV("CONTAINER_VGPU_MOUNT=/m")), 0);
}

/* Without any of these variables, as after a login: what a scheduler has put there. */
static void test_region_that_is_found(void **state)
{
	const int32_t magic = HAMI_MAGIC;
	char mount[512];

	(void)state;
	snprintf(mount, sizeof(mount), "CONTAINER_VGPU_MOUNT=%s", scratch_dir);
	scratch_file("a.cache", "no region", 9);
	scratch_file("b.cach", &magic, sizeof(magic));
	scratch_file("libvgpu.so.cache", &magic, sizeof(magic));
	scratch_file(".cache", &magic, sizeof(magic));
	assert_int_equal(symlink("b.cach", scratch_path("c.cache")), 0);
	assert_int_equal(mkfifo(scratch_path("d.cache"), 0666), 0);
	assert_int_equal(load_env(ENV(mount)), 0);
	assert_string_equal(conf.region_path, CONF_DEFAULT_REGION);
	assert_true(conf.region_is_default);
	scratch_file("f.cache", &magic, sizeof(magic));
	scratch_file("e.cache", &magic, sizeof(magic));
	scratch_file("g.cache", &magic, sizeof(magic));
	assert_int_equal(load_env(ENV(mount)), 0);
	assert_string_equal(conf.region_path, scratch_path("e.cache"));
	/* Nobody may run without a limit for want of it. */
	assert_false(conf.region_is_default || conf.region_is_pod);
	assert_int_equal(load_env(ENV(mount, "RATION_REGION=/r")), 0);
	assert_string_equal(conf.region_path, "/r");
	assert_int_equal(load_env(ENV(mount, "POD_UID=p", "CONTAINER_NAME=n")), 0);
	assert_true(conf.region_is_pod);
}

static void test_log_levels(void **state)
{
	static const struct {
		const char *set;
		enum log_level level;
	} cases[] = {
		{ "LIBCUDA_LOG_LEVEL=0", LOG_ERROR }, { "LIBCUDA_LOG_LEVEL=1", LOG_ERROR },
		{ "LIBCUDA_LOG_LEVEL=2", LOG_WARN },  { "LIBCUDA_LOG_LEVEL=3", LOG_INFO },
		{ "LIBCUDA_LOG_LEVEL=4", LOG_DEBUG }, { "LIBCUDA_LOG_LEVEL=x", LOG_ERROR },
		{ "LIBCUDA_LOG_LEVEL=", LOG_ERROR },  { "RATION_LOG=error", LOG_ERROR },
		{ "RATION_LOG=warn", LOG_WARN },      { "RATION_LOG=info", LOG_INFO },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(load_env(ENV(cases[i].set)), 0);
		assert_int_equal(conf.log, cases[i].level);
	}
	assert_int_equal(load_env(ENV("LIBCUDA_LOG_LEVEL=4", "RATION_LOG=error")), 0);
	assert_int_equal(conf.log, LOG_ERROR);
}

static void test_priority(void **state)
{
	static const struct {
		const char *set;
		int priority;
	} cases[] = { { "CUDA_TASK_PRIORITY=0", 0 }, { "CUDA_TASK_PRIORITY=1", 1 },
		      { "CUDA_TASK_PRIORITY=7", 1 }, { "CUDA_TASK_PRIORITY=-1", 1 },
		      { "CUDA_TASK_PRIORITY=", 1 },  { "CUDA_TASK_PRIORITY=x", 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(load_env(ENV(cases[i].set)), 0);
		assert_int_equal(conf.priority, cases[i].priority);
	}
}

static void test_disable_control(void **state)
{
	static const char *const yes[] = { "1", "t", "T", "true", "True", "TRUE", "yes", "on" };
	static const char *const no[] = { "0", "f", "F", "false", "False", "no", "off", "" };
	char set[64];

	(void)state;
	for (int i = 0; i < 8; i++) {
		snprintf(set, sizeof(set), "CUDA_DISABLE_CONTROL=%s", yes[i]);
		assert_int_equal(load_env(ENV(set)), 0);
		assert_true(conf.disabled);
		snprintf(set, sizeof(set), "CUDA_DISABLE_CONTROL=%s", no[i]);
		assert_int_equal(load_env(ENV(set)), 0);
		assert_false(conf.disabled);
	}
	/* The container's choice goes above the scheduler's environment, not above `ration run`. */
	assert_int_equal(
		load_env(ENV("CUDA_DISABLE_CONTROL=true", "CUDA_DEVICE_MEMORY_LIMIT_0=1g")), 0);
	assert_true(conf.disabled);
	assert_int_equal(load_env(ENV("CUDA_DISABLE_CONTROL=true", "RATION_REGION=/r")), 0);
	assert_false(conf.disabled);
}

/* Whatever limit the operator's file sets, the environment cannot switch it off. */
static void test_disable_control_below_the_file(void **state)
{
	static const char *const files[] = {
		"RATION_MEM=1g\n",
		"CUDA_DEVICE_MEMORY_LIMIT=1g\n",
		"CUDA_DEVICE_MEMORY_LIMIT_0=1g\n",
		"CUDA_DEVICE_MEMORY_LIMIT_3=1g\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		assert_int_equal(load_file(files[i], ENV("CUDA_DISABLE_CONTROL=true",
							 "CUDA_DEVICE_MEMORY_LIMIT_0=5g",
							 "RATION_CHARGE_CONTEXT=false")),
				 0);
		if (conf.disabled || conf.context_free)
			fail_msg("the environment goes above the file's %s", files[i]);
	}
	assert_int_equal(
		load_file("RATION_MEM=1g\nCUDA_DISABLE_CONTROL=1\nRATION_CHARGE_CONTEXT=0\n",
			  ENV()),
		0);
	assert_true(conf.disabled);
	assert_true(conf.context_free);
	assert_int_equal(load_file("CUDA_DISABLE_CONTROL=0\n", ENV("CUDA_DISABLE_CONTROL=1")), 0);
	assert_false(conf.disabled);
}

static void test_file_goes_before_the_environment(void **state)
{
	(void)state;
	assert_int_equal(load_file("# the operator's\n"
				   "this line has no sign\n"
				   "\n"
				   "=nameless\n"
				   "CUDA_DEVICE_MEMORY_LIMIT=2g\r\n"
				   "CUDA_DEVICE_MEMORY_LIMIT_11=7g\r\n"
				   "RATION_NAME=from=the file",
				   ENV("CUDA_DEVICE_MEMORY_LIMIT=9g", "RATION_NAME=mine",
				       "RATION_LOG=info")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 2 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 11, UUID_A), 7 * GIB);
	assert_string_equal(conf.name, "from=the file");
	assert_int_equal(conf.log, LOG_INFO);
	assert_says(conf.mem_source, "/overrideEnv");
	assert_true(conf_is_from_file(&conf, "RATION_NAME"));
	assert_false(conf_is_from_file(&conf, "RATION_LOG"));
	assert_false(conf_is_from_file(&conf, "RATION_NAM"));
	assert_string_equal(conf_value(&conf, "RATION_LOG"), "info");
	assert_null(conf_value(&conf, "NOT_THERE"));
}

/* As setting one after the other would: the last line of a name holds. */
static void test_last_line_holds(void **state)
{
	(void)state;
	assert_int_equal(load_file("RATION_MEM=2g\nRATION_MEM=1g\n", ENV()), 0);
	assert_string_equal(conf.mem_spec, "1g");
}

static void test_limits_of_the_file_go_before_all(void **state)
{
	(void)state;
	assert_int_equal(load_file("CUDA_DEVICE_MEMORY_LIMIT=1g\n", ENV("RATION_MEM=100g")), 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), GIB);

	assert_int_equal(load_file("CUDA_DEVICE_MEMORY_LIMIT=1g\n",
				   ENV("CUDA_DEVICE_MEMORY_LIMIT_0=100g")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), GIB);

	/* What the file does not speak of stays as the scheduler set it. */
	assert_int_equal(load_file("CUDA_DEVICE_MEMORY_LIMIT_1=1g\n",
				   ENV("CUDA_DEVICE_MEMORY_LIMIT_0=3g",
				       "CUDA_DEVICE_MEMORY_LIMIT_1=100g",
				       "CUDA_DEVICE_MEMORY_LIMIT=4g")),
			 0);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 0, UUID_A), 3 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 1, UUID_A), 1 * GIB);
	assert_int_equal(limits_for_device(LIMITS_MEM, conf.mem_spec, 2, UUID_A), 4 * GIB);

	assert_int_equal(load_file("RATION_MEM=1g\n",
				   ENV("RATION_MEM=5g", "CUDA_DEVICE_MEMORY_LIMIT_0=7g")),
			 0);
	assert_string_equal(conf.mem_spec, "1g");
}

static void test_wrong_values_in_the_file(void **state)
{
	(void)state;
	assert_int_equal(load_file("CUDA_DEVICE_MEMORY_LIMIT=4x\n",
				   ENV("CUDA_DEVICE_MEMORY_LIMIT=1g")),
			 -EINVAL);
	assert_says(conf.error, "CUDA_DEVICE_MEMORY_LIMIT in /overrideEnv: '4x'");
	/* And where it is the environment's, the file is not named. */
	assert_int_equal(load_file("RATION_LOG=info\n", ENV("RATION_MEM=4x")), -EINVAL);
	assert_says(conf.error, "RATION_MEM: '4x'");
}

/* As a shell or another program would take it: under that name nobody looks for a limit. */
static void test_limits_in_the_file_that_are_no_lines_of_it(void **state)
{
	static const char *const wrong[] = {
		"export RATION_MEM=1g",
		"  RATION_MEM=1g",
		"\tRATION_SM=30",
		"RATION_MEM = 1g",
		"RATION_MEM: 1g",
		"RATION_MEM 1g",
		"RATION_MEM",
		"ration_mem=1g",
		"\xef\xbb\xbfRATION_MEM=1g",
		"\"RATION_MEM\"=1g",
		"export CUDA_DEVICE_SM_LIMIT=3",
		"CUDA_DEVICE_MEMORY_LIMIT_0 =1g",
		"CUDA_DEVICE_MEMORY_LIMIT_x=1g",
		"CUDA_DEVICE_MEMORY_LIMIT_=1g",
		"CUDA_DEVICE_MEMORY_LIMIT_1_2=1g",
		"ENV RATION_MEM=1g",
		"set -x RATION_MEM 1g",
	};
	static const char *const right[] = {
		"# RATION_MEM=1g",
		"#RATION_MEM=1g",
		"  # export RATION_MEM=1g",
		"RATION_MEMORY=1g",
		"export PATH=/x",
		"NOTE=RATION_MEM",
		"CUDA_DEVICE_MEMORY_LIMITS=1g",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		if (load_file(wrong[i], ENV("CUDA_DISABLE_CONTROL=true")) != -EINVAL)
			fail_msg("'%s' was passed over", wrong[i]);
		assert_says(conf.error, "/overrideEnv: ");
		assert_says(conf.error, "NAME=value");
		/* Nor may the environment switch off what was meant as a limit. */
		assert_false(conf.disabled);
	}
	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
		if (load_file(right[i], ENV()) != 0)
			fail_msg("'%s': %s", right[i], conf.error);
}

/* A file that is there and cannot be read whole may hold a limit: that is no "no limit". */
static void test_file_that_cannot_be_read(void **state)
{
	char *big = malloc(3 * CONF_FILE_BYTES);
	size_t n = 3 * CONF_FILE_BYTES;
	const char *path;

	(void)state;
	assert_non_null(big);
	memset(big, '#', n);
	memcpy(big + n - 15, "\nRATION_MEM=1g\n", 15);
	path = scratch_file("big", big, n);
	free(big);
	assert_int_equal(load(path, ENV()), -EINVAL);
	assert_says(conf.error, path);
	assert_says(conf.error, "too long");
	/* Nor may the environment switch off what nobody has read. */
	assert_int_equal(load(path, ENV("CUDA_DISABLE_CONTROL=true")), -EINVAL);
	assert_false(conf.disabled);
	assert_int_equal(load(path, ENV("RATION_CHARGE_CONTEXT=false")), -EINVAL);
	assert_false(conf.context_free);

	path = scratch_path("folder");
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(load(path, ENV()), -EINVAL);
	assert_says(conf.error, path);

	/* What is not there, or empty, is no file of the operator's. */
	assert_int_equal(load(scratch_path("none"), ENV()), 0);
	assert_int_equal(load(scratch_path("folder/none/none"), ENV()), 0);
	assert_int_equal(load("/dev/null", ENV()), 0);
	assert_int_equal(load(scratch_file("empty", "", 0), ENV()), 0);
}

static void body_unreadable(void *path)
{
	if (geteuid() == 0)
		CHECK(setuid(65534) == 0);
	CHECK(load(path, ENV()) == -EINVAL);
	CHECK(strstr(conf.error, path));
}

static void test_file_without_the_right_to_read(void **state)
{
	char path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s", scratch_file("secret", "RATION_MEM=1g\n", 14));
	assert_int_equal(chmod(path, 0), 0);
	child_run(body_unreadable, path);
}

static void test_file_of_zeros_and_no_end(void **state)
{
	static const char text[] = "\0\0RATION_MEM=1g\0RATION_NAME=n";

	(void)state;
	assert_int_equal(load(scratch_file("f", text, sizeof(text) - 1), ENV()), 0);
	assert_string_equal(conf.mem_spec, "1g");
	assert_string_equal(conf.name, "n");
}

static void test_rows_have_names(void **state)
{
	(void)state;
	assert_string_equal(conf_name(CONF_RATION_MEM), "RATION_MEM");
	for (int i = 0; i < CONF_COUNT; i++) {
		assert_true(strlen(conf_name((enum conf_var)i)) > 0);
		assert_true(strlen(conf_help((enum conf_var)i)) > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_places_that_cannot_be_understood),
		cmocka_unit_test(test_nothing_set),
		cmocka_unit_test(test_our_variables),
		cmocka_unit_test(test_what_cannot_be_understood),
		cmocka_unit_test(test_the_first_error_is_told),
		cmocka_unit_test(test_long_values),
		cmocka_unit_test(test_scheduler_limits),
		cmocka_unit_test(test_limits_of_gpu_time),
		cmocka_unit_test(test_policy),
		scratch_test(test_gpu_time_below_the_file),
		cmocka_unit_test(test_zero_of_one_device),
		cmocka_unit_test(test_index_out_of_reach),
		scratch_test(test_index_out_of_reach_in_the_file),
		cmocka_unit_test(test_all_indices),
		cmocka_unit_test(test_visible_uuids),
		cmocka_unit_test(test_odd_visible_devices),
		cmocka_unit_test(test_region_paths),
		scratch_test(test_region_that_is_found),
		cmocka_unit_test(test_region_that_cannot_be_looked_for),
		cmocka_unit_test(test_log_levels),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_disable_control),
		scratch_test(test_disable_control_below_the_file),
		scratch_test(test_file_goes_before_the_environment),
		scratch_test(test_last_line_holds),
		scratch_test(test_limits_of_the_file_go_before_all),
		scratch_test(test_wrong_values_in_the_file),
		scratch_test(test_limits_in_the_file_that_are_no_lines_of_it),
		scratch_test(test_file_that_cannot_be_read),
		scratch_test(test_file_without_the_right_to_read),
		scratch_test(test_file_of_zeros_and_no_end),
		cmocka_unit_test(test_rows_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
