#include "shm/region.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/sys.h"
#include "shm/lock.h"
#include "shm/region_file.h"
#include "shm/slot.h"
#include "shm/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define CREATE_WAIT_NS (10 * NSEC_PER_SEC)
#define FOLLOW_WAIT_NS NSEC_PER_SEC

/* A glibc sem_t as sem_init(sem, 1, 1) leaves it: value 1, shared between processes. */
static void semaphore_init(unsigned char *sem)
{
	static const struct {
		uint64_t value;
		uint32_t shared;
	} free_one = { 1, 128 };

	memset(sem, 0, 32);
	memcpy(sem, &free_one, 12);
}

void region_copy_text(char *to, size_t to_bytes, const char *from, size_t from_bytes)
{
	size_t n = from ? strnlen(from, from_bytes < to_bytes ? from_bytes : to_bytes - 1) : 0;

	if (n)
		memcpy(to, from, n);
	memset(to + n, 0, to_bytes - n);
}

/* As region_copy_text(), of a text that is terminated. */
static void copy_text(char *to, size_t to_bytes, const char *from)
{
	region_copy_text(to, to_bytes, from, to_bytes);
}

/* The specification that a new region gets; NULL = what the file says. */
static const char *setup_spec(const struct region_setup *setup, enum limits_kind kind)
{
	return kind == LIMITS_MEM ? setup->mem_spec : setup->sm_spec;
}

static void store_spec(struct ration_region *o, const struct region_setup *setup,
		       enum limits_kind kind)
{
	const char *spec = setup_spec(setup, kind);

	spec_begin(o, kind);
	if (kind == LIMITS_MEM) {
		o->flags = setup->flags;
		o->resident_bytes = setup->resident_bytes;
		o->host_bytes = setup->host_bytes;
	} else {
		__atomic_store_n(&o->sm_policy, setup->sm_policy, __ATOMIC_RELAXED);
	}
	spec_end(o, kind, spec ? spec : "",
		 kind == LIMITS_MEM ? setup->mem_source : setup->sm_source);
}

/* The limits that the file holds: 0, or -EBADMSG where nobody can say what they are. */
static int check_spec(const struct region *r, enum limits_kind kind, bool is_alive,
		      struct region_error *err)
{
	if (spec_is_understood(r->own, kind))
		return 0;
	return region_file_fail(err, -EBADMSG, r->path, "holds a limit that cannot be understood",
				is_alive ? "; set it anew with `ration limit`" :
					   "; start it once with a limit, or remove it");
}

/* Whether the file's own configuration holds; of the first layout that is all but GPU time. */
static bool was_ours(enum region_content content)
{
	return content == REGION_OURS || content == REGION_TORN || content == REGION_OLDER;
}

static bool has_limit(enum region_content content, enum limits_kind kind)
{
	return was_ours(content) && !(content == REGION_OLDER && kind == LIMITS_SM);
}

/*
 * Clears all that belongs to processes and devices; not the monitor's two fields, nor the
 * configuration of a region of ours.
 */
static void clear_all(struct region *r, enum region_content content)
{
	bool has_sm = has_limit(content, LIMITS_SM);
	const size_t hint = offsetof(struct ration_region, hint);
	const size_t sm_spec = offsetof(struct ration_region, sm_spec);
	struct hami_region *h = r->hami;
	struct ration_region *o = r->own;

	memset(&h->major_version, 0,
	       offsetof(struct hami_region, utilization_switch) -
		       offsetof(struct hami_region, major_version));
	memset(&h->priority, 0, sizeof(*h) - offsetof(struct hami_region, priority));
	if (!was_ours(content))
		memset(&o->file_bytes, 0, hint - offsetof(struct ration_region, file_bytes));
	o->device_count = 0;
	memset(o->hint, 0, (has_sm ? sm_spec : sizeof(*o)) - hint);
	if (has_sm)
		memset(o->pace, 0, sizeof(*o) - offsetof(struct ration_region, pace));
	/* Who was suspended is gone. */
	o->suspend_want = RATION_RUN;
}

