#include "core/image.h"

#include "base/sys.h"
#include "core/image_elf.h"
#include "core/image_fatbin.h"
#include "core/image_text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Names as compilers and the linker of NVIDIA's leave them open (PTX's "system calls"). */
unsigned image_calls_of(const char *name)
{
	static const struct {
		const char *name;
		unsigned calls;
	} known[] = { { "vprintf", IMAGE_CALLS_PRINT },
		      { "malloc", IMAGE_CALLS_HEAP },
		      { "free", IMAGE_CALLS_HEAP } };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(name, known[i].name))
			return known[i].calls;
	return strstr(name, "cnp") || strstr(name, "cudaLaunch") || strstr(name, "cudaCDP") ?
		       IMAGE_CALLS_LAUNCH :
		       IMAGE_CALLS_OTHER;
}

static void read_source(const struct image_source *s, unsigned arch, struct image_bytes *out)
{
	char *text;

	if (image_elf_read(s, out) || image_fatbin_read(s, arch, out))
		return;
	text = image_source_take_text(s);
	if (text)
		image_text_read(text, out);
	free(text);
}

struct image_bytes image_read(const void *image, unsigned arch)
{
	struct image_source s = image_source_of(image);
	struct image_bytes bytes = { 0 };

	if (image)
		read_source(&s, arch, &bytes);
	return bytes;
}

/* What can be read once only is the driver's, and no other is opened. */
static bool is_stream(const char *path)
{
	struct stat st;

	return sys_stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static struct image_bytes read_regular(const char *path, unsigned arch)
{
	struct image_bytes bytes = { 0 };
	int held = sys_cancel_hold();
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st = { 0 };
	void *map;

	if (fd >= 0 && sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			read_source(&(struct image_source){ .at = map,
							    .bytes = (uint64_t)st.st_size },
				    arch, &bytes);
			munmap(map, (size_t)st.st_size);
		}
	}
	if (fd >= 0)
		close(fd);
	sys_cancel_release(held);
	return bytes;
}

struct image_bytes image_read_file(const char *path, unsigned arch)
{
	if (!path)
		return (struct image_bytes){ 0 };
	return is_stream(path) ? (struct image_bytes){ .variable_bytes = UINT64_MAX } :
				 read_regular(path, arch);
}
