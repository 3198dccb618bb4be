#include "shm/view.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/sys.h"
#include "shm/busy_ring.h"
#include "shm/heir.h"
#include "shm/lock.h"
#include "shm/region.h"
#include "shm/residency.h"
#include "shm/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A copy of the file in memory. The parts are aligned as in a mapping. */
struct snapshot {
	int fd; /* of the file, for asking who lives */
	const struct hami_region *hami;
	const struct ration_region *own; /* NULL: HAMi-core's file */
};

/* Opens a regular file for reading; never waits on a fifo or a device. */
static int open_regular(const char *path, struct stat *out_stat)
{
	int fd = region_fd_up(
		open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
	int rc;

	if (fd < 0)
		return -errno;
	if (sys_fstat(fd, out_stat) < 0)
		rc = -errno;
	else if (!S_ISREG(out_stat->st_mode))
		rc = S_ISDIR(out_stat->st_mode) ? -EISDIR : -ENOTUNIQ;
	else
		return fd;
	close(fd);
	return rc;
}

/* Returns how far the file goes, up to `to`; or -errno. */
static ssize_t read_span(int fd, char *buf, size_t from, size_t to)
{
	size_t at = from;

	while (at < to) {
		ssize_t n = pread(fd, buf + at, to - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		at += (size_t)n;
	}
	return (ssize_t)at;
}

/* Likewise of a member of ours, or its first elements. True when it is there. */
static bool read_own(int fd, char *buf, size_t from, size_t bytes)
{
	size_t at = RATION_OFFSET + from;

	return read_span(fd, buf, at, at + bytes) == (ssize_t)(at + bytes);
}

/* Slots behind these have never been taken since their file was made: all of theirs is zero. */
static unsigned used_slots(const struct hami_region *hami, const struct ration_region *own)
{
	unsigned count = region_slot_bound(hami);

	for (unsigned i = count; i < HAMI_SLOTS; i++)
		if (own->hint[i])
			count = i + 1;
	return count;
}

/*
 * Reads what is in use of a region of ours into a buffer of zeros. Most slots never are, and to
 * copy theirs takes longer than all else. False of any other file.
 */
static bool read_used(int fd, char *buf)
{
	const struct hami_region *hami = (const void *)buf;
	const struct ration_region *own = (const void *)(buf + RATION_OFFSET);
	const size_t procs = offsetof(struct hami_region, procs);
	const size_t slots = offsetof(struct ration_region, slots);
	const size_t sm = offsetof(struct ration_region, sm_spec);
	const size_t pace = offsetof(struct ration_region, pace);
	const size_t residency = offsetof(struct ration_region, residency);
	unsigned count;

	if (read_span(fd, buf, 0, procs) < 0 ||
	    read_span(fd, buf, procs + sizeof(hami->procs), RATION_OFFSET) < 0 ||
	    !read_own(fd, buf, 0, slots) || hami->magic != HAMI_MAGIC ||
	    own->magic != RATION_MAGIC || own->layout != RATION_LAYOUT)
		return false;
	count = used_slots(hami, own);
	if (read_span(fd, buf, procs, procs + count * sizeof(hami->procs[0])) < 0 ||
	    !read_own(fd, buf, slots, count * sizeof(own->slots[0])) ||
	    !read_own(fd, buf, sm, pace - sm) ||
	    !read_own(fd, buf, residency, count * sizeof(own->residency[0])))
		return false;
	for (uint64_t d = 0; d < hami->device_num && d < RATION_DEVICES; d++)
		if (!read_own(fd, buf, pace + d * sizeof(own->pace[0]),
			      offsetof(struct pace_device, slots) +
				      count * sizeof(own->pace[0].slots[0])))
			return false;
	return true;
}

/*
 * True of a file that its maker has not finished, or did not live to finish: nothing but zeros, or
 * our magic without HAMi's, which is written last.
 */
static bool is_unfinished(const char *copy, size_t bytes)
{
	const struct ration_region *own = (const void *)(copy + RATION_OFFSET);
	int32_t magic = 0;

	if (bytes >= sizeof(magic))
		memcpy(&magic, copy, sizeof(magic));
	if (magic == 0 && bytes >= RATION_OFFSET + sizeof(own->magic) && own->magic == RATION_MAGIC)
		return true;
	return bytes == 0 || (copy[0] == 0 && !memcmp(copy, copy + 1, bytes - 1));
}

/* Tells what the copy of `bytes` bytes is. 0 or a -errno of view_read(). */
static int classify(const char *copy, size_t bytes, struct snapshot *snap)
{
	const struct ration_region *own = (const void *)(copy + RATION_OFFSET);

	snap->hami = (const void *)copy;
	snap->own = NULL;
	if (is_unfinished(copy, bytes))
		return -ENODATA;
	if (bytes < sizeof(int32_t) || snap->hami->magic != HAMI_MAGIC)
		return -ENOTUNIQ;
	if (bytes < HAMI_REGION_BYTES || snap->hami->major_version != HAMI_MAJOR)
		return -ESTALE;
	if (bytes < RATION_OFFSET + sizeof(uint64_t) || own->magic != RATION_MAGIC)
		return 0;
	if (bytes < RATION_FILE_BYTES || own->layout != RATION_LAYOUT ||
	    own->file_bytes != RATION_FILE_BYTES)
		return -ESTALE;
	snap->own = own;
	return 0;
}

/*
 * The bytes that slot `index` holds of device `dev`, by the rule of account_settle(). The words
 * were copied one after the other while the owner may have gone on: the answer is then a value that
 * the slot had a moment ago or has now.
 */
static uint64_t slot_bytes(const struct ration_region *own, unsigned index, int dev)
{
	const struct ration_entry *e = &own->slots[index].entry[dev];
	uint64_t name = (uint64_t)index << 48 | (e->seq & UINT64_C(0xffffffffffff));
	bool took = own->accounts[dev].last == name || e->done >= e->seq;

	return e->after_bytes[(took ? e->seq : ~e->seq) & 1];
}

/* The limit in force: the word's, or what is configured where that was cleared, as core/limit.h. */
static uint64_t limit_of(const struct snapshot *snap, const struct view *view,
			 enum limits_kind kind, int d)
{
	uint64_t amount = region_word(snap->hami, snap->own, kind, d);

	if (amount == 0)
		amount = limits_for_device(kind, view_spec(view, kind), d, view->devices[d].uuid);
	return limits_effective(kind, amount);
}

/* What the file says, as a part of a second. */
static unsigned permille_of(uint64_t ns)
{
	uint64_t permille = ns / (NSEC_PER_SEC / 1000);

	return permille < 1000 ? (unsigned)permille : 1000;
}

static void read_time(const struct snapshot *snap, struct view *view, int d)
{
	const struct pace_device *pace = &snap->own->pace[d];
	int64_t now_ns = clock_now_ns();

	view->devices[d].is_metered = pace->filled_ns != 0;
	view->devices[d].busy_permille = permille_of(
		(uint64_t)busy_ring_busy_ns(&pace->ring, now_ns - NSEC_PER_SEC, now_ns));
}

static void read_process_time(const struct snapshot *snap, struct view_process *p, int d)
{
	const struct pace_slot *slot = &snap->own->pace[d].slots[p->slot];
	int64_t age_ns = clock_now_ns() - (int64_t)slot->second_ns;

	/* A process that launches nothing writes nothing either. */
	if (age_ns >= 0 && age_ns < 2 * NSEC_PER_SEC)
		p->busy_permille[d] = permille_of(slot->second_share_ns);
	p->held_ns[d] = slot->held_ns;
}

static void read_devices(const struct snapshot *snap, struct view *view)
{
	uint64_t n = snap->hami->device_num;

	if (snap->own)
		view->device_count = region_device_count(snap->own);
	else
		view->device_count = n > HAMI_DEVICES ? HAMI_DEVICES : (int)n;
	for (int d = 0; d < view->device_count; d++) {
		struct view_device *dev = &view->devices[d];

		if (snap->own) {
			region_copy_text(dev->uuid, sizeof(dev->uuid), snap->own->devices[d].uuid,
					 RATION_UUID_BYTES);
			dev->physical_bytes = snap->own->devices[d].physical_bytes;
		} else {
			region_copy_text(dev->uuid, sizeof(dev->uuid), snap->hami->uuids[d],
					 HAMI_UUID_BYTES);
		}
		if (snap->own)
			read_time(snap, view, d);
		dev->limit_bytes = limit_of(snap, view, LIMITS_MEM, d);
		dev->sm_limit_pct = (unsigned)limit_of(snap, view, LIMITS_SM, d);
	}
}

static void read_residency(const struct ration_region *own, unsigned index, struct view_process *p)
{
	const struct ration_residency *r = &own->residency[index];
	uint32_t answered;

	memcpy(p->card_bytes, r->card_bytes, sizeof(p->card_bytes));
	p->host_bytes = r->host_bytes;
	p->kept_bytes = r->kept_bytes;
	p->moved_bytes = r->moved_bytes;
	p->suspended = r->is_suspended >= RATION_SUSPEND_DEEP ?
			       RATION_SUSPEND_DEEP :
			       (enum ration_suspend)r->is_suspended;
	answered = __atomic_load_n(&r->suspend_answered, __ATOMIC_ACQUIRE);
	/* Of an earlier time it is no answer to what is asked now. 0: an older library's. */
	p->has_answered = answered == 0 ||
			  answered == __atomic_load_n(&own->suspend_asks, __ATOMIC_RELAXED);
	if (p->has_answered)
		p->suspend_rc = r->suspend_rc;
}

static void read_process(const struct snapshot *snap, unsigned index, struct view *view)
{
	struct view_process *p = &view->processes[view->process_count++];

	memset(p, 0, sizeof(*p));
	p->slot = index;
	p->pid = snap->hami->procs[index].pid;
	if (snap->own) {
		const struct ration_slot *s = &snap->own->slots[index];

		p->pid = s->pid > INT32_MAX ? 0 : (int)s->pid;
		p->pid_namespace = s->pid_namespace;
		p->start_ticks = s->start_ticks;
		region_copy_text(p->comm, sizeof(p->comm), s->comm, sizeof(s->comm));
		read_residency(snap->own, index, p);
	}
	for (int d = 0; d < view->device_count; d++) {
		if (snap->own)
			p->used_bytes[d] = bytes_beyond(slot_bytes(snap->own, index, d),
							residency_idle(snap->own, index, d));
		else
			p->used_bytes[d] = snap->hami->procs[index].used[d].total_bytes;
		if (snap->own)
			read_process_time(snap, p, d);
		view->devices[d].used_bytes = bytes_sum(view->devices[d].used_bytes,
							p->used_bytes[d]);
	}
}

/* Whether the owner of slot `index` lives: 1 or 0, or -errno. */
static int slot_lives(const struct snapshot *snap, unsigned index)
{
	const struct ration_slot *s = &snap->own->slots[index];
	int held = slot_alive(snap->fd, index);

	if (held < 0)
		return held;
	return slot_is_had(s, held);
}

/* Whether a keeper or a living process has the file: 1 or 0, or -errno. */
static int is_held(const struct snapshot *snap)
{
	const int64_t keeper = RATION_LOCK_SLOT + HAMI_SLOTS;
	int rc = lock_held(snap->fd, RATION_LOCK_SLOT, HAMI_SLOTS, NULL);

	/* All slots: a process that takes one now has not raised the slot bound yet. */
	for (unsigned i = 0; rc == 1 && i < HAMI_SLOTS; i++) {
		int lives = slot_lives(snap, i);

		if (lives != 0)
			return lives;
	}
	if (rc < 0 || slot_look_free(snap->own) <= OCCUPANT_LEAVING)
		return rc < 0 ? rc : 1;
	return lock_held(snap->fd, keeper, RATION_LOCK_KEEPER + 1 - keeper, NULL);
}

/* What descriptors hold of a dead process's: no more than it is charged for, whatever they say. */
static void read_rest(const struct ration_region *own, unsigned index, struct view *view)
{
	uint64_t keep_bytes[RATION_DEVICES];
	int rc = heir_keeps(own, index, keep_bytes);

	if (rc == 0)
		return;
	/* All of it may be held, where that cannot be seen now. */
	if (rc < 0)
		memset(keep_bytes, 0xff, sizeof(keep_bytes));
	for (int d = 0; d < view->device_count; d++)
		view->devices[d].used_bytes = bytes_sum(view->devices[d].used_bytes,
							bytes_least(keep_bytes[d],
								    slot_bytes(own, index, d)));
}

static int read_processes(const struct snapshot *snap, struct view *view)
{
	unsigned bound = region_slot_bound(snap->hami);

	view->processes = calloc(bound ? bound : 1, sizeof(*view->processes));
	if (!view->processes)
		return -ENOMEM;
	for (unsigned i = 0; i < bound; i++) {
		const struct hami_slot *s = &snap->hami->procs[i];
		int alive = snap->own ? slot_lives(snap, i) : s->status != HAMI_FREE && s->pid;

		if (alive < 0)
			return alive;
		if (alive)
			read_process(snap, i, view);
		else if (snap->own)
			read_rest(snap->own, i, view);
	}
	return 0;
}

/* Of a tenant that may have more than the card: what is left of it, and of its host memory. */
static void read_room(const struct ration_region *own, struct view *view)
{
	uint64_t host_bytes = own ? residency_sum(own, RESIDENCY_HOST) : 0;

	for (int d = 0; d < view->device_count; d++) {
		struct view_device *dev = &view->devices[d];

		dev->room_bytes = UINT64_MAX;
		if (own && dev->physical_bytes && residency_is_oversubscribed(own))
			dev->room_bytes = residency_free(own, d,
							 bytes_beyond(dev->physical_bytes,
								      bytes_beyond(dev->used_bytes,
										   host_bytes)));
	}
}

/* Fills *view from a copy. */
static int read_snapshot(const struct snapshot *snap, struct view *view)
{
	int rc;

	view->kind = snap->own ? VIEW_OWN : VIEW_FOREIGN;
	/* HAMi-core's policy does not stand in its file. */
	view->is_sm_held = snap->hami->utilization_switch != 0;
	if (snap->own) {
		int held = is_held(snap);

		if (held < 0)
			return held;
		view->is_held = held;
		view->created_s = snap->own->created_s;
		region_copy_text(view->name, sizeof(view->name), snap->own->name,
				 RATION_NAME_BYTES);
		region_copy_text(view->mem_spec, sizeof(view->mem_spec), snap->own->mem_spec,
				 RATION_SPEC_BYTES);
		region_copy_text(view->mem_source, sizeof(view->mem_source), snap->own->mem_source,
				 RATION_SOURCE_BYTES);
		region_copy_text(view->sm_spec, sizeof(view->sm_spec), snap->own->sm_spec,
				 RATION_SPEC_BYTES);
		region_copy_text(view->sm_source, sizeof(view->sm_source), snap->own->sm_source,
				 RATION_SOURCE_BYTES);
		view->sm_policy = region_sm_policy(snap->own);
		view->flags = snap->own->flags;
		view->suspend_want = region_suspend_want(snap->own);
		view->is_sm_held = region_sm_holds(snap->hami, snap->own);
	}
	read_devices(snap, view);
	rc = read_processes(snap, view);
	read_room(snap->own, view);
	return rc;
}

int view_read(const char *path, struct view *out_view)
{
	struct snapshot snap = { 0 };
	struct stat st;
	char *copy;
	ssize_t n;
	int rc;

	memset(out_view, 0, sizeof(*out_view));
	snap.fd = open_regular(path, &st);
	if (snap.fd < 0)
		return snap.fd;
	copy = mmap(NULL, RATION_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (copy == MAP_FAILED) {
		rc = -ENOMEM;
		goto out_close;
	}
	n = RATION_FILE_BYTES;
	if (st.st_size < n || !read_used(snap.fd, copy))
		n = read_span(snap.fd, copy, 0, RATION_FILE_BYTES);
	rc = n < 0 ? (int)n : classify(copy, (size_t)n, &snap);
	if (rc == 0)
		rc = read_snapshot(&snap, out_view);
	out_view->st_dev = st.st_dev;
	out_view->st_ino = st.st_ino;
	if (rc < 0)
		view_free(out_view);
	munmap(copy, RATION_FILE_BYTES);
out_close:
	close(snap.fd);
	return rc;
}

uint64_t view_limit(const struct view *view, enum limits_kind kind, int d)
{
	const struct view_device *device = &view->devices[d];

	return kind == LIMITS_MEM ? device->limit_bytes : device->sm_limit_pct;
}

const char *view_spec(const struct view *view, enum limits_kind kind)
{
	return kind == LIMITS_MEM ? view->mem_spec : view->sm_spec;
}

const char *view_source(const struct view *view, enum limits_kind kind)
{
	return kind == LIMITS_MEM ? view->mem_source : view->sm_source;
}

void view_free(struct view *view)
{
	free(view->processes);
	view->processes = NULL;
	view->process_count = 0;
}

bool view_is_alive(const struct view *view)
{
	return view->is_held || view->process_count > 0;
}

bool view_free_bytes(const struct view_device *device, uint64_t *out_bytes)
{
	uint64_t room = device->limit_bytes;

	if (room && device->room_bytes != UINT64_MAX) {
		*out_bytes = bytes_least(bytes_beyond(room, device->used_bytes),
					 device->room_bytes);
		return true;
	}
	if (room == 0 || (device->physical_bytes && device->physical_bytes < room))
		room = device->physical_bytes;
	if (room == 0)
		return false;
	*out_bytes = room > device->used_bytes ? room - device->used_bytes : 0;
	return true;
}
