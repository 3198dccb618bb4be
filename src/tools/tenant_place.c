#include "tools/tenant_place.h"

#include "base/clock.h"
#include "base/sys.h"
#include "shm/leaver.h"
#include "shm/lock.h"
#include "shm/region.h"
#include "shm/remains.h"

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

enum { RANDOM_BYTES = 16, PLACE_MODE = 0711, ENTER_TRIES = 16 };

/* Longer than who has the turn waits for others: for those who leave, and for a file's lock. */
#define TURN_WAIT_NS (2 * LEAVER_GONE_NS)
#define LOCK_WAIT_NS NSEC_PER_SEC

/* Whether a path leads to what is open. */
static bool is_at(const char *path, int fd)
{
	struct stat named, opened;

	return sys_fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
	       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/*
 * Takes the turn at a place, under which it and its files come and go, so that of one name there
 * are never two. A file system without such locks has none. A descriptor to be closed, or -errno:
 * -EBUSY when others have it for longer than `wait_ns`, -ESTALE when they removed the place.
 */
static int take_turn(const char *place, int64_t wait_ns)
{
	int fd = region_fd_up(open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)), rc;
	int64_t start_ns = clock_now_ns(), waited_ns = 0;

	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	while ((rc = flock(fd, LOCK_EX | LOCK_NB)) < 0 &&
	       (errno == EWOULDBLOCK || errno == EINTR) && waited_ns < wait_ns) {
		clock_sleep_ns(clock_nap_ns(waited_ns));
		waited_ns = clock_now_ns() - start_ns;
	}
	rc = rc < 0 && (errno == EWOULDBLOCK || errno == EINTR) ? -EBUSY : 0;
	if (rc == 0 && !is_at(place, fd))
		rc = -ESTALE;
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

static void end_turn(int turn)
{
	if (turn >= 0)
		close(turn);
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

/* Reads what tells who is left; it is not mapped: the file may be short. */
static void read_owners(int fd, struct ration_region *own)
{
	const size_t head = offsetof(struct ration_region, slots);
	const off_t exporters = RATION_OFFSET + (off_t)offsetof(struct ration_region, exporters);

	memset(own, 0, head);
	memset(own->exporters, 0, sizeof(own->exporters));
	if (pread(fd, own, head, RATION_OFFSET) < 0 ||
	    pread(fd, own->exporters, sizeof(own->exporters), exporters) < 0)
		return;
	for (size_t i = 0; i < HAMI_SLOTS; i++) {
		off_t at = RATION_OFFSET + (off_t)(head + i * sizeof(*own->slots));

		if (own->hint[i] && pread(fd, &own->slots[i], sizeof(*own->slots), at) !=
					    (ssize_t)sizeof(*own->slots))
			own->hint[i] = 0;
	}
}

/* Who has the file, as remains_look(); REMAINS_ALIVE where a byte is locked. Or -errno. */
static int look(int fd, bool keeper, int64_t waited_ns)
{
	static struct ration_region own; /* 5 MiB, of which little is touched */
	int64_t bytes = keeper ? RATION_LOCK_KEEPER + 1 - RATION_LOCK_SLOT : HAMI_SLOTS;
	int rc = lock_held(fd, RATION_LOCK_SLOT, bytes, NULL);

	if (rc != 0)
		return rc > 0 ? (int)REMAINS_ALIVE : rc;
	read_owners(fd, &own);
	return (int)remains_look(&own, waited_ns);
}

int tenant_place_lives(const char *path)
{
	int fd = region_fd_up(
		open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
	int rc;

	if (fd < 0)
		return -errno;
	rc = look(fd, true, 0);
	close(fd);
	return rc < 0 ? rc : rc >= (int)REMAINS_LEAVING;
}

/* What of the tenant's whose file it is counts as life. */
enum lives { LIVES_PROCESS, LIVES_PROCESS_OR_RUN };

/*
 * Removes the file if nobody has it, and says who has: REMAINS_NOBODY when it is gone, for all but
 * REMAINS_ALIVE it may be tried again (remains_look()). Or -errno. With LIVES_PROCESS_OR_RUN a
 * `ration run` above it counts too; the one that calls does not look for itself.
 */
static int remove_file(const char *path, enum lives lives, int64_t waited_ns)
{
	bool keeper = lives == LIVES_PROCESS_OR_RUN;
	struct stat named;
	int fd, rc;

	if (lstat(path, &named) < 0)
		return -errno;
	if (!S_ISREG(named.st_mode))
		return remove(path) < 0 ? -errno : 0;
	fd = open_file(path);
	if (fd < 0)
		return fd;
	/* First without the lock: a file in use costs nobody a wait. */
	rc = look(fd, keeper, waited_ns);
	/* Who attaches holds it, and looks after taking it whether the file still has a name. */
	if (rc == (int)REMAINS_NOBODY)
		rc = lock_wait(fd, 0, HAMI_REGION_BYTES, keeper ? 0 : LOCK_WAIT_NS);
	if (rc == 0)
		rc = look(fd, keeper, waited_ns);
	else if (rc == -ETIMEDOUT)
		rc = (int)REMAINS_ALIVE;
	if (rc == (int)REMAINS_NOBODY && !is_at(path, fd))
		rc = -ESTALE;
	if (rc == (int)REMAINS_NOBODY && unlink(path) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Removes the dead files of a place. Says who is left. */
static enum remains sweep(const void *arg, int64_t waited_ns)
{
	const char *place = arg;
	char path[PATH_MAX + NAME_MAX];
	int most = (int)REMAINS_NOBODY;
	DIR *d = opendir(place);

	for (struct dirent *e; d && (e = readdir(d));) {
		int rc;

		if (!is_file_name(e->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", place, e->d_name);
		rc = remove_file(path, LIVES_PROCESS_OR_RUN, waited_ns);
		most = rc > most ? rc : most;
	}
	if (d)
		closedir(d);
	return (enum remains)most;
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

/* Makes the place and takes the turn at it: a descriptor or -errno. */
static int enter(const char *place)
{
	int64_t start_ns = clock_now_ns(), wait_ns = TURN_WAIT_NS;
	int turn = -ESTALE;

	/* Who had the turn before may have removed it. */
	for (int i = 0; i < ENTER_TRIES && turn == -ESTALE; i++) {
		turn = make_directory(place);
		if (turn == 0)
			turn = take_turn(place, wait_ns);
		wait_ns = TURN_WAIT_NS - (clock_now_ns() - start_ns);
	}
	return turn == -ESTALE ? -EBUSY : turn;
}

int tenant_place_make(const char *dir, const char *name, char *out_path, size_t path_bytes,
		      int *out_turn)
{
	char place[PATH_MAX];
	int n = snprintf(place, sizeof(place), "%s/%s" TENANT_PLACE_SUFFIX, dir, name), rc;

	*out_turn = -1;
	if (n < 0 || (size_t)n >= sizeof(place))
		return -ENAMETOOLONG;
	*out_turn = enter(place);
	if (*out_turn < 0)
		return *out_turn;
	rc = remains_await(sweep, place) ? -EBUSY : invent_file(place, out_path, path_bytes);
	return rc;
}

void tenant_place_settle(int turn)
{
	end_turn(turn);
}

void tenant_place_clean(const char *dir)
{
	char place[PATH_MAX + NAME_MAX];
	DIR *d = opendir(dir);
	struct stat st;
	int turn;

	for (struct dirent *e; d && (e = readdir(d));) {
		if (!has_suffix(e->d_name, TENANT_PLACE_SUFFIX))
			continue;
		snprintf(place, sizeof(place), "%s/%s", dir, e->d_name);
		if (lstat(place, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
			continue;
		turn = take_turn(place, 0);
		/* Nobody is waited for: who comes next finds it old. */
		if (turn >= 0 && sweep(place, 0) == REMAINS_NOBODY)
			rmdir(place);
		end_turn(turn);
	}
	if (d)
		closedir(d);
}

/* The file of a tenant that has ended: those are waited for whose exit goes on. */
static void remove_own(const char *path)
{
	int64_t start_ns = clock_now_ns();

	for (int64_t waited_ns = 0;
	     remove_file(path, LIVES_PROCESS, waited_ns) == (int)REMAINS_LEAVING;
	     waited_ns = clock_now_ns() - start_ns)
		clock_sleep_ns(clock_nap_ns(waited_ns));
}

void tenant_place_end(const char *dir, const char *path)
{
	const char *slash = strrchr(path, '/');
	char place[PATH_MAX];
	int turn;

	snprintf(place, sizeof(place), "%.*s", (int)(slash - path), path);
	turn = take_turn(place, TURN_WAIT_NS);
	if (turn != -EBUSY) {
		remove_own(path);
		rmdir(place);
	}
	end_turn(turn);
	tenant_place_clean(dir);
}
