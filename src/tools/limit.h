/* `ration limit`: the limits of a running tenant, shown or changed. */
#pragma once

/* The command, argv[0] being its name. Returns the exit status. */
int limit_main(int argc, char **argv);
