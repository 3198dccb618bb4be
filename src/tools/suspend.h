/* `ration suspend` and `ration resume`: a tenant's memory leaves the GPU, and comes back. */
#pragma once

/* Both return an exit status of tools_common.h. */
int suspend_main(int argc, char **argv);
int resume_main(int argc, char **argv);
