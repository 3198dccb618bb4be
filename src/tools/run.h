/* `ration run`: starts a program with the library in front of the driver, as its own tenant. */
#pragma once

/* The command, argv[0] being its name. Returns the exit status, or dies of the program's signal. */
int run_main(int argc, char **argv);
