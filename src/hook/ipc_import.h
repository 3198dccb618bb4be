/*
 * Memory of other processes' objects, mapped here by cuIpcOpenMemHandle. It has addresses of its
 * own. While it is open the exporter keeps it and is charged for it, whatever its program does.
 *
 * Thread safe. The driver is called inside the gate.
 */
#pragma once

#include "core/device.h"
#include "hook/ipc_handle.h"

/* Starts: fork children begin with nothing. */
void ipc_import_start(void);

/*
 * Opens a handle in context `ctx` of a device. What is open there already is opened once more, at
 * the same address. Memory of another tenant is charged here too. CUDA_SUCCESS, or what the driver
 * says of a handle that is none.
 */
CUresult ipc_import_open(const struct ipc_handle *handle, struct dev dev, const void *ctx,
			 CUdeviceptr *out_addr);

/* True when such memory begins at the address. */
bool ipc_import_has(CUdeviceptr addr);

/*
 * One opening less. With the last one it waits for the work of its context and takes the mapping
 * away, and the charge. CUDA_SUCCESS; CUDA_ERROR_INVALID_VALUE when nothing is open there, or the
 * error of a capture, which leaves it open.
 */
CUresult ipc_import_close(CUdeviceptr addr);

/* What a context that is about to end has open: taken out, then ended, or put back. */
struct ipc_import;
struct ipc_import *ipc_import_take(const void *ctx);
void ipc_import_end(struct ipc_import *taken);
void ipc_import_put_back(struct ipc_import *taken);

/* A round of the worker: what a dead exporter was charged for is charged here. */
void ipc_import_tick(void);
