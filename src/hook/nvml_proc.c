/*
 * NVML's lists of processes: those of the tenant, under the pids that this process knows.
 *
 * A process of another tenant is not shown, nor one of a pid namespace that has no name here. The
 * compute list is the tenant's living processes that hold memory of the device, whatever NVML
 * lists; the graphics and MPS lists are those of them that NVML has there. Bytes are what is
 * charged.
 *
 * nvmlSystemGetProcessName reads /proc in this process's own namespace and stays as it is: it names
 * the pids that are shown here, and nobody whom /proc would not show.
 */
#include "drv/nvml_list.h"
#include "hook/lookup.h"
#include "hook/nvml_share.h"

#include <stdlib.h>
#include <string.h>

/* The layouts differ in their length alone: each begins like the longest one. */
typedef nvmlProcessDetail_v1_t row;
enum { ROW_BYTES_V1 = 16, ROW_BYTES_V2 = 24, ROW_BYTES_MAX = NVML_LIST_ROW_BYTES_MAX };
enum { ROWS_SPARE = 32, TRIES = 8 };
#define ROW_AT(type, field)                                                             \
	_Static_assert(offsetof(type, field) == offsetof(row, field) &&                 \
			       sizeof(((type *)0)->field) == sizeof(((row *)0)->field), \
		       "the layouts begin alike")
ROW_AT(nvmlProcessInfo_v1_t, pid);
ROW_AT(nvmlProcessInfo_v1_t, usedGpuMemory);
ROW_AT(nvmlProcessInfo_v2_t, pid);
ROW_AT(nvmlProcessInfo_v2_t, usedGpuMemory);
ROW_AT(nvmlProcessInfo_v2_t, gpuInstanceId);
ROW_AT(nvmlProcessInfo_v2_t, computeInstanceId);
ROW_AT(nvmlProcessInfo_t, computeInstanceId);
_Static_assert(sizeof(nvmlProcessInfo_v1_t) == ROW_BYTES_V1, "layout of the first form");
_Static_assert(sizeof(nvmlProcessInfo_v2_t) == ROW_BYTES_V2, "layout of _v2");
_Static_assert(sizeof(nvmlProcessInfo_t) == ROW_BYTES_V2, "layout of _v3");
_Static_assert(sizeof(row) == ROW_BYTES_MAX, "layout of the detailed list");

struct list;
typedef nvmlReturn_t ask_rows(const struct list *list, nvmlDevice_t dev, unsigned *inout_count,
			      void *out_rows);

/* One of NVML's lists, and how it is asked for. */
struct list {
	ask_rows *ask;
	size_t row_bytes;
	bool is_compute; /* else those are shown that NVML lists */
	unsigned mode;   /* of nvmlDeviceGetRunningProcessDetailList */
};

/* NVML's rows; the caller frees them. */
struct answer {
	char *rows;
	unsigned count;
	size_t row_bytes;
};

/*
 * How long NVML's rows are. Who calls a driver with another layout than the header says knows that,
 * so our rows are as long as the driver's own. Where it has none the header holds.
 */
static size_t measure_row(const struct answer *a, unsigned room)
{
	return a->count == 0 || a->count >= room ?
		       a->row_bytes :
		       nvml_list_row_bytes(a->rows, (size_t)room * ROW_BYTES_MAX, a->count,
					   a->row_bytes);
}

/* All of NVML's list. */
static nvmlReturn_t ask_all(const struct list *list, nvmlDevice_t dev, struct answer *a)
{
	nvmlReturn_t res = NVML_ERROR_MEMORY;
	unsigned room = 0;

	*a = (struct answer){ .row_bytes = list->row_bytes };
	for (int i = 0; i < TRIES; i++) {
		room = (a->count > room ? a->count : room) + ROWS_SPARE;
		free(a->rows);
		a->rows = malloc((size_t)room * ROW_BYTES_MAX);
		if (!a->rows)
			return NVML_ERROR_MEMORY;
		memset(a->rows, NVML_LIST_FILL, (size_t)room * ROW_BYTES_MAX);
		a->count = room;
		res = list->ask(list, dev, &a->count, a->rows);
		/* It may have grown; and a full one does not show how long its rows are. */
		if (res != NVML_ERROR_INSUFFICIENT_SIZE && a->count != room)
			break;
	}
	if (res != NVML_SUCCESS || a->count > room)
		a->count = 0;
	a->row_bytes = measure_row(a, room);
	return res;
}

static row row_at(const struct answer *a, unsigned i)
{
	row r = { 0 };

	memcpy(&r, a->rows + i * a->row_bytes, a->row_bytes);
	return r;
}

/* NVML's row of this process; without one what all rows of the device have in common. */
static row find_row(const struct answer *a, unsigned driver_pid)
{
	row common = {
		.gpuInstanceId = NVML_GPU_INSTANCE_ID_ANY,
		.computeInstanceId = NVML_COMPUTE_INSTANCE_ID_ANY,
	};

	for (unsigned i = 0; i < a->count; i++) {
		row r = row_at(a, i);

		if (r.pid == driver_pid)
			return r;
		/* On a MIG slice all are in one instance. */
		common.gpuInstanceId = r.gpuInstanceId;
		common.computeInstanceId = r.computeInstanceId;
	}
	return common;
}

static bool is_listed(const struct answer *a, unsigned driver_pid)
{
	for (unsigned i = 0; i < a->count; i++)
		if (row_at(a, i).pid == driver_pid)
			return true;
	return false;
}

