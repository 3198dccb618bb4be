/* Reserved addresses and the mappings in them. The driver's lock protects them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* True when `address` lies in a reservation. */
bool cuda_vmm_is_reserved(uint64_t address);

/* The reservation that holds `address`; false when there is none. */
bool cuda_vmm_reservation(uint64_t address, uint64_t *out_start, uint64_t *out_bytes);
