#include "drv/sample_nvml.h"

#include "drv/real.h"
#include "fresh.h"

enum { CARDS = 2, SLICES = 7, ROWS = 300 };

#define CARD_UUID "GPU-00000001-0000-0000-0000-000000000000"

/* NVML: two cards, which may have MIG slices, and a list of processes on each. */
static struct {
	int load_rc;
	nvmlReturn_t init_res, count_res, list_res;
	int inits;
	unsigned slices[CARDS];
	unsigned rows;
	nvmlProcessInfo_t row[ROWS];
	unsigned grows; /* rows that appear between two questions */
	int asked;
} nvml;

struct real real;

int real_load_nvml(void)
{
	return nvml.load_rc;
}

static nvmlReturn_t init(void)
{
	nvml.inits++;
	return nvml.init_res;
}

static nvmlReturn_t get_count(unsigned int *out_count)
{
	*out_count = CARDS;
	return nvml.count_res;
}

/* Cards are 1 and 2, a slice is its card * 16 + its number + 1. */
static nvmlDevice_t handle(uintptr_t number)
{
	return (nvmlDevice_t)number;
}

static nvmlReturn_t by_index(unsigned int index, nvmlDevice_t *out_dev)
{
	*out_dev = handle(index + 1);
	return NVML_SUCCESS;
}

static nvmlReturn_t get_uuid(nvmlDevice_t dev, char *out, unsigned int bytes)
{
	uintptr_t number = (uintptr_t)dev;

	/* Room for the longest name there is, whatever this one is. Field fault 124. */
	if (bytes < NVML_DEVICE_UUID_V2_BUFFER_SIZE)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	snprintf(out, bytes, "%s-%08x-0000-0000-0000-000000000000", number > 15 ? "MIG" : "GPU",
		 (unsigned)number);
	return NVML_SUCCESS;
}

