#include "machine_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine_export.h"
#include "machine_import.h"

/*
 * The byte that a read lock marks: TAG | the machine's key | the place's index | how often it was
 * used before. Every second byte, so that no two locks of one description are joined by the kernel;
 * the odd one beside it keeps the memory and hides it from nobody's figure.
 * Below 2^60: what lies above is for others' locks on the same descriptions.
 */
#define TAG (UINT64_C(1) << 58)
#define KEY_SHIFT 26
#define INDEX_SHIFT 13
#define USES_SHIFT 1
#define USES_MASK UINT32_C(0xfff)
#define ORPHAN UINT32_MAX

enum {
	READ_BYTES = 4096, /* the kernel gives a page of lines at a time */
	SCANS = 4,
	/* Looks that found nothing that keeps an orphan until its place is free. */
	VAIN_LOOKS = 3,
};

_Static_assert(MACHINE_EXPORTS <= 1 << (KEY_SHIFT - INDEX_SHIFT), "an index has its bits");

/* Of each place, whether a lock of it was seen, and one that does not hide it. */
struct sight {
	unsigned char is_seen[MACHINE_EXPORTS / 8], is_kept[MACHINE_EXPORTS / 8];
};

static struct machine_export *at(uint32_t index)
{
	return &machine_self()->file->export[index];
}

static uint32_t end(void)
{
	uint32_t count = atomic_load(&machine_self()->file->exports_end);

	return count < MACHINE_EXPORTS ? count : MACHINE_EXPORTS;
}

bool machine_export_is_any(void)
{
	return end() > 0;
}

static uint64_t key(void)
{
	return TAG | (uint64_t)machine_self()->file->key << KEY_SHIFT;
}

static uint64_t name_of(uint32_t index)
{
	return key() | (uint64_t)index << INDEX_SHIFT |
	       (atomic_load(&at(index)->uses) & USES_MASK) << USES_SHIFT;
}

/* The place of this name, or of that of a lock; NULL: it is another's, or another machine's. */
static struct machine_export *find(uint64_t export)
{
	uint32_t index;

	export &= ~UINT64_C(1);
	index = (uint32_t)(export >> INDEX_SHIFT) & (MACHINE_EXPORTS - 1);
	return index < end() && name_of(index) == export ? at(index) : NULL;
}

static uint64_t take_from(uint32_t first, int i, uint64_t bytes)
{
	struct machine_self *self = machine_self();

	for (uint32_t index = first; index < MACHINE_EXPORTS; index++) {
		struct machine_export *e = at(index);
		uint32_t owner = 0, seen = end();

		/* Before it is taken: what the dead have is looked for up to there. */
		while (seen <= index &&
		       !atomic_compare_exchange_weak(&self->file->exports_end, &seen, index + 1))
			;
		if (atomic_load(&e->owner) ||
		    !atomic_compare_exchange_strong(&e->owner, &owner, (uint32_t)self->slot + 1))
			continue;
		atomic_store(&e->device, (uint32_t)i);
		atomic_store(&e->bytes, bytes);
		atomic_store(&e->is_marked, 0);
		atomic_store(&e->is_hidden, 0);
		atomic_store(&self->file->exports_free, index + 1);
		return name_of(index);
	}
	return 0;
}

static uint64_t take_place(int i, uint64_t bytes)
{
	uint64_t export = take_from(atomic_load(&machine_self()->file->exports_free), i, bytes);

	return export ? export : take_from(0, i, bytes);
}

uint64_t machine_export_new(int i, uint64_t bytes)
{
	uint64_t export = take_place(i, bytes);

	for (int look = 0; !export && look < VAIN_LOOKS; look++) {
		machine_process_reap();
		for (int d = 0; d < machine_count(); d++) {
			machine_lock(d, -1);
			(void)machine_export_kept(d);
			machine_unlock(d);
		}
		export = take_place(i, bytes);
	}
	return export;
}

int machine_export_mark(int fd, uint64_t export)
{
	struct machine_export *e = find(export);

	if (e)
		atomic_store(&e->is_marked, 1);
	return machine_byte_set(fd, F_RDLCK, (int64_t) export);
}

int machine_export_keep(int fd, uint64_t export)
{
	return machine_export_mark(fd, export | 1);
}

void machine_export_hide(uint64_t export)
{
	struct machine_export *e = find(export);

	if (e)
		atomic_store(&e->is_hidden, 1);
}

void machine_export_unmark(int fd, uint64_t export)
{
	(void)machine_byte_set(fd, F_UNLCK, (int64_t) export);
}

uint64_t machine_export_find(int fd)
{
	struct flock range = { .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = (int64_t)TAG,
			       .l_len = (int64_t)TAG };

	if (fcntl(fd, F_OFD_GETLK, &range) || range.l_type == F_UNLCK)
		return 0;
	return (uint64_t)range.l_start;
}

int machine_export_device(uint64_t export)
{
	const struct machine_export *e = find(export);
	uint32_t i = e && atomic_load(&e->owner) ? atomic_load(&e->device) : MACHINE_DEVICES;

	return i < (uint32_t)machine_count() ? (int)i : -1;
}

static void orphan(struct machine_export *e)
{
	atomic_store(&e->vain_looks, 0);
	atomic_store(&e->heir, 0);
	atomic_store(&e->owner, ORPHAN);
}

