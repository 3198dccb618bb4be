/* The lines of `ration doctor`: a verdict, a topic, what was found, and what to do about it. */
#pragma once

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_NOTE, /* a fact that is neither good nor bad */
	DOCTOR_WARN, /* Ration works, but not as somebody may expect */
	DOCTOR_FAIL,
};

/* Writes one line to standard output. */
void doctor_report(enum doctor_verdict verdict, const char *topic, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Counts failures that another process has reported. */
void doctor_report_add(int failures);

/* How many failures there were. */
int doctor_report_failures(void);
