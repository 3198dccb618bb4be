#include "base/conf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The value in the operator's file; of several lines with that name, the last. */
const char *conf_file_value(const struct conf *conf, const char *name)
{
	const char *value = NULL;
	size_t n = strlen(name);

	for (size_t at = 0; at < conf->file_bytes; at += strlen(conf->file + at) + 1)
		if (!strncmp(conf->file + at, name, n) && conf->file[at + n] == '=')
			value = conf->file + at + n + 1;
	return value;
}

/* Reads up to `bytes`: how many, or -errno. */
static ssize_t read_all(int fd, char *to, size_t bytes)
{
	size_t have = 0;
	ssize_t n;

	do {
		n = read(fd, to + have, bytes - have);
		if (n > 0)
			have += (size_t)n;
	} while (have < bytes && (n > 0 || (n < 0 && errno == EINTR)));
	return n < 0 ? -errno : (ssize_t)have;
}

/* Splits the file into NUL-ended lines without their carriage returns. */
void conf_file_read(struct conf *conf, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = -errno;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return;
	if (fd >= 0) {
		n = read_all(fd, conf->file, sizeof(conf->file));
		close(fd);
	}
	conf->is_file_unread = n < 0 || n == sizeof(conf->file);
	if (conf->is_file_unread) {
		conf_fail(conf, path, n < 0 ? strerror((int)-n) : "the file is too long");
		return;
	}
	for (ssize_t i = 0; i < n; i++)
		if (conf->file[i] == '\n' || conf->file[i] == '\r')
			conf->file[i] = '\0';
	conf->file[n] = '\0';
	conf->file_bytes = (size_t)n;
}
