/* How much memory this machine, or this container of it, has. */
#pragma once

#include <stdint.h>

/*
 * Half of the machine's memory, or of what the control group may have where that is less: what a
 * tenant may use of it in the place of device memory if nobody said how much. Reads files; 0 when
 * none says.
 */
uint64_t host_memory_default_bytes(void);
