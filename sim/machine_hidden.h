/* Memory that a device holds and no process's figure shows, though it is a process's. */
#pragma once

#include <stdint.h>

/* `bytes` of what this process has taken of device i are in its figure no more. */
void machine_hide(int i, uint64_t bytes);

/* They are in it again: before they are given back. */
void machine_show(int i, uint64_t bytes);
