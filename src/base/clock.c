#include "base/clock.h"

#include "base/sys.h"
#include "base/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void clock_sleep_ns(int64_t ns)
{
	struct timespec t = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };
	/* Whoever sleeps here has begun something that others see: it is not cancelled in it. */
	int held = sys_cancel_hold();

	nanosleep(&t, NULL);
	sys_cancel_release(held);
}

int64_t clock_nap_ns(int64_t waited_ns)
{
	const int64_t least_ns = 50 * NSEC_PER_USEC, most_ns = 32 * NSEC_PER_MSEC;
	const int64_t soon_ns = 2 * NSEC_PER_MSEC;
	int64_t nap_ns = waited_ns < soon_ns ? waited_ns : soon_ns;

	if (nap_ns < waited_ns / 16)
		nap_ns = waited_ns / 16;
	if (nap_ns < least_ns)
		return least_ns;
	return nap_ns < most_ns ? nap_ns : most_ns;
}

uint64_t clock_process_start(int pid)
{
	char path[32], text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The name in parentheses may hold anything; field 3 follows the last ')'. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? units_parse_digits(at + 1, NULL) : 0;
}
