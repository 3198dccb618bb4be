/* What the kernel and the file systems give Ration here. */
#pragma once

/* Reports the state of the preload: LD_PRELOAD, /etc/ld.so.preload, a setuid start. */
void doctor_system_preload(void);

/* Reports what Ration needs of the kernel. */
void doctor_system_kernel(void);

/* Reports what the directory of the region file at `path` can do. */
void doctor_system_region(const char *path);

/* Reports what no preloaded library can reach. */
void doctor_system_limits(void);
