#include "shm/region.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/pid.h"
#include "base/sys.h"
#include "shm/lock.h"
#include "shm/region_file.h"
#include "shm/region_init.h"
#include "shm/remains.h"
#include "shm/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/*
 * Programs that close what they do not know begin at 3. No higher than what a process's table of
 * descriptors has room for at first, which is 64: with a larger one 64 processes took a second
 * longer, of 14, to have their contexts on an H200.
 */
enum { SPARE_FD = 48 };

#define CREATE_WAIT_NS (10 * NSEC_PER_SEC)
#define FOLLOW_WAIT_NS NSEC_PER_SEC

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

static enum remains look_at_remains(const void *own, int64_t waited_ns)
{
	return remains_look(own, waited_ns);
}

/*
 * No byte of the region is locked and the creation lock is held: true when it is in use all the
 * same. Those are waited for who only have to go, with what they hold, since who uses it next has
 * all of the limit.
 */
static bool is_used(const struct ration_region *own)
{
	return remains_await(look_at_remains, own);
}

static int in_use(const char *path, struct region_error *err)
{
	return region_file_fail(err, -EBUSY, path, "is in use by a living tenant",
				"; choose another name");
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
	if (content == REGION_OTHER && !setup->mem_spec)
		return region_file_fail(err, -EBADMSG, r->path,
					"is of another version, which may hold a limit",
					"; start it once with a limit, or remove it");
	if (alive && setup->must_be_new)
		return in_use(r->path, err);
	if (!alive || content != REGION_OURS) {
		rc = region_file_grow(fd, r->path, err);
		if (rc < 0)
			return rc;
	}
	rc = map_file(fd, r, err);
	if (rc < 0)
		return rc;
	alive = alive || (content == REGION_OURS && is_used(r->own));
	if (alive && setup->must_be_new)
		return in_use(r->path, err);
	rc = region_init_check(r, setup, content, size, alive, err);
	if (rc == 0 && !alive)
		region_init_write(r, setup, content, size);
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

/*
 * The path as it will lead to the file from any directory: the program may change its own. 0 or
 * -errno: -ENOENT where that is gone.
 */
static int keep_path(struct region *r, const char *path)
{
	size_t n = 0;

	if (path[0] != '/') {
		if (!getcwd(r->path, sizeof(r->path)))
			return errno == ERANGE ? -ENAMETOOLONG : -errno;
		n = strlen(r->path);
		if (n + 1 >= sizeof(r->path))
			return -ENAMETOOLONG;
		r->path[n++] = '/';
	}
	if (strlen(path) >= sizeof(r->path) - n)
		return -ENAMETOOLONG;
	memcpy(r->path + n, path, strlen(path) + 1);
	return 0;
}

/* Where paths are followed from now; zeros where that is not known. */
static struct region_root read_root(void)
{
	struct stat st = { 0 };

	sys_stat("/", &st);
	return (struct region_root){ st.st_dev, st.st_ino, pid_mount_namespace() };
}

int region_open(const char *path, const struct region_setup *setup, struct region *r,
		struct region_error *err)
{
	struct stat st;
	int fd, rc;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	r->spare = -1;
	r->place.root = read_root();
	rc = keep_path(r, path);
	if (rc < 0)
		return region_file_fail(err, rc, path, "cannot be opened",
					rc == -ENAMETOOLONG ? "; choose a shorter one" :
							      "; give a path that begins with /");
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
	r->place.st_dev = st.st_dev;
	r->place.st_ino = st.st_ino;
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

/* 0; -ESTALE: it is another; or -errno where that cannot be told. */
static int check_file(const struct region *r, int fd)
{
	struct stat st;

	if (sys_fstat(fd, &st) < 0)
		return -errno;
	return st.st_dev == r->place.st_dev && st.st_ino == r->place.st_ino ? 0 : -ESTALE;
}

int region_reopen(const struct region *r)
{
	int fd = region_fd_up(
		open(r->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
	int rc;

	if (fd < 0)
		return -errno;
	rc = check_file(r, fd);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	return fd;
}

void region_keep_spare(struct region *r)
{
	/* After region_settle() its description has no lock. */
	r->spare = fcntl(r->fd, F_DUPFD_CLOEXEC, SPARE_FD);
}

void region_drop_spare(struct region *r)
{
	int fd = __atomic_exchange_n(&r->spare, -1, __ATOMIC_ACQ_REL);

	if (fd >= 0 && check_file(r, fd) == 0)
		close(fd);
}

int region_spare(const struct region *r)
{
	int fd = __atomic_load_n(&r->spare, __ATOMIC_ACQUIRE);

	return fd >= 0 && check_file(r, fd) == 0 ? fd : -EBADF;
}

static bool is_root_of(const struct region_place *place)
{
	struct region_root now = read_root();

	return memcmp(&now, &place->root, sizeof(now)) == 0;
}

bool region_place_is(const struct region_place *place, const char *path)
{
	struct stat st;

	return is_root_of(place) || (sys_stat(path, &st) == 0 && st.st_dev == place->st_dev &&
				     st.st_ino == place->st_ino);
}

int region_check_path(const struct region *r)
{
	int fd = region_reopen(r);

	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (fd == -ENOENT || fd == -ESTALE) {
		bool is_replaced = fd == -ESTALE && is_root_of(&r->place);

		return is_replaced || region_file_is_unlinked(r->hami) ? -ESTALE : -ENOENT;
	}
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
