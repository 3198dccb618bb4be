/*
 * What NVML says: the cards there are, and what this process holds on them.
 *
 * NVML is loaded and initialised at the first question and stays so. Questions take tens of
 * microseconds and hold no lock of ours.
 */
#pragma once

#include "abi/nvml.h"
#include "core/device.h"
#include "drv/fingerprint.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * All devices that NVML shows, MIG slices in the place of their card, in its order. Count, or
 * -errno.
 */
int sample_nvml_devices(struct device_info *out, int max);

/* True when NVML knows a device of this UUID. */
bool sample_nvml_knows(const char *uuid);

/*
 * Device memory this process holds on the device, as struct gpu_ops has it. -ENOTSUP where NVML
 * does not list processes or lists them under pids of another namespace.
 */
int sample_nvml_process_bytes(const char *uuid, uint64_t *out_bytes);

/* The device, and the pid that this process has in its lists. False where that is not known. */
bool sample_nvml_own(const char *uuid, nvmlDevice_t *out_dev, unsigned *out_pid);

/* What the device has free, whoever has the rest. 0 or -ENOTSUP. */
int sample_nvml_card_free(const char *uuid, uint64_t *out_bytes);

/*
 * While this process's contexts may be off the cards its figure is not to be had: -EAGAIN, as when
 * it changes all the time.
 */
void sample_nvml_rest(bool is_wanted);

/* How many processes NVML listed when it was asked last, 0 before. */
unsigned sample_nvml_rows(void);

/*
 * Called before this process makes its first context: with pids of our own namespace we are not in
 * the list yet. If we are, somebody else has our number there, and the figure is never used.
 */
void sample_nvml_check_pids(const char *uuid);

/*
 * Where NVML's list does not show this process under its own pid (older drivers list those of the
 * host): searches its row by what it is made to hold, and goes by that row from then on. This
 * process has a context on the device. The pid in the list, or 0.
 */
unsigned sample_nvml_find_own(const char *uuid, const struct fingerprint *fingerprint);
