#include "base/host_memory.h"

#include "base/bytes.h"
#include "base/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number behind `label` at the beginning of a small file, times `unit`; UINT64_MAX: none. */
static uint64_t number_in(const char *path, const char *label, uint64_t unit)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t value;
	char text[256];
	const char *at;
	ssize_t n;

	if (fd < 0)
		return UINT64_MAX;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (strncmp(text, label, strlen(label)) != 0)
		return UINT64_MAX;
	at = text + strlen(label);
	at += strspn(at, " ");
	if (*at < '0' || *at > '9')
		return UINT64_MAX;
	value = units_parse_digits(at, NULL);
	return __builtin_mul_overflow(value, unit, &value) ? UINT64_MAX : value;
}

uint64_t host_memory_default_bytes(void)
{
	static const char *const groups[] = { "/sys/fs/cgroup/memory.max",
					      "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
	uint64_t bytes = number_in("/proc/meminfo", "MemTotal:", 1024);

	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		bytes = bytes_least(bytes, number_in(groups[i], "", 1));
	return bytes == UINT64_MAX ? 0 : bytes / 2;
}
