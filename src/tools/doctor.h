/* `ration doctor`: does Ration work in this environment, and which limits hold? */
#pragma once

/* The command, argv[0] being its name. Returns the exit status. */
int doctor_main(int argc, char **argv);
