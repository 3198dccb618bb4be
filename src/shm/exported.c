#include "shm/exported.h"

#include "base/bytes.h"
#include "base/sys.h"
#include "base/units.h"
#include "shm/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A lock begins at OWNERS + the owner, and is LENGTHS + what it is of long: no byte past 2^63. */
enum { OWNER_BITS = 61, UNIT_BITS = 20, DEV_BITS = 5, LENGTH_BITS = 59 };
#define OWNERS (UINT64_C(1) << OWNER_BITS)
#define LENGTHS (UINT64_C(1) << LENGTH_BITS)
_Static_assert(EXPORTED_MEMORY_BITS + UNIT_BITS + DEV_BITS == LENGTH_BITS, "all of it");
_Static_assert(RATION_DEVICES <= 1 << DEV_BITS, "every device has a number");

static uint64_t mask(unsigned bits)
{
	return (UINT64_C(1) << bits) - 1;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

uint64_t exported_owner(const struct ration_slot *s, unsigned index)
{
	uint64_t hash = mix(index + 1, s->pid_namespace);

	hash = mix(hash, __atomic_load_n(&s->pid, __ATOMIC_RELAXED));
	hash = mix(hash, s->start_ticks);
	return mix(hash, s->lifeline) & mask(OWNER_BITS);
}

static uint64_t length_of(const struct exported *what)
{
	uint64_t units = bytes_round_up(what->bytes, EXPORTED_UNIT_BYTES) / EXPORTED_UNIT_BYTES;

	units = bytes_least(units, mask(UNIT_BITS));
	return LENGTHS | (uint64_t)what->dev << (EXPORTED_MEMORY_BITS + UNIT_BITS) |
	       units << EXPORTED_MEMORY_BITS | (what->memory & mask(EXPORTED_MEMORY_BITS));
}

/* False for a length that is none of ours. */
static bool read_length(uint64_t length, struct exported *out)
{
	if (length >> LENGTH_BITS != 1)
		return false;
	out->memory = length & mask(EXPORTED_MEMORY_BITS);
	out->bytes = (length >> EXPORTED_MEMORY_BITS & mask(UNIT_BITS)) * EXPORTED_UNIT_BYTES;
	out->dev = (int)(length >> (EXPORTED_MEMORY_BITS + UNIT_BITS) & mask(DEV_BITS));
	return true;
}

int exported_mark(int fd, uint64_t owner, const struct exported *what)
{
	return lock_share(fd, (int64_t)(OWNERS | owner), (int64_t)length_of(what));
}

/* What is being read. */
struct list {
	uint64_t first; /* where locks of the owner begin */
	struct exported *all;
	unsigned count, room;
};

static int add(struct list *list, const struct exported *what)
{
	if (list->count == list->room) {
		unsigned room = list->room ? 2 * list->room : 16;
		struct exported *more = realloc(list->all, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		list->all = more;
		list->room = room;
	}
	list->all[list->count++] = *what;
	return 0;
}

/*
 * One line: "1: OFDLCK ADVISORY  READ -1 00:06:142 START END", with the last byte as END. One that
 * waits for another's has an arrow before its kind, and is no lock.
 */
static int read_line(struct list *list, const char *line)
{
	const char *end = strrchr(line, ' '), *start = end;
	struct exported what;
	uint64_t first, last;

	if (!end || !strstr(line, ": OFDLCK ") || !strstr(line, " READ "))
		return 0;
	while (start > line && start[-1] != ' ')
		start--;
	first = units_parse_digits(start, NULL);
	last = units_parse_digits(end + 1, NULL);
	if (first != list->first || last < first || !read_length(last - first + 1, &what))
		return 0;
	return add(list, &what);
}

/* Enough for a line; what the kernel gives in one piece; how often a long list is read. */
enum { LINE_BYTES = 256, READ_BYTES = 4096, PASSES = 4 };

/* Reads the lines in text[0, bytes), and moves what begins a last one to the front: its bytes. */
static int read_lines(struct list *list, char *text, size_t bytes, size_t *out_left_bytes)
{
	char *line = text, *end;
	int rc = 0;

	text[bytes] = '\0';
	while (rc == 0 && (end = strchr(line, '\n'))) {
		*end = '\0';
		rc = read_line(list, line);
		line = end + 1;
	}
	*out_left_bytes = strlen(line);
	/* None is so long; what is would only be another's. */
	if (*out_left_bytes >= LINE_BYTES)
		*out_left_bytes = 0;
	memmove(text, line, *out_left_bytes);
	return rc;
}

/*
 * Reads all of the file, first of it so many bytes; *out_reads becomes how many pieces it came in.
 */
static int read_file(struct list *list, int fd, size_t bytes, unsigned *out_reads)
{
	char text[LINE_BYTES + READ_BYTES + 1];
	size_t left_bytes = 0;
	int rc = 0;

	*out_reads = 0;
	for (; rc == 0; bytes = READ_BYTES) {
		ssize_t n = read(fd, text + left_bytes, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		++*out_reads;
		rc = read_lines(list, text, left_bytes + (size_t)n, &left_bytes);
	}
	return rc;
}

static int read_once(struct list *list, size_t first_bytes, unsigned *out_reads)
{
	int held = sys_cancel_hold();
	int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -errno : 0;

	if (rc == 0) {
		rc = read_file(list, fd, first_bytes, out_reads);
		close(fd);
	}
	sys_cancel_release(held);
	return rc;
}

static int compare(const void *a, const void *b)
{
	const struct exported *x = a, *y = b;

	return x->memory < y->memory ? -1 : x->memory > y->memory;
}

/* Puts them in order; of each number one. */
static void tidy(struct list *list)
{
	unsigned n = 0;

	if (list->count)
		qsort(list->all, list->count, sizeof(*list->all), compare);
	for (unsigned i = 0; i < list->count; i++)
		if (n == 0 || compare(&list->all[n - 1], &list->all[i]) != 0)
			list->all[n++] = list->all[i];
	list->count = n;
}

/*
 * The kernel gives a long list in pieces, each from so many locks on: one that goes meanwhile hides
 * the lock behind the piece. So such a list is read some times more, in pieces that end elsewhere.
 */
int exported_read(uint64_t owner, struct exported **out_all, unsigned *out_count)
{
	struct list list = { .first = OWNERS | owner };
	unsigned reads;
	int rc = read_once(&list, READ_BYTES, &reads);

	for (size_t i = 1; rc == 0 && reads > 1 && i < PASSES; i++)
		rc = read_once(&list, i * READ_BYTES / PASSES, &reads);
	if (rc < 0) {
		free(list.all);
		return rc;
	}
	tidy(&list);
	*out_all = list.all;
	*out_count = list.count;
	return 0;
}

bool exported_is_unreadable(int rc)
{
	return rc == -ENOENT || rc == -EACCES || rc == -EPERM;
}

bool exported_has(const struct exported *all, unsigned count, uint64_t memory)
{
	struct exported want = { .memory = memory };

	return count && bsearch(&want, all, count, sizeof(*all), compare);
}

int exported_shows(uint64_t owner, const struct exported *what)
{
	struct exported *all;
	unsigned count;
	int rc = exported_read(owner, &all, &count);

	if (rc < 0)
		return rc;
	if (!exported_has(all, count, what->memory))
		rc = -ENOLCK;
	free(all);
	return rc;
}
