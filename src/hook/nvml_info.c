/*
 * What NVML says of single processes' use of a device: only the tenant's are shown, under the pids
 * that this process knows. Where the region cannot be looked at nobody knows whose they are: then
 * the answer is NVML_ERROR_UNKNOWN.
 *
 * nvmlDeviceGetUtilizationRates stays as it is: it is the card's, as temperature and power are.
 */
#include "hook/lookup.h"
#include "hook/nvml_share.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PIDS_SPARE = 32, TRIES = 8 };

/* Rows that NVML wrote into a caller's array, whatever their type. */
struct samples {
	char *rows;
	size_t row_bytes, pid_at;
};

static unsigned read_pid(const char *row, size_t pid_at)
{
	unsigned pid;

	memcpy(&pid, row + pid_at, sizeof(pid));
	return pid;
}

static bool is_unknown(nvmlDevice_t dev)
{
	uint64_t limit;

	return nvml_share_is_unknown(dev, &limit);
}

/* Clears what NVML wrote of processes that may be anybody's. */
static nvmlReturn_t hide(const struct samples *s, unsigned *inout_count)
{
	memset(s->rows, 0, *inout_count * s->row_bytes);
	*inout_count = 0;
	return NVML_ERROR_UNKNOWN;
}

/* Leaves the rows of the tenant's processes, renamed; what stood behind them is cleared. */
static nvmlReturn_t keep(const struct nvml_share *share, const struct samples *s,
			 unsigned *inout_count)
{
	struct nvml_member *members = NULL;
	int member_count = nvml_share_members(share, &members);
	unsigned kept = 0;

	for (unsigned i = 0; i < *inout_count; i++) {
		const char *row = s->rows + i * s->row_bytes;
		char *to = s->rows + kept * s->row_bytes;
		const struct nvml_member *m = nvml_share_named(members, member_count,
							       read_pid(row, s->pid_at));

		if (!m)
			continue;
		memmove(to, row, s->row_bytes);
		memcpy(to + s->pid_at, &m->pid, sizeof(m->pid));
		kept++;
	}
	if (*inout_count > kept)
		memset(s->rows + kept * s->row_bytes, 0, (*inout_count - kept) * s->row_bytes);
	*inout_count = kept;
	free(members);
	if (member_count < 0)
		return NVML_ERROR_MEMORY;
	return kept ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/*
 * The size that a buffer must have is NVML's to say: its samples go into it before ours are left.
 */
nvmlReturn_t hook_nvmlDeviceGetProcessUtilization(nvmlDevice_t dev,
						  nvmlProcessUtilizationSample_t *out_utilization,
						  unsigned int *inout_count,
						  unsigned long long last_seen_time_stamp)
{
	struct samples samples = { (char *)out_utilization, sizeof(*out_utilization),
				   offsetof(nvmlProcessUtilizationSample_t, pid) };
	struct nvml_share share;
	nvmlReturn_t res;

	if (!NVML_SHARE_HAS(nvmlDeviceGetProcessUtilization))
		return nvml_share_missing();
	res = real.nvmlDeviceGetProcessUtilization(dev, out_utilization, inout_count,
						   last_seen_time_stamp);
	if (res != NVML_SUCCESS || nvml_share_is_inner(__builtin_return_address(0)) ||
	    !out_utilization)
		return res;
	if (is_unknown(dev))
		return hide(&samples, inout_count);
	if (!nvml_share_find(dev, &share))
		return res;
	return keep(&share, &samples, inout_count);
}

/* A later layout could not be gone through: it is one that NVML does not know either. */
static nvmlReturn_t refuse_infos(nvmlDevice_t dev, nvmlProcessesUtilizationInfo_t *inout_infos)
{
	nvmlProcessesUtilizationInfo_t unknown = { .version = 0 };
	nvmlReturn_t res = real.nvmlDeviceGetProcessesUtilizationInfo(dev, &unknown);
	struct nvml_share share;

	return res != NVML_ERROR_UNINITIALIZED &&
			       (is_unknown(dev) || nvml_share_find(dev, &share)) ?
		       res :
		       real.nvmlDeviceGetProcessesUtilizationInfo(dev, inout_infos);
}

nvmlReturn_t hook_nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t dev,
							nvmlProcessesUtilizationInfo_t *inout_infos)
{
	struct samples samples = { NULL, sizeof(nvmlProcessUtilizationInfo_v1_t),
				   offsetof(nvmlProcessUtilizationInfo_v1_t, pid) };
	struct nvml_share share;
	nvmlReturn_t res;

	if (!NVML_SHARE_HAS(nvmlDeviceGetProcessesUtilizationInfo))
		return nvml_share_missing();
	if (nvml_share_is_inner(__builtin_return_address(0)) || !inout_infos)
		return real.nvmlDeviceGetProcessesUtilizationInfo(dev, inout_infos);
	if (inout_infos->version != nvmlProcessesUtilizationInfo_v1)
		return refuse_infos(dev, inout_infos);
	res = real.nvmlDeviceGetProcessesUtilizationInfo(dev, inout_infos);
	samples.rows = (char *)inout_infos->procUtilArray;
	if (res != NVML_SUCCESS || !samples.rows)
		return res;
	if (is_unknown(dev))
		return hide(&samples, &inout_infos->processSamplesCount);
	if (!nvml_share_find(dev, &share))
		return res;
	return keep(&share, &samples, &inout_infos->processSamplesCount);
}