static nvmlReturn_t by_uuid(const char *uuid, nvmlDevice_t *out_dev)
{
	*out_dev = handle(1);
	return strcmp(uuid, CARD_UUID) == 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t max_slices(nvmlDevice_t dev, unsigned int *out_count)
{
	*out_count = nvml.slices[(uintptr_t)dev - 1] ? SLICES : 0;
	return NVML_SUCCESS;
}

static nvmlReturn_t slice_by_index(nvmlDevice_t dev, unsigned int index, nvmlDevice_t *out_dev)
{
	/* The places of slices have gaps. */
	if (index % 2 || index / 2 >= nvml.slices[(uintptr_t)dev - 1])
		return NVML_ERROR_NOT_FOUND;
	*out_dev = handle((uintptr_t)dev * 16 + index / 2 + 1);
	return NVML_SUCCESS;
}

static nvmlReturn_t list(nvmlDevice_t dev, unsigned int *inout_count, nvmlProcessInfo_t *out)
{
	unsigned room = *inout_count;

	CHECK(dev == handle(1));
	nvml.asked++;
	if (nvml.list_res != NVML_SUCCESS)
		return nvml.list_res;
	*inout_count = nvml.rows;
	if (nvml.rows > room) {
		nvml.rows += nvml.grows;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	memcpy(out, nvml.row, nvml.rows * sizeof(*out));
	return NVML_SUCCESS;
}

static nvmlReturn_t list_v2(nvmlDevice_t dev, unsigned int *inout_count, nvmlProcessInfo_v2_t *out)
{
	return list(dev, inout_count, (nvmlProcessInfo_t *)out);
}

static void start(void)
{
	real = (struct real){ .nvmlInit_v2 = init,
			      .nvmlDeviceGetCount_v2 = get_count,
			      .nvmlDeviceGetHandleByIndex_v2 = by_index,
			      .nvmlDeviceGetHandleByUUID = by_uuid,
			      .nvmlDeviceGetUUID = get_uuid,
			      .nvmlDeviceGetMaxMigDeviceCount = max_slices,
			      .nvmlDeviceGetMigDeviceHandleByIndex = slice_by_index,
			      .nvmlDeviceGetComputeRunningProcesses_v3 = list };
}

static void add_process(unsigned pid, uint64_t bytes)
{
	nvml.row[nvml.rows++] = (nvmlProcessInfo_t){ .pid = pid, .usedGpuMemory = bytes };
}

static void add_others(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		add_process((unsigned)getpid() + 1 + i, 5);
}

static void add_own(uint64_t bytes)
{
	add_process((unsigned)getpid(), bytes);
}

static int own_bytes(uint64_t *out_bytes)
{
	return sample_nvml_process_bytes(CARD_UUID, out_bytes);
}

/* As a program that asked before its first context. */
static void start_absent(void)
{
	start();
	add_others(3);
	sample_nvml_check_pids(CARD_UUID);
}

static void without_nvml_nothing_is_known(void)
{
	struct device_info found[4];
	uint64_t bytes;

	start();
	nvml.load_rc = -ENOENT;
	CHECK(sample_nvml_devices(found, 4) == -ENOTSUP);
	CHECK(!sample_nvml_knows(CARD_UUID));
	sample_nvml_check_pids(CARD_UUID);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
	CHECK_EQ(nvml.inits, 0);
}

static void nvml_that_does_not_start(void)
{
	struct device_info found[4];

	start();
	nvml.init_res = NVML_ERROR_DRIVER_NOT_LOADED;
	CHECK(sample_nvml_devices(found, 4) == -ENOTSUP);
	CHECK(!sample_nvml_knows(CARD_UUID));
	CHECK_EQ(nvml.inits, 1);
}

static void cards_in_order(void)
{
	struct device_info found[4];

	start();
	CHECK_EQ(sample_nvml_devices(found, 4), 2);
	CHECK(strcmp(found[0].uuid, CARD_UUID) == 0);
	CHECK_EQ(found[0].physical_bytes, 0);
	CHECK_EQ(sample_nvml_devices(found, 1), 1);
	CHECK(sample_nvml_knows(CARD_UUID));
	CHECK(!sample_nvml_knows("GPU-00000009-0000-0000-0000-000000000000"));
	CHECK_EQ(nvml.inits, 1);
	nvml.count_res = NVML_ERROR_UNKNOWN;
	CHECK(sample_nvml_devices(found, 4) == -ENOTSUP);
}

static void slices_stand_in_the_place_of_their_card(void)
{
	struct device_info found[4];

	start();
	nvml.slices[0] = 2;
	CHECK_EQ(sample_nvml_devices(found, 4), 3);
	CHECK(strncmp(found[0].uuid, "MIG-00000011", 12) == 0);
	CHECK(strncmp(found[1].uuid, "MIG-00000012", 12) == 0);
	CHECK(strncmp(found[2].uuid, "GPU-00000002", 12) == 0);
	CHECK_EQ(sample_nvml_devices(found, 1), 1);
	real.nvmlDeviceGetMaxMigDeviceCount = NULL;
	CHECK_EQ(sample_nvml_devices(found, 4), 2);
}

static void the_own_row_is_found(void)
{
	uint64_t bytes = 7;

	start_absent();
	add_own(1234567);
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 1234567);
	/* It had one before, so now it holds nothing. */
	nvml.rows--;
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 0);
	CHECK(sample_nvml_process_bytes("GPU-unknown", &bytes) == -ENOTSUP);
}

static void an_older_nvml_has_the_second_form(void)
{
	uint64_t bytes = 0;

	start_absent();
	add_own(77);
	real.nvmlDeviceGetComputeRunningProcesses_v3 = NULL;
	CHECK(own_bytes(&bytes) == -ENOTSUP);
	real.nvmlDeviceGetComputeRunningProcesses_v2 = list_v2;
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 77);
}

static void many_processes(void)
{
	uint64_t bytes = 0;

	start_absent();
	add_others(60);
	add_own(99);
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 99);
	CHECK_EQ(sample_nvml_rows(), 64);
	/* How many there are is known by now: one question is enough. */
	nvml.asked = 0;
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(nvml.asked, 1);
	/* Less of them than a list has room for, and none: no more is kept than was said last. */
	nvml.rows = 2;
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 0);
	CHECK_EQ(sample_nvml_rows(), 2);
}

/* While its contexts may be off the card the list says nothing of it. */
static void it_rests_while_contexts_are_away(void)
{
	uint64_t bytes = 5;

	start_absent();
	add_own(99);
	CHECK_EQ(own_bytes(&bytes), 0);
	sample_nvml_rest(true);
	nvml.rows = 0;
	CHECK(own_bytes(&bytes) == -EAGAIN);
	CHECK_EQ(bytes, 99);
	sample_nvml_rest(false);
	add_own(98);
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 98);
}

/* So many that the second question is too small as well. */
static void more_come_meanwhile(void)
{
	uint64_t bytes = 0;

	start_absent();
	add_others(60);
	add_own(99);
	nvml.grows = 100;
	CHECK(own_bytes(&bytes) == -EAGAIN);
	nvml.grows = 0;
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 99);
}