static void init_hami(struct hami_region *h, const struct region_setup *setup, bool keep_monitors)
{
	h->major_version = HAMI_MAJOR;
	h->minor_version = HAMI_MINOR;
	semaphore_init(h->sem);
	semaphore_init(h->sem_postinit);
	if (!keep_monitors) {
		h->utilization_switch = 1;
		h->recent_kernel = 2;
	}
	h->priority = setup->priority ? 1 : 0;
	for (int d = 0; d < HAMI_DEVICES; d++)
		h->sm_limit_pct[d] = LIMITS_SM_NONE_PCT;
}

/*
 * Writes both headers. Where `setup` says nothing the file's own configuration holds. A process may
 * be killed anywhere in here: our magic comes first, so that the file is known for a region; the
 * layout last of our part; the HAMi magic last of all, by region_settle(), so that a reader who
 * sees it sees the rest, devices too.
 */
static void init_headers(struct region *r, const struct region_setup *setup,
			 enum region_content content, bool keep_monitors)
{
	struct hami_region *h = r->hami;
	struct ration_region *o = r->own;

	if (!was_ours(content)) {
		o->layout = 0;
		__atomic_store_n(&o->magic, RATION_MAGIC, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&h->magic, 0, __ATOMIC_RELEASE);
	if (content != REGION_EMPTY)
		clear_all(r, content);
	init_hami(h, setup, keep_monitors);
	o->file_bytes = RATION_FILE_BYTES;
	o->devices_max = RATION_DEVICES;
	o->slots_max = HAMI_SLOTS;
	o->created_s = (uint64_t)time(NULL);
	o->generation++;
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (setup_spec(setup, kind) || !has_limit(content, kind))
			store_spec(o, setup, kind);
	if ((setup->name && *setup->name) || !was_ours(content))
		copy_text(o->name, sizeof(o->name), setup->name);
	o->name[sizeof(o->name) - 1] = '\0';
	__atomic_store_n(&o->layout, RATION_LAYOUT, __ATOMIC_RELEASE);
	r->is_new = true;
}

/*
 * True when the two fields that a monitor writes are where this layout has them; `size` is the
 * file's before it was grown.
 */
static bool has_monitor_fields(const struct hami_region *h, enum region_content content, off_t size)
{
	if (was_ours(content))
		return true;
	return content != REGION_EMPTY && h->magic == HAMI_MAGIC &&
	       h->major_version == HAMI_MAJOR &&
	       (h->minor_version == HAMI_MINOR || size <= HAMI_REGION_BYTES + 1);
}

/*
 * True when another library's file limits nothing of a kind. The versions of HAMi-core that have
 * other words where this layout has limits may limit memory; their GPU time is not asked.
 */
static bool is_unlimited(const struct hami_region *h, enum limits_kind kind, off_t size)
{
	if (h->magic == HAMI_MAGIC && !has_monitor_fields(h, REGION_HAMI, size))
		return kind != LIMITS_MEM;
	for (int d = 0; d < HAMI_DEVICES; d++)
		if (limits_effective(kind, kind == LIMITS_MEM ? h->limit_bytes[d] :
								h->sm_limit_pct[d]) != 0)
			return false;
	return true;
}

/* What was limited by HAMi-core stays so: 0, or -EBADMSG where nothing takes its place. */
static int check_hami(const struct region *r, const struct region_setup *setup, off_t size,
		      struct region_error *err)
{
	for (enum limits_kind kind = 0; kind < LIMITS_KINDS; kind++)
		if (!setup_spec(setup, kind) && !is_unlimited(r->hami, kind, size))
			return region_file_fail(err, -EBADMSG, r->path,
						"is HAMi-core's and may hold a limit",
						"; start it once with a limit, or remove it");
	return 0;
}

static int map_file(int fd, struct region *r, struct region_error *err)
{
	char *m = mmap(NULL, RATION_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (m == MAP_FAILED)
		return region_file_fail(err, -errno, r->path, "cannot be mapped", "");
	/* An inherited mapping would let a fork child write a slot that is not its own. */
	madvise(m, RATION_FILE_BYTES, MADV_DONTFORK);
	r->hami = (struct hami_region *)m;
	r->own = (struct ration_region *)(m + RATION_OFFSET);
	return 0;
}

/* The creation lock is held: looks at what is there, and makes it a region of ours. */
static int prepare(int fd, off_t size, const struct region_setup *setup, struct region *r,
		   struct region_error *err)
{
	enum region_content content;
	bool alive;
	int rc;

	rc = region_file_examine(fd, r->path, &content, &alive, err);
	if (rc < 0)
		return rc;
	if (content == REGION_OTHER && !setup_spec(setup, LIMITS_MEM))
		return region_file_fail(err, -EBADMSG, r->path,
					"is of another version, which may hold a limit",
					"; start it once with a limit, or remove it");
	if (alive && setup->must_be_new)
		return region_file_fail(err, -EBUSY, r->path, "is in use by a living tenant",
					"; choose another name");
	if (!alive || content != REGION_OURS) {
		rc = region_file_grow(fd, r->path, err);
		if (rc < 0)
			return rc;
	}
	rc = map_file(fd, r, err);
	if (rc < 0)
		return rc;
	alive = alive || (content == REGION_OURS && slot_has_robbed(r->own));
	for (enum limits_kind kind = 0; rc == 0 && kind < LIMITS_KINDS; kind++)
		if (alive || (!setup_spec(setup, kind) && has_limit(content, kind)))
			rc = check_spec(r, kind, alive, err);
	if (rc == 0 && content == REGION_HAMI)
		rc = check_hami(r, setup, size, err);
	if (rc == 0 && !alive)
		init_headers(r, setup, content, has_monitor_fields(r->hami, content, size));
	r->generation = r->own->generation;
	return rc;
}

static int lock_failed(struct region_error *err, int rc, const char *path)
{
	return region_file_fail(err, rc, path,
				rc == -ETIMEDOUT ? "is locked by another process" :
						   "cannot be locked",
				rc == -ETIMEDOUT ? "; end it or choose another path" :
						   "; choose a path on a local file system");
}

/* The path as it will lead to the file from any directory: the program may change its own. */
static bool keep_path(struct region *r, const char *path)
{
	size_t n = 0;

	if (path[0] != '/') {
		if (!getcwd(r->path, sizeof(r->path)))
			return false;
		n = strlen(r->path);
		if (n + 1 >= sizeof(r->path))
			return false;
		r->path[n++] = '/';
	}
	if (strlen(path) >= sizeof(r->path) - n)
		return false;
	memcpy(r->path + n, path, strlen(path) + 1);
	return true;
}

int region_open(const char *path, const struct region_setup *setup, struct region *r,
		struct region_error *err)
{
	struct stat st;
	int fd, rc;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (!keep_path(r, path))
		return region_file_fail(err, -ENAMETOOLONG, path, "cannot be opened",
					"; choose a shorter one");
	/* A tenant that ends may unlink the file between our open and our lock: then once more. */
	for (int tries = 0;; tries++) {
		fd = region_file_open(path, err);
		if (fd < 0)
			return fd;
		rc = lock_wait(fd, 0, HAMI_REGION_BYTES,
			       setup->wait_ns ? setup->wait_ns : CREATE_WAIT_NS);
		if (rc < 0) {
			close(fd);
			return lock_failed(err, rc, path);
		}
		if (sys_fstat(fd, &st) == 0 && st.st_nlink > 0)
			break;
		close(fd);
		if (tries == 8)
			return region_file_fail(err, -ESTALE, path, "keeps being removed",
						"; choose another path");
	}
	rc = prepare(fd, st.st_size, setup, r, err);
	if (rc < 0) {
		region_close(r);
		close(fd);
		return rc;
	}
	r->st_dev = st.st_dev;
	r->st_ino = st.st_ino;
	r->fd = fd;
	return 0;
}

bool region_may_hold_limit(const char *path, int rc)
{
	struct stat st;

	switch (-rc) {
	case ENOTUNIQ:
	case ENOTSUP:
	case EISDIR:
	case ELOOP:
	case ENXIO:
		return false;
	}
	/* What is empty is a new one that could be given no space. */
	if (sys_stat(path, &st) == 0)
		return S_ISREG(st.st_mode) && st.st_size > 0;
	return errno != ENOENT && errno != ENOTDIR;
}

void region_settle(struct region *r)
{
	if (r->fd < 0)
		return;
	if (r->is_new)
		__atomic_store_n(&r->hami->magic, HAMI_MAGIC, __ATOMIC_RELEASE);
	r->is_new = false;
	/* The mapping keeps this description alive, so closing alone would keep the lock. */
	lock_drop(r->fd, 0, HAMI_REGION_BYTES);
	close(r->fd);
	r->fd = -1;
}

void region_close(struct region *r)
{
	if (r->hami)
		munmap(r->hami, RATION_FILE_BYTES);
	r->hami = NULL;
	r->own = NULL;
}

/* Has the page of `at` read in: false where a touch would be a SIGBUS. True on older kernels. */
static bool is_there(const char *at)
{
	uintptr_t page = (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

	return madvise((void *)page, 1, MADV_POPULATE_READ) == 0 || errno != EFAULT;
}

int region_check_words(const struct region *r)
{
	const struct ration_region *o = r->own;

	if (__atomic_load_n(&o->magic, __ATOMIC_RELAXED) != RATION_MAGIC ||
	    __atomic_load_n(&o->layout, __ATOMIC_RELAXED) != RATION_LAYOUT ||
	    __atomic_load_n(&o->generation, __ATOMIC_RELAXED) !=
		    __atomic_load_n(&r->generation, __ATOMIC_RELAXED))
		return -ESTALE;
	return 0;
}

int region_check(const struct region *r)
{
	/* A file is cut from its end: what lies before is there too. */
	if (!is_there((const char *)(r->own + 1) - 1))
		return -ESTALE;
	return region_check_words(r);
}

int region_follow(struct region *r)
{
	const struct ration_region *o = r->own;
	int fd, rc = region_check(r);

	/* HAMi's magic is away while somebody initialises the file. */
	if (rc == 0 && __atomic_load_n(&r->hami->magic, __ATOMIC_ACQUIRE) == HAMI_MAGIC)
		return 0;
	fd = region_reopen(r);
	if (fd < 0)
		return -ESTALE;
	rc = lock_wait(fd, 0, HAMI_REGION_BYTES, FOLLOW_WAIT_NS);
	if (rc == 0 && !is_there((const char *)(o + 1) - 1))
		rc = -ESTALE;
	if (rc == 0) {
		__atomic_store_n(&r->generation, __atomic_load_n(&o->generation, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
		rc = region_check(r);
	}
	close(fd);
	return rc < 0 ? -ESTALE : 0;
}

int region_reopen(const struct region *r)
{
	int fd = region_fd_up(
		open(r->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
	struct stat st;

	if (fd < 0)
		return -errno;
	if (sys_fstat(fd, &st) < 0 || st.st_dev != r->st_dev || st.st_ino != r->st_ino) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

int region_check_path(const struct region *r)
{
	int fd = region_reopen(r);

	if (fd == -ESTALE || (fd == -ENOENT && region_file_is_unlinked(r->hami)))
		return -ESTALE;
	if (fd >= 0)
		close(fd);
	return 0;
}

int region_device_count(const struct ration_region *own)
{
	uint32_t n = __atomic_load_n(&own->device_count, __ATOMIC_ACQUIRE);

	return n > RATION_DEVICES ? RATION_DEVICES : (int)n;
}

int region_find_device(const struct ration_region *own, const char *uuid)
{
	int n = region_device_count(own);

	for (int d = 0; d < n; d++)
		if (!strncmp(own->devices[d].uuid, uuid, RATION_UUID_BYTES))
			return d;
	return -ENODEV;
}

/* HAMi's count follows ours, also after a process that was killed between the two. */
static void publish_count(struct region *r, int count)
{
	uint64_t n = count < HAMI_DEVICES ? (uint64_t)count : HAMI_DEVICES;

	if (r->hami->device_num != n)
		__atomic_store_n(&r->hami->device_num, n, __ATOMIC_RELEASE);
}

int region_add_device(struct region *r, const char *uuid, uint64_t physical_bytes)
{
	int d = region_find_device(r->own, uuid), count = region_device_count(r->own);
	struct ration_device *dev;

	if (d >= 0) {
		if (physical_bytes)
			r->own->devices[d].physical_bytes = physical_bytes;
		publish_count(r, count);
		return d;
	}
	if (count >= RATION_DEVICES || strlen(uuid) >= RATION_UUID_BYTES)
		return -ENOSPC;
	d = count;
	dev = &r->own->devices[d];
	copy_text(dev->uuid, sizeof(dev->uuid), uuid);
	dev->physical_bytes = physical_bytes;
	region_set_limit(r->hami, r->own, d,
			 limits_for_device(LIMITS_MEM, r->own->mem_spec, d, uuid));
	region_set_sm_limit(r->hami, r->own, d,
			    limits_for_device(LIMITS_SM, r->own->sm_spec, d, uuid));
	if (d < HAMI_DEVICES)
		copy_text(r->hami->uuids[d], HAMI_UUID_BYTES, uuid);
	/* Readers take the count first, then the rows below it. */
	__atomic_store_n(&r->own->device_count, (uint32_t)d + 1, __ATOMIC_RELEASE);
	publish_count(r, d + 1);
	return d;
}

uint64_t region_limit(const struct hami_region *hami, const struct ration_region *own, int dev)
{
	return __atomic_load_n(dev < HAMI_DEVICES ? &hami->limit_bytes[dev] :
						    &own->devices[dev].limit_bytes,
			       __ATOMIC_RELAXED);
}

void region_set_limit(struct hami_region *hami, struct ration_region *own, int dev,
		      uint64_t limit_bytes)
{
	__atomic_store_n(dev < HAMI_DEVICES ? &hami->limit_bytes[dev] :
					      &own->devices[dev].limit_bytes,
			 limit_bytes, __ATOMIC_RELAXED);
}

unsigned region_sm_limit(const struct hami_region *hami, const struct ration_region *own, int dev)
{
	uint64_t pct = __atomic_load_n(dev < HAMI_DEVICES ? &hami->sm_limit_pct[dev] :
							    &own->devices[dev].sm_limit_pct,
				       __ATOMIC_RELAXED);

	return pct < LIMITS_SM_NONE_PCT ? (unsigned)pct : LIMITS_SM_NONE_PCT;
}

void region_set_sm_limit(struct hami_region *hami, struct ration_region *own, int dev,
			 uint64_t limit_pct)
{
	__atomic_store_n(dev < HAMI_DEVICES ? &hami->sm_limit_pct[dev] :
					      &own->devices[dev].sm_limit_pct,
			 limit_pct ? limit_pct : LIMITS_SM_NONE_PCT, __ATOMIC_RELAXED);
}

uint64_t region_word(const struct hami_region *hami, const struct ration_region *own,
		     enum limits_kind kind, int dev)
{
	return kind == LIMITS_MEM ? region_limit(hami, own, dev) : region_sm_limit(hami, own, dev);
}

enum sm_policy region_sm_policy(const struct ration_region *own)
{
	uint32_t policy = __atomic_load_n(&own->sm_policy, __ATOMIC_RELAXED);

	return policy <= SM_POLICY_DISABLE ? (enum sm_policy)policy : SM_POLICY_FORCE;
}

bool region_sm_holds(const struct hami_region *hami, const struct ration_region *own)
{
	enum sm_policy policy = region_sm_policy(own);

	if (policy == SM_POLICY_DEFAULT)
		return __atomic_load_n(&hami->utilization_switch, __ATOMIC_RELAXED) != 0;
	return policy == SM_POLICY_FORCE;
}

unsigned region_slot_bound(const struct hami_region *hami)
{
	int32_t n = __atomic_load_n(&hami->proc_num, __ATOMIC_ACQUIRE);

	return n < 0 ? 0 : n > HAMI_SLOTS ? HAMI_SLOTS : (unsigned)n;
}

enum ration_suspend region_suspend_want(const struct ration_region *own)
{
	uint32_t want = __atomic_load_n(&own->suspend_want, __ATOMIC_ACQUIRE);

	return want <= RATION_SUSPEND_DEEP ? (enum ration_suspend)want : RATION_RUN;
}
