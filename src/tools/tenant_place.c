#include "tools/tenant_place.h"

#include "base/clock.h"
#include "base/sys.h"
#include "shm/leaver.h"
#include "shm/lock.h"
#include "shm/slot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SUFFIX ".region"

enum { RANDOM_BYTES = 16, PLACE_MODE = 0711 };

#define LOCK_WAIT_NS NSEC_PER_SEC

/*
 * Takes the lock under which places come and go. Where it cannot be had (a directory of others that
 * cannot be read, a file system without such locks) we go on without: -1.
 */
static int lock_directory(const char *dir)
{
	int fd = region_fd_up(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int64_t end_ns = clock_now_ns() + LOCK_WAIT_NS;

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 &&
	       (errno == EWOULDBLOCK || errno == EINTR) && clock_now_ns() < end_ns)
		clock_sleep_ns(NSEC_PER_MSEC);
	return fd;
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s && !strcmp(name + n - s, suffix);
}

/* True of the names that tenant_place_make() gives to files. */
static bool is_file_name(const char *name)
{
	size_t hex = strspn(name, "0123456789abcdef");

	return hex == 2 * RANDOM_BYTES && !strcmp(name + hex, FILE_SUFFIX);
}

/* Opens the file to look at its locks, though its own programs closed it to us. */
static int open_file(const char *path)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	int fd = region_fd_up(open(path, flags));

	if (fd < 0 && errno == EACCES && chmod(path, 0666) == 0)
		fd = region_fd_up(open(path, flags));
	return fd < 0 ? -errno : fd;
}

/* As slot_look_free(); read, not mapped: the file may be short. */
static enum occupant_life look_free(int fd)
{
	enum occupant_life most = OCCUPANT_DEAD, life;
	const off_t own = RATION_OFFSET;
	uint8_t hint[HAMI_SLOTS] = { 0 };
	struct ration_slot slot;

	if (pread(fd, hint, sizeof(hint), own + (off_t)offsetof(struct ration_region, hint)) < 0)
		return most;
	for (size_t i = 0; i < HAMI_SLOTS && most != OCCUPANT_ALIVE; i++) {
		off_t at = own + (off_t)(offsetof(struct ration_region, slots) + i * sizeof(slot));

		if (!hint[i] || pread(fd, &slot, sizeof(slot), at) != (ssize_t)sizeof(slot))
			continue;
		life = occupant_look(&slot, OCCUPANT_BYTE_FREE);
		most = life < most ? life : most;
	}
	return most;
}

/* What slot_look_free() says; OCCUPANT_ALIVE where a byte is locked. Or -errno. */
static int look_for_life(int fd, bool keeper)
{
	int64_t bytes = keeper ? RATION_LOCK_KEEPER + 1 - RATION_LOCK_SLOT : HAMI_SLOTS;
	int rc = lock_held(fd, RATION_LOCK_SLOT, bytes, NULL);

	return rc > 0 ? (int)OCCUPANT_ALIVE : rc < 0 ? rc : (int)look_free(fd);
}

/* 0 when nobody has the file; who only has to go is waited for. -EBUSY, -errno. */
static int await_end(int fd, bool keeper)
{
	int64_t start_ns = clock_now_ns(), waited_ns = 0;
	int life;

	while ((life = look_for_life(fd, keeper)) == (int)OCCUPANT_LEAVING &&
	       waited_ns < LEAVER_GONE_NS) {
		clock_sleep_ns(clock_nap_ns(waited_ns));
		waited_ns = clock_now_ns() - start_ns;
	}
	return life < 0 ? life : life <= (int)OCCUPANT_LEAVING ? -EBUSY : 0;
}