static void what_nvml_does_not_say_is_not_known(void)
{
	uint64_t bytes = 0;

	start_absent();
	add_own(UINT64_MAX);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
	nvml.row[3].usedGpuMemory = 5;
	CHECK_EQ(own_bytes(&bytes), 0);
	nvml.list_res = NVML_ERROR_NOT_SUPPORTED;
	CHECK(own_bytes(&bytes) == -ENOTSUP);
}

/* The pid is in the list before this process has a context: these are another namespace's pids. */
static void foreign_pids_are_never_trusted(void)
{
	uint64_t bytes = 0;

	start();
	add_own(500);
	sample_nvml_check_pids(CARD_UUID);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
	nvml.rows = 0;
	sample_nvml_check_pids(CARD_UUID);
	add_own(500);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
}

/* It has a context and is not in the list: the same. */
static void pids_are_not_trusted_before_they_are_seen(void)
{
	uint64_t bytes = 0;

	start();
	add_own(500);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
	nvml.rows = 0;
	sample_nvml_check_pids(CARD_UUID);
	add_others(2);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
}

static void a_child_asks_for_itself(void)
{
	uint64_t bytes = 0;
	int status;
	pid_t pid;

	start_absent();
	add_own(500);
	CHECK_EQ(own_bytes(&bytes), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		nvml.rows = 0;
		CHECK(own_bytes(&bytes) == -ENOTSUP);
		sample_nvml_check_pids(CARD_UUID);
		add_own(30);
		CHECK_EQ(own_bytes(&bytes), 0);
		CHECK_EQ(bytes, 30);
		CHECK_EQ(nvml.inits, 2);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* What a search has taken, and what it moves in the list. */
struct mover {
	int rows[2];     /* that rise with what is taken; negative: none */
	bool is_busy;    /* another thread of ours allocates meanwhile */
	bool is_short;   /* there is nothing to take */
	bool is_stuck;   /* what was taken is not given back */
	unsigned blocks; /* that may be taken at once */
	int taken;       /* times */
	uint64_t bytes;
};

static bool take(void *arg, uint64_t bytes)
{
	struct mover *m = arg;

	CHECK(bytes > 0 && bytes % (2 << 20) == 0 && bytes <= 8 << 20 && m->bytes == 0);
	if (m->is_short)
		return false;
	m->taken++;
	m->bytes = bytes;
	for (int i = 0; i < 2; i++)
		if (m->rows[i] >= 0)
			nvml.row[m->rows[i]].usedGpuMemory += bytes + m->is_busy;
	return true;
}

static bool give(void *arg)
{
	struct mover *m = arg;

	if (m->is_stuck)
		return false;

	for (int i = 0; i < 2; i++)
		if (m->rows[i] >= 0)
			nvml.row[m->rows[i]].usedGpuMemory -= m->bytes;
	m->bytes = 0;
	return true;
}

static unsigned find(struct mover *m)
{
	struct fingerprint f = {
		.take = take, .give = give, .arg = m, .blocks_most = m->blocks, .seed = 5
	};
	unsigned pid = sample_nvml_find_own(CARD_UUID, &f);

	CHECK(m->is_stuck || m->bytes == 0);
	return pid;
}

/* Our row stands under a pid that is not ours: the second of three others. */
static void a_row_under_another_pid_is_found(void)
{
	struct mover m = { .rows = { 1, -1 }, .blocks = 4 };
	uint64_t bytes = 0;

	start_absent();
	CHECK(own_bytes(&bytes) == -ENOTSUP);
	CHECK_EQ(find(&m), getpid() + 2);
	CHECK_EQ(m.taken, 6);
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 5);
	/* It is known now. */
	CHECK_EQ(find(&m), 0);
	CHECK_EQ(m.taken, 6);
}

/* Another process has our number: the row that moves counts. */
static void our_number_is_not_our_row(void)
{
	struct mover m = { .rows = { 1, -1 }, .blocks = 4 };
	uint64_t bytes = 0;

	start();
	add_own(500);
	add_process((unsigned)getpid() + 9, 30);
	sample_nvml_check_pids(CARD_UUID);
	CHECK_EQ(find(&m), getpid() + 9);
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 30);
}

