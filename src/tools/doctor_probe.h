/*
 * The part of `ration doctor` that runs in a process of its own, with the library in front of the
 * driver as in any program: does every way to the driver's functions lead to the library?
 */
#pragma once

#define DOCTOR_PROBE_COMMAND "doctor-probe"

/*
 * The command. With the argument "driver" it looks at the driver only. Writes lines as the doctor
 * does; returns how many failures there were, at most DOCTOR_PROBE_MAX.
 */
int doctor_probe_main(int argc, char **argv);

enum { DOCTOR_PROBE_MAX = 100 };
