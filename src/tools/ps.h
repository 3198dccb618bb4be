/* `ration ps`: the tenants of this machine and their processes. */
#pragma once

/* The command, argv[0] being its name. Returns the exit status. */
int ps_main(int argc, char **argv);
