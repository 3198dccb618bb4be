/*
 * How busy NVML says that this process kept a device: where nothing is measured, its monitors are
 * shown that. The newer of NVML's two calls first; each is gone on some cards and drivers.
 */
#pragma once

/*
 * The newest share of the last second, in percent, 0 where NVML saw no work. 0, or -ENOTSUP where
 * neither call answers, or our row is not known.
 */
int sample_busy_pct(const char *uuid, unsigned *out_pct);
