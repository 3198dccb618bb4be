#include "tools/region_error.h"

#include <errno.h>
#include <fcntl.h>
#include <ration/region.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The layout that our part of the file says it has; 0 = no such part. */
static uint32_t layout_of(const char *path)
{
	struct {
		uint64_t magic;
		uint32_t layout;
	} head = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	ssize_t n;

	_Static_assert(offsetof(struct ration_region, layout) == sizeof(head.magic), "its place");
	if (fd < 0)
		return 0;
	n = pread(fd, &head, sizeof(head), RATION_OFFSET);
	close(fd);
	return n == (ssize_t)sizeof(head) && head.magic == RATION_MAGIC ? head.layout : 0;
}

char *region_error_text(const char *path, int error, char *out, size_t out_bytes)
{
	uint32_t layout = error == -ESTALE ? layout_of(path) : 0;
	const char *text = strerror(-error);

	if (error == -ENOTUNIQ || error == -EISDIR || error == -ELOOP)
		text = "is no region";
	else if (error == -ENODATA)
		text = "is empty, or not finished yet";
	else if (error == -ESTALE)
		text = "is short, or of a version that this command does not know";
	if (layout && layout != RATION_LAYOUT)
		snprintf(out, out_bytes,
			 "was made by another version of Ration (layout %u, this is %u); remove it "
			 "if nothing uses it",
			 (unsigned)layout, (unsigned)RATION_LAYOUT);
	else
		snprintf(out, out_bytes, "%s", text);
	return out;
}
