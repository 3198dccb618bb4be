#include "base/mapped.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 4096, NAME_BYTES = 64 };

/* The last part of the path of a line, as far as it has been read. */
struct name {
	char text[NAME_BYTES];
	unsigned n;
	bool is_path; /* there was a '/' in the line */
};

static int match(const struct name *name, const char *const *names, unsigned count)
{
	for (unsigned i = 0; name->is_path && i < count; i++)
		if (strlen(names[i]) <= name->n &&
		    memcmp(name->text, names[i], strlen(names[i])) == 0)
			return (int)i;
	return -ENOENT;
}

/* Takes one character of the list; the index of the name that a line ended with, or -ENOENT. */
static int take(struct name *name, char c, const char *const *names, unsigned count)
{
	int found = -ENOENT;

	if (c == '/') {
		name->is_path = true;
		name->n = 0;
	} else if (c == '\n') {
		found = match(name, names, count);
		name->is_path = false;
		name->n = 0;
	} else if (name->n < NAME_BYTES) {
		name->text[name->n++] = c;
	}
	return found;
}

int mapped_find(const char *const *names, unsigned count)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), found = -ENOENT;
	struct name name = { .n = 0 };
	char text[READ_BYTES];
	ssize_t n = 0;

	if (fd < 0)
		return -errno == -ENOENT ? -ENOSYS : -errno;
	while (found == -ENOENT && (n = read(fd, text, sizeof(text))) != 0) {
		if (n < 0 && errno != EINTR)
			found = -errno;
		for (ssize_t i = 0; i < n && found == -ENOENT; i++)
			found = take(&name, text[i], names, count);
	}
	close(fd);
	return found;
}

int mapped_has_open(const char *path)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = 0;

	if (!dir)
		return -errno;
	while (!found && (entry = readdir(dir)) != NULL) {
		char text[NAME_BYTES];
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, text, sizeof(text));

		found = n >= (ssize_t)strlen(path) && memcmp(text, path, strlen(path)) == 0;
	}
	closedir(dir);
	return found;
}
