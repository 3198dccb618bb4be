#include "drv/sample_busy.h"

#include "drv/real.h"
#include "drv/sample_nvml.h"

#include <errno.h>
#include <time.h>

/* As many as a card is busy for in a second; of more, which have no room, nothing is shown. */
enum { ROWS = 128 };

#define USEC_PER_SEC UINT64_C(1000000)

/* Of our process, as far as it was seen. */
struct newest {
	unsigned pid;
	uint64_t at_us;
	unsigned pct;
};

/* NVML's time stamps are of this clock. */
static uint64_t a_second_ago_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * USEC_PER_SEC + (uint64_t)now.tv_nsec / 1000 - USEC_PER_SEC;
}

static void see(struct newest *newest, unsigned pid, uint64_t at_us, unsigned pct)
{
	if (pid != newest->pid || at_us < newest->at_us)
		return;
	newest->at_us = at_us;
	newest->pct = pct < 100 ? pct : 100;
}

/* What a question's answer means: rows, none, or that it cannot be asked. */
static int status(nvmlReturn_t res)
{
	return res == NVML_SUCCESS || res == NVML_ERROR_NOT_FOUND ? 0 : -ENOTSUP;
}

static int ask_infos(nvmlDevice_t dev, struct newest *newest)
{
	nvmlProcessUtilizationInfo_v1_t rows[ROWS];
	nvmlProcessesUtilizationInfo_t infos = {
		.version = nvmlProcessesUtilizationInfo_v1,
		.processSamplesCount = ROWS,
		.lastSeenTimeStamp = a_second_ago_us(),
		.procUtilArray = rows,
	};
	nvmlReturn_t res;

	if (!real.nvmlDeviceGetProcessesUtilizationInfo)
		return -ENOTSUP;
	res = real.nvmlDeviceGetProcessesUtilizationInfo(dev, &infos);
	for (unsigned i = 0; res == NVML_SUCCESS && i < infos.processSamplesCount && i < ROWS; i++)
		see(newest, rows[i].pid, rows[i].timeStamp, rows[i].smUtil);
	return status(res);
}

static int ask_samples(nvmlDevice_t dev, struct newest *newest)
{
	nvmlProcessUtilizationSample_t rows[ROWS];
	unsigned count = ROWS;
	nvmlReturn_t res;

	if (!real.nvmlDeviceGetProcessUtilization)
		return -ENOTSUP;
	res = real.nvmlDeviceGetProcessUtilization(dev, rows, &count, a_second_ago_us());
	for (unsigned i = 0; res == NVML_SUCCESS && i < count && i < ROWS; i++)
		see(newest, rows[i].pid, rows[i].timeStamp, rows[i].smUtil);
	return status(res);
}

int sample_busy_pct(const char *uuid, unsigned *out_pct)
{
	struct newest newest = { 0 };
	nvmlDevice_t dev;
	int rc;

	if (!sample_nvml_own(uuid, &dev, &newest.pid))
		return -ENOTSUP;
	rc = ask_infos(dev, &newest);
	if (rc < 0)
		rc = ask_samples(dev, &newest);
	if (rc == 0)
		*out_pct = newest.pct;
	return rc;
}
