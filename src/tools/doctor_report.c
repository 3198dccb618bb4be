#include "tools/doctor_report.h"

#include <stdarg.h>
#include <stdio.h>

static struct {
	int failures;
} report;

void doctor_report(enum doctor_verdict verdict, const char *topic, const char *fmt, ...)
{
	static const char *const verdicts[] = { "ok", "note", "warn", "FAIL" };
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("%-5s %-13s %s\n", verdicts[verdict], topic, text);
	if (verdict == DOCTOR_FAIL)
		report.failures++;
}

void doctor_report_add(int failures)
{
	report.failures += failures;
}

int doctor_report_failures(void)
{
	return report.failures;
}
