/*
 * What the parts of libnvidia-ml.so.1 share.
 *
 * The library's functions are interposable and call each other through the PLT, as the real ones
 * do: a preload sees nested calls.
 */
#pragma once

#pragma GCC visibility push(default)
#include "abi/nvml.h"
#pragma GCC visibility pop

#include "machine.h"

#include <stdbool.h>

/* NVML_SUCCESS after nvmlInit; else UNINITIALIZED, also in a fork child of a process that has
 * called it. */
nvmlReturn_t nvml_ready(void);

/*
 * nvml_ready(), and the card behind a handle. INVALID_ARGUMENT where there is none, NOT_SUPPORTED for a
 * slice: only what is said of slices too uses the forms with _any.
 */
nvmlReturn_t nvml_device_find(nvmlDevice_t dev, int *out_index);
nvmlReturn_t nvml_device_find_any(nvmlDevice_t dev, int *out_index);

/* nvml_device_find() for a function whose result goes to `out`, which may not be NULL. */
nvmlReturn_t nvml_device_ask(nvmlDevice_t dev, const void *out, int *out_index);
nvmlReturn_t nvml_device_ask_any(nvmlDevice_t dev, const void *out, int *out_index);

/* The handle of device i, 0 <= i < machine_count(). */
nvmlDevice_t nvml_device_handle(int i);

/* nvml_device_ask() where the answer is `value`, whatever the device. */
nvmlReturn_t nvml_device_answer(nvmlDevice_t dev, unsigned int *out, unsigned int value);

/* Writes `text` to a caller's buffer; INSUFFICIENT_SIZE where it does not fit. */
nvmlReturn_t nvml_device_write(const char *text, char *out, unsigned int len);

/* Number of processes that NVML lists for device i, of a divided card for all its slices: alive,
 * with a context, with a known pid.
 * Writes them to *out_list, which the caller frees; -1 without memory. */
int nvml_process_list(int i, struct machine_process **out_list);

/* Temperature of the device's memory. */
nvmlReturn_t nvml_monitor_memory_celsius(nvmlDevice_t dev, unsigned int *out_celsius);