int tenant_place_lives(const char *path)
{
	int fd = region_fd_up(
		open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
	int rc;

	if (fd < 0)
		return -errno;
	rc = look_for_life(fd, true);
	close(fd);
	return rc < 0 ? rc : rc <= (int)OCCUPANT_LEAVING;
}

/*
 * Removes the file unless a process lives in it. With `keeper` true a `ration run` above it counts
 * as life too; the one that calls does not look for itself. 0, -EBUSY when it lives, -ETIMEDOUT
 * when somebody is about to, -errno.
 */
static int remove_file(const char *path, bool keeper)
{
	struct stat named, opened;
	int fd, rc;

	if (lstat(path, &named) < 0)
		return -errno;
	if (!S_ISREG(named.st_mode))
		return remove(path) < 0 ? -errno : 0;
	fd = open_file(path);
	if (fd < 0)
		return fd;
	/* First without the lock: a file in use costs nobody a wait. */
	rc = await_end(fd, keeper);
	/* Who attaches holds it, and looks after taking it whether the file still has a name. */
	if (rc == 0)
		rc = lock_wait(fd, 0, HAMI_REGION_BYTES, keeper ? 0 : LOCK_WAIT_NS);
	if (rc == 0)
		rc = await_end(fd, keeper);
	if (rc == 0 && (sys_fstat(fd, &opened) < 0 || lstat(path, &named) < 0))
		rc = -errno;
	if (rc == 0 && (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino))
		rc = -ESTALE;
	if (rc == 0 && unlink(path) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Removes the dead files of a place. True when one of them lives. */
static bool sweep(const char *place)
{
	char path[PATH_MAX + NAME_MAX];
	DIR *d = opendir(place);
	bool lives = false;

	for (struct dirent *e; d && (e = readdir(d));) {
		int rc;

		if (!is_file_name(e->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", place, e->d_name);
		rc = remove_file(path, true);
		lives |= rc == -EBUSY || rc == -ETIMEDOUT;
	}
	if (d)
		closedir(d);
	return lives;
}

/* Makes the directory of a tenant, or takes over one of ours. */
static int make_directory(const char *place)
{
	struct stat st;

	if (mkdir(place, PLACE_MODE) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(place, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid())
		return -EBUSY;
	/* Whatever the umask, or somebody since. */
	return (st.st_mode & 0777) != PLACE_MODE && chmod(place, PLACE_MODE) < 0 ? -errno : 0;
}

/* Fills in the name of a file that nobody can guess. */
static int invent_file(const char *place, char *out_path, size_t path_bytes)
{
	unsigned char random[RANDOM_BYTES];
	size_t n = strlen(place);

	if (n + 1 + 2 * RANDOM_BYTES + sizeof(FILE_SUFFIX) > path_bytes)
		return -ENAMETOOLONG;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	n = (size_t)snprintf(out_path, path_bytes, "%s/", place);
	for (size_t i = 0; i < RANDOM_BYTES; i++)
		n += (size_t)snprintf(out_path + n, path_bytes - n, "%02x", random[i]);
	snprintf(out_path + n, path_bytes - n, FILE_SUFFIX);
	return 0;
}

int tenant_place_make(const char *dir, const char *name, char *out_path, size_t path_bytes,
		      int *out_lock)
{
	char place[PATH_MAX];
	int n = snprintf(place, sizeof(place), "%s/%s" TENANT_PLACE_SUFFIX, dir, name), rc;

	*out_lock = -1;
	if (n < 0 || (size_t)n >= sizeof(place))
		return -ENAMETOOLONG;
	*out_lock = lock_directory(dir);
	rc = make_directory(place);
	if (rc == 0 && sweep(place))
		rc = -EBUSY;
	if (rc == 0)
		rc = invent_file(place, out_path, path_bytes);
	return rc;
}

void tenant_place_settle(int lock)
{
	if (lock >= 0)
		close(lock);
}

/* The lock is held. */
static void clean(const char *dir)
{
	char place[PATH_MAX + NAME_MAX];
	DIR *d = opendir(dir);
	struct stat st;

	for (struct dirent *e; d && (e = readdir(d));) {
		if (!has_suffix(e->d_name, TENANT_PLACE_SUFFIX))
			continue;
		snprintf(place, sizeof(place), "%s/%s", dir, e->d_name);
		if (lstat(place, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
		    !sweep(place))
			rmdir(place);
	}
	if (d)
		closedir(d);
}

void tenant_place_end(const char *dir, const char *path)
{
	int lock = lock_directory(dir);
	const char *slash = strrchr(path, '/');
	char place[PATH_MAX];

	remove_file(path, false);
	snprintf(place, sizeof(place), "%.*s", (int)(slash - path), path);
	rmdir(place);
	clean(dir);
	tenant_place_settle(lock);
}

void tenant_place_clean(const char *dir)
{
	int lock = lock_directory(dir);

	clean(dir);
	tenant_place_settle(lock);
}