/* All pids that the card has accounts of; the caller frees them. */
static nvmlReturn_t ask_accounts(nvmlDevice_t dev, unsigned **out_pids, unsigned *out_count)
{
	nvmlReturn_t res = NVML_ERROR_INSUFFICIENT_SIZE;
	unsigned room = 0, count = 0, *pids = NULL;

	for (int i = 0; i < TRIES && res == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
		room = count > room ? count + PIDS_SPARE : room + PIDS_SPARE;
		free(pids);
		pids = calloc(room, sizeof(*pids));
		if (!pids)
			return NVML_ERROR_MEMORY;
		count = room;
		res = real.nvmlDeviceGetAccountingPids(dev, &count, pids);
	}
	*out_pids = pids;
	*out_count = res == NVML_SUCCESS && count <= room ? count : 0;
	return res;
}

/* Leaves the pids of the tenant's living processes: how many, or -ENOMEM. */
static int keep_accounts(const struct nvml_share *share, unsigned *pids, unsigned count)
{
	struct nvml_member *members = NULL;
	int member_count = nvml_share_members(share, &members), kept = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct nvml_member *m = nvml_share_named(members, member_count, pids[i]);

		if (m)
			pids[kept++] = m->pid;
	}
	free(members);
	return member_count < 0 ? member_count : kept;
}

/* The accounts of processes that have ended stay with the card: nobody can say whose they were. */
static nvmlReturn_t show_accounts(const struct nvml_share *share, unsigned *pids, unsigned all,
				  unsigned *inout_count, unsigned *out_pids)
{
	int count = keep_accounts(share, pids, all);
	bool has_room = count >= 0 && (unsigned)count <= *inout_count;

	if (count < 0)
		return NVML_ERROR_MEMORY;
	if (has_room && count > 0)
		memcpy(out_pids, pids, (size_t)count * sizeof(*pids));
	*inout_count = (unsigned)count;
	return has_room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t hook_nvmlDeviceGetAccountingPids(nvmlDevice_t dev, unsigned int *inout_count,
					      unsigned int *out_pids)
{
	bool has_place = inout_count && (out_pids || *inout_count == 0);
	unsigned *pids = NULL, all = 0;
	bool has_answer;
	struct nvml_share share;
	nvmlReturn_t res;

	if (!NVML_SHARE_HAS(nvmlDeviceGetAccountingPids))
		return nvml_share_missing();
	has_answer = !nvml_share_is_inner(__builtin_return_address(0)) && has_place &&
		     ask_accounts(dev, &pids, &all) == NVML_SUCCESS;
	if (has_answer && is_unknown(dev))
		res = NVML_ERROR_UNKNOWN;
	else if (has_answer && nvml_share_find(dev, &share))
		res = show_accounts(&share, pids, all, inout_count, out_pids);
	else
		res = real.nvmlDeviceGetAccountingPids(dev, inout_count, out_pids);
	free(pids);
	return res;
}

/*
 * Whose account `pid` is: NVML_SUCCESS when it is to be shown, with the pid by which NVML knows it.
 * Another's is one that the card does not have.
 */
static nvmlReturn_t find_account(nvmlDevice_t dev, unsigned pid, unsigned *out_driver_pid)
{
	struct nvml_member *members = NULL;
	struct nvml_share share;
	bool is_found = false;
	int count;

	*out_driver_pid = pid;
	if (is_unknown(dev))
		return NVML_ERROR_UNKNOWN;
	if (!nvml_share_find(dev, &share))
		return NVML_SUCCESS;
	count = nvml_share_members(&share, &members);
	for (int i = 0; i < count && !is_found; i++) {
		is_found = members[i].pid == pid;
		if (is_found)
			*out_driver_pid = members[i].driver_pid;
	}
	free(members);
	return is_found ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t hook_nvmlDeviceGetAccountingStats(nvmlDevice_t dev, unsigned int pid,
					       nvmlAccountingStats_t *out_stats)
{
	nvmlAccountingStats_t stats = { 0 };
	nvmlReturn_t res, found;
	unsigned driver_pid;

	if (!NVML_SHARE_HAS(nvmlDeviceGetAccountingStats))
		return nvml_share_missing();
	if (nvml_share_is_inner(__builtin_return_address(0)) || !out_stats)
		return real.nvmlDeviceGetAccountingStats(dev, pid, out_stats);
	res = real.nvmlDeviceGetAccountingStats(dev, pid, &stats);
	if (res == NVML_ERROR_UNINITIALIZED)
		return res;
	found = find_account(dev, pid, &driver_pid);
	if (found != NVML_SUCCESS)
		return res == NVML_SUCCESS ? found : res;
	return real.nvmlDeviceGetAccountingStats(dev, driver_pid, out_stats);
}

nvmlReturn_t hook_nvmlDeviceGetAccountingStats_v2(nvmlDevice_t dev,
						  nvmlAccountingStats_v2_t *out_stats)
{
	nvmlAccountingStats_v2_t stats;
	nvmlReturn_t res, found;
	unsigned driver_pid;

	if (!NVML_SHARE_HAS(nvmlDeviceGetAccountingStats_v2))
		return nvml_share_missing();
	if (nvml_share_is_inner(__builtin_return_address(0)) || !out_stats)
		return real.nvmlDeviceGetAccountingStats_v2(dev, out_stats);
	stats = *out_stats;
	res = real.nvmlDeviceGetAccountingStats_v2(dev, &stats);
	if (res == NVML_ERROR_UNINITIALIZED)
		return res;
	found = find_account(dev, out_stats->pid, &driver_pid);
	if (found != NVML_SUCCESS)
		return res == NVML_SUCCESS ? found : res;
	stats = *out_stats;
	stats.pid = driver_pid;
	res = real.nvmlDeviceGetAccountingStats_v2(dev, &stats);
	stats.pid = out_stats->pid;
	if (res == NVML_SUCCESS)
		*out_stats = stats;
	return res;
}