/* No row moves as it should, or two do: nothing is guessed. */
static void what_does_not_move_is_not_ours(void)
{
	struct mover none = { .rows = { -1, -1 }, .blocks = 4 },
		     two = { .rows = { 0, 1 }, .blocks = 4 };
	struct mover busy = { .rows = { 0, -1 }, .is_busy = true, .blocks = 4 };
	uint64_t bytes;

	start_absent();
	CHECK_EQ(find(&none), 0);
	CHECK_EQ(find(&two), 0);
	CHECK_EQ(find(&busy), 0);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
}

/* Without memory to take, or with a list that cannot be read, the row stays unknown. */
static void a_search_that_cannot_be_made(void)
{
	struct mover m = { .rows = { 0, -1 }, .is_short = true, .blocks = 4 };

	start_absent();
	CHECK_EQ(find(&m), 0);
	m.is_short = false;
	nvml.list_res = NVML_ERROR_NOT_SUPPORTED;
	CHECK_EQ(find(&m), 0);
	CHECK_EQ(m.taken, 0);
	nvml.list_res = NVML_SUCCESS;
	CHECK_EQ(find(&m), getpid() + 1);
}

/* What was taken cannot be given back: no more is taken. */
static void a_search_that_is_stuck_ends(void)
{
	struct mover m = { .rows = { 1, -1 }, .is_stuck = true, .blocks = 4 };

	start_absent();
	CHECK_EQ(find(&m), 0);
	CHECK_EQ(m.taken, 1);
}

/* A list that grew while it was read says nothing about whose pids are in it. */
static void a_list_that_grows_decides_nothing(void)
{
	struct mover m = { .rows = { 60, -1 }, .blocks = 4 };
	uint64_t bytes = 0;

	start();
	add_others(60);
	nvml.grows = 100;
	sample_nvml_check_pids(CARD_UUID);
	nvml.grows = 0;
	nvml.rows = 60;
	sample_nvml_check_pids(CARD_UUID);
	add_own(500);
	CHECK_EQ(own_bytes(&bytes), 0);
	CHECK_EQ(bytes, 500);
	CHECK_EQ(find(&m), 0);
}

/* With a context, looked for and not listed: who has our number later is somebody else. */
static void who_comes_later_under_our_number_is_another(void)
{
	struct mover m = { .rows = { -1, -1 }, .blocks = 4 };
	uint64_t bytes = 0;

	start_absent();
	CHECK_EQ(find(&m), 0);
	add_own(500);
	CHECK(own_bytes(&bytes) == -ENOTSUP);
}

/* A search that failed is not the last; and two blocks that fit are enough, by more rounds. */
static void it_is_searched_again(void)
{
	struct mover m = { .rows = { 0, -1 }, .is_busy = true, .blocks = 4 };

	start_absent();
	for (int i = 0; i < 5; i++)
		CHECK_EQ(find(&m), 0);
	m = (struct mover){ .rows = { 0, -1 }, .blocks = 1 };
	CHECK_EQ(find(&m), 0);
	CHECK_EQ(m.taken, 0);
	m.blocks = 2;
	CHECK_EQ(find(&m), getpid() + 1);
	CHECK_EQ(m.taken, 12);
}

/* A list too long for the first question. */
static void a_row_among_many_is_found(void)
{
	struct mover m = { .rows = { 60, -1 }, .blocks = 4 };

	start_absent();
	add_others(90);
	nvml.row[60].pid = 4000000;
	CHECK_EQ(find(&m), 4000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(without_nvml_nothing_is_known),
		fresh_test(nvml_that_does_not_start),
		fresh_test(cards_in_order),
		fresh_test(slices_stand_in_the_place_of_their_card),
		fresh_test(the_own_row_is_found),
		fresh_test(an_older_nvml_has_the_second_form),
		fresh_test(many_processes),
		fresh_test(it_rests_while_contexts_are_away),
		fresh_test(more_come_meanwhile),
		fresh_test(what_nvml_does_not_say_is_not_known),
		fresh_test(foreign_pids_are_never_trusted),
		fresh_test(pids_are_not_trusted_before_they_are_seen),
		fresh_test(a_child_asks_for_itself),
		fresh_test(a_row_under_another_pid_is_found),
		fresh_test(our_number_is_not_our_row),
		fresh_test(what_does_not_move_is_not_ours),
		fresh_test(a_search_that_cannot_be_made),
		fresh_test(it_is_searched_again),
		fresh_test(a_row_among_many_is_found),
		fresh_test(a_search_that_is_stuck_ends),
		fresh_test(a_list_that_grows_decides_nothing),
		fresh_test(who_comes_later_under_our_number_is_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
