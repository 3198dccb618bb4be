/*
 * The part of NVML that Ration names.
 *
 * Our own declarations, every symbol of the library under its ELF name: no macro renames a call to
 * its newest version. tests/lint/check-abi compares them with NVIDIA's header.
 */
#pragma once

#include "abi/nvml_proto_device.h"
#include "abi/nvml_proto_monitor.h"