bool machine_export_is_orphan(uint64_t export)
{
	const struct machine_export *e = find(export);

	return e && atomic_load(&e->owner) == ORPHAN;
}

void machine_export_end(uint64_t export)
{
	struct machine_export *e = find(export);

	if (e && atomic_load(&e->owner) == (uint32_t)machine_self()->slot + 1)
		orphan(e);
}

void machine_export_end_all(int slot, int i)
{
	uint32_t count = end();

	for (uint32_t index = 0; index < count; index++)
		if (atomic_load(&at(index)->owner) == (uint32_t)slot + 1 &&
		    atomic_load(&at(index)->device) == (uint32_t)i)
			orphan(at(index));
}

static bool is_orphan(uint32_t index, int i)
{
	return atomic_load(&at(index)->owner) == ORPHAN &&
	       atomic_load(&at(index)->device) == (uint32_t)i;
}

/* A line of /proc/locks: "1: OFDLCK ADVISORY  READ -1 00:01:1234 START END". */
static void see_line(char *line, struct sight *sight)
{
	const struct machine_export *e;
	char *last, *start;
	uint64_t name;

	if (!strstr(line, ": OFDLCK "))
		return;
	last = strrchr(line, ' ');
	*last = '\0';
	start = strrchr(line, ' ');
	name = start ? strtoull(start + 1, NULL, 10) : 0;
	e = find(name);
	if (e) {
		uint32_t index = (uint32_t)(e - at(0));
		unsigned char *seen = name & 1 ? sight->is_kept : sight->is_seen;

		seen[index / 8] |= (unsigned char)(1u << (index % 8));
	}
}

/* Whole lines of `text`; what follows them moves to its front. The length of that. */
static size_t see_lines(char *text, size_t length, struct sight *sight)
{
	char *line = text, *stop;

	text[length] = '\0';
	while ((stop = strchr(line, '\n'))) {
		*stop = '\0';
		see_line(line, sight);
		line = stop + 1;
	}
	length -= (size_t)(line - text);
	memmove(text, line, length);
	return length;
}

/* Adds what it sees; the first piece has so many bytes. */
static int look_once(struct sight *sight, size_t bytes)
{
	char text[READ_BYTES + 1];
	size_t length = 0;
	ssize_t got = -1;
	int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (length < READ_BYTES && (got = read(fd, text + length, bytes)) > 0) {
		length = see_lines(text, length + (size_t)got, sight);
		bytes = READ_BYTES - length;
	}
	close(fd);
	return got ? -EIO : 0;
}

/*
 * The kernel does not hold the list still between two pages of it: a lock that goes meanwhile hides
 * the one behind the page. So each look has its pages elsewhere, and what one sees is there.
 */
static int look(struct sight *sight)
{
	int err = 0;

	memset(sight, 0, sizeof(*sight));
	for (size_t scan = 0; !err && scan < SCANS; scan++)
		err = look_once(sight, READ_BYTES * (scan + 1) / SCANS);
	return err;
}

static void free_place(uint32_t index)
{
	struct machine_export *e = at(index);

	/* The name first: who has the old one finds no place of it. */
	atomic_fetch_add(&e->uses, 1);
	atomic_store(&e->owner, 0);
	if (index < atomic_load(&machine_self()->file->exports_free))
		atomic_store(&machine_self()->file->exports_free, index);
}

/* Of those orphans of device i that ever had descriptors, which have one still. */
static void look_for_open(int i, struct sight *sight)
{
	uint32_t index = 0, count = end();

	while (index < count && !(is_orphan(index, i) && atomic_load(&at(index)->is_marked)))
		index++;
	/* What cannot be told is taken for kept: a device never gives out more than it has. */
	if (index < count && look(sight))
		memset(sight, 0xff, sizeof(*sight));
}

static bool has(const unsigned char *places, uint32_t index)
{
	return places[index / 8] >> (index % 8) & 1;
}

uint64_t machine_export_kept(int i)
{
	uint32_t count = end();
	uint64_t kept_bytes = 0;
	struct sight sight = { { 0 }, { 0 } };

	look_for_open(i, &sight);
	for (uint32_t index = 0; index < count; index++) {
		struct machine_export *e = at(index);
		bool is_marked = atomic_load(&e->is_marked), is_open;
		uint32_t heir = 0;

		if (!is_orphan(index, i))
			continue;
		is_open = is_marked && has(sight.is_seen, index);
		if (!is_open)
			heir = machine_import_last(name_of(index));
		atomic_store(&e->heir, atomic_load(&e->is_hidden) ? 0 : heir);
		if (is_open || heir || (is_marked && has(sight.is_kept, index)))
			kept_bytes += atomic_load(&e->bytes);
		else if (atomic_fetch_add(&e->vain_looks, 1) + 1 >= VAIN_LOOKS)
			free_place(index);
	}
	return kept_bytes;
}

uint64_t machine_export_inherited(int slot, int i)
{
	uint32_t count = end();
	uint64_t bytes = 0;

	for (uint32_t index = 0; index < count; index++)
		if (is_orphan(index, i) && atomic_load(&at(index)->heir) == (uint32_t)slot + 1)
			bytes += atomic_load(&at(index)->bytes);
	return bytes;
}