/* Leaves of `members` those that the list shows: how many. */
static int keep_listed(const struct list *list, const struct answer *a, struct nvml_member *members,
		       int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++)
		if (list->is_compute ? members[i].used_bytes > 0 :
				       is_listed(a, members[i].driver_pid))
			members[kept++] = members[i];
	return kept;
}

/* Writes the rows where NVML would, or says how many there are. */
static nvmlReturn_t deliver(const struct answer *a, const struct nvml_member *members,
			    unsigned count, unsigned *inout_count, char *out_rows)
{
	bool has_room = count <= *inout_count && (out_rows || count == 0);

	for (unsigned i = 0; has_room && i < count; i++) {
		row r = find_row(a, members[i].driver_pid);

		r.pid = members[i].pid;
		r.usedGpuMemory = members[i].used_bytes;
		memcpy(out_rows + i * a->row_bytes, &r, a->row_bytes);
	}
	*inout_count = count;
	return has_room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

/* The list as the tenant sees it, of what NVML answered. */
static nvmlReturn_t show_tenant(const struct list *list, const struct nvml_share *share,
				const struct answer *a, unsigned *inout_count, void *out_rows)
{
	struct nvml_member *members = NULL;
	int count = nvml_share_members(share, &members);
	nvmlReturn_t res = NVML_ERROR_MEMORY;

	if (count >= 0) {
		count = keep_listed(list, a, members, count);
		res = deliver(a, members, (unsigned)count, inout_count, out_rows);
	}
	free(members);
	return res;
}

/*
 * Asks NVML before anything of ours, which would initialise it. What it refuses it refuses in its
 * own words, and where nothing is limited all is its own.
 */
static nvmlReturn_t show(const struct list *list, nvmlDevice_t dev, unsigned *inout_count,
			 void *out_rows)
{
	bool has_place = inout_count && (out_rows || *inout_count == 0);
	struct answer answer = { .rows = NULL };
	struct nvml_share share;
	bool has_answer = has_place && ask_all(list, dev, &answer) == NVML_SUCCESS;
	uint64_t limit;
	nvmlReturn_t res;

	if (has_answer && nvml_share_is_unknown(dev, &limit))
		res = NVML_ERROR_UNKNOWN;
	else if (has_answer && nvml_share_find(dev, &share))
		res = show_tenant(list, &share, &answer, inout_count, out_rows);
	else
		res = list->ask(list, dev, inout_count, out_rows);
	free(answer.rows);
	return res;
}

/* Defines ask_<sym>(), which asks NVML for rows of `type`, and hook_<sym>(). */
#define LIST(sym, type, is_compute_list)                                                     \
	static nvmlReturn_t ask_##sym(const struct list *list, nvmlDevice_t dev,             \
				      unsigned *inout_count, void *out_rows)                 \
	{                                                                                    \
		(void)list;                                                                  \
		return real.sym(dev, inout_count, (type *)out_rows);                         \
	}                                                                                    \
	nvmlReturn_t hook_##sym(nvmlDevice_t dev, unsigned int *inout_count, type *out_rows) \
	{                                                                                    \
		const struct list list = { ask_##sym, sizeof(type), is_compute_list, 0 };    \
                                                                                             \
		if (!NVML_SHARE_HAS(sym))                                                    \
			return nvml_share_missing();                                         \
		if (nvml_share_is_inner(__builtin_return_address(0)))                        \
			return real.sym(dev, inout_count, out_rows);                         \
		return show(&list, dev, inout_count, out_rows);                              \
	}

LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, true)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, true)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, true)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, false)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, false)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, false)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, false)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, false)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, false)

static nvmlReturn_t ask_details(const struct list *list, nvmlDevice_t dev, unsigned *inout_count,
				void *out_rows)
{
	nvmlProcessDetailList_t details = {
		.version = nvmlProcessDetailList_v1,
		.mode = list->mode,
		.numProcArrayEntries = *inout_count,
		.procArray = out_rows,
	};
	nvmlReturn_t res = real.nvmlDeviceGetRunningProcessDetailList(dev, &details);

	*inout_count = details.numProcArrayEntries;
	return res;
}

/* A later layout could not be gone through: it is one that NVML does not know either. */
static nvmlReturn_t refuse_details(nvmlDevice_t dev, nvmlProcessDetailList_t *inout_list)
{
	nvmlProcessDetailList_t unknown = { .version = 0 };
	nvmlReturn_t res = real.nvmlDeviceGetRunningProcessDetailList(dev, &unknown);
	struct nvml_share share;
	uint64_t limit;

	return res != NVML_ERROR_UNINITIALIZED && (nvml_share_is_unknown(dev, &limit) ||
						   nvml_share_find(dev, &share)) ?
		       res :
		       real.nvmlDeviceGetRunningProcessDetailList(dev, inout_list);
}

nvmlReturn_t hook_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t dev,
							nvmlProcessDetailList_t *inout_list)
{
	struct list list = { ask_details, sizeof(nvmlProcessDetail_v1_t), false, 0 };

	if (!NVML_SHARE_HAS(nvmlDeviceGetRunningProcessDetailList))
		return nvml_share_missing();
	if (nvml_share_is_inner(__builtin_return_address(0)) || !inout_list)
		return real.nvmlDeviceGetRunningProcessDetailList(dev, inout_list);
	if (inout_list->version != nvmlProcessDetailList_v1)
		return refuse_details(dev, inout_list);
	list.mode = inout_list->mode;
	list.is_compute = list.mode == 0;
	return show(&list, dev, &inout_list->numProcArrayEntries, inout_list->procArray);
}
