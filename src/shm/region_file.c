#include "shm/region_file.h"

#include "base/sys.h"
#include "base/units.h"
#include "shm/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int region_file_fail(struct region_error *err, int rc, const char *path, const char *what,
		     const char *hint)
{
	snprintf(err->text, sizeof(err->text), "region %s %s (%s)%s", path, what, strerror(-rc),
		 hint);
	return rc;
}

int region_fd_up(int fd)
{
	int up, saved;

	if (fd < 0 || fd > 2)
		return fd;
	up = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	saved = errno;
	close(fd);
	errno = saved;
	return up;
}

static int open_failed(struct region_error *err, const char *path)
{
	int rc = -errno;
	const char *hint = "";
	struct stat st;
	char owner[64];

	switch (-rc) {
	case ELOOP:
		hint = "; a symbolic link is not followed: give the file itself";
		break;
	case EISDIR:
		hint = "; give the path of a file in it";
		break;
	case ENOENT:
		hint = "; its directory must exist";
		break;
	case EACCES:
		if (sys_stat(path, &st) == 0) {
			snprintf(owner, sizeof(owner), "; it belongs to uid %u and we are uid %u",
				 (unsigned)st.st_uid, (unsigned)geteuid());
			hint = owner;
		} else {
			hint = "; its directory must be writable";
		}
		break;
	case ENXIO:
		hint = "; it must be a regular file";
		break;
	case EROFS:
		hint = "; choose a path on a writable file system";
		break;
	default:
		break;
	}
	return region_file_fail(err, rc, path, "cannot be opened", hint);
}

int region_file_open(const char *path, struct region_error *err)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	int fd = -1;

	/* First without O_CREAT: fs.protected_regular refuses O_CREAT on another's file in /tmp. */
	for (int i = 0; i < 3 && fd < 0; i++) {
		fd = region_fd_up(open(path, flags));
		if (fd >= 0 || errno != ENOENT)
			break;
		fd = region_fd_up(open(path, flags | O_CREAT | O_EXCL, 0666));
		if (fd >= 0)
			fchmod(fd, 0666);
		else if (errno != EEXIST)
			break;
	}
	if (fd < 0)
		return open_failed(err, path);
	if (sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		int rc = S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP;

		close(fd);
		return region_file_fail(err, rc, path, "is not a regular file", "");
	}
	return fd;
}

/* The inode of a line of /proc/PID/maps: its fifth field. 0 when the line has none. */
static uint64_t maps_inode(const char *line)
{
	for (int field = 1; field < 5; field++) {
		line = strchr(line, ' ');
		if (!line)
			return 0;
		line += strspn(line, " ");
	}
	return units_parse_digits(line, NULL);
}

/* True when process `pid` has the file mapped. Unknown counts as no: /proc may be closed to us. */
static bool maps_file(int pid, uint64_t inode)
{
	char path[64], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = inode != 0 && maps_inode(line) == inode;
	fclose(f);
	return found;
}

/* A process of another library that lives in the file: HAMi-core holds no lock while it does. */
static int foreign_user(int fd)
{
	struct stat st;
	DIR *proc;
	int found = 0;

	if (sys_fstat(fd, &st) < 0)
		return 0;
	proc = opendir("/proc");
	if (!proc)
		return 0;
	for (struct dirent *d; !found && (d = readdir(proc));) {
		int pid = (int)units_parse_digits(d->d_name, NULL);

		if (pid > 0 && pid != (int)getpid() && maps_file(pid, st.st_ino))
			found = pid;
	}
	closedir(proc);
	return found;
}

static bool all_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/* A creator that died before the magic leaves nothing but zeros, and never more than a region. */
static bool is_blank(int fd, off_t size)
{
	unsigned char part[4096];
	ssize_t n = 1;

	if (size > (off_t)RATION_FILE_BYTES)
		return false;
	for (off_t at = 0; at < size && n > 0; at += n) {
		n = pread(fd, part, sizeof(part), at);
		if (n < 0 || !all_zero(part, (size_t)n))
			return false;
	}
	return true;
}

/* Tells the content from the first page and our own header. */
static int classify(int fd, const char *path, enum region_content *out, struct region_error *err)
{
	static const char hint[] = "; it holds something else: remove it or choose another path";
	unsigned char head[4096];
	uint64_t own[4] = { 0 };
	struct stat st;
	ssize_t n;
	int32_t magic;

	if (sys_fstat(fd, &st) < 0)
		return region_file_fail(err, -errno, path, "cannot be read", "");
	memset(head, 0, sizeof(head));
	n = pread(fd, head, sizeof(head), 0);
	if (n < 0 || pread(fd, own, sizeof(own), RATION_OFFSET) < 0)
		return region_file_fail(err, -errno, path, "cannot be read", "");
	memcpy(&magic, head, sizeof(magic));
	if (magic == 0 && all_zero(head, sizeof(head)) && is_blank(fd, st.st_size)) {
		*out = REGION_EMPTY;
		return 0;
	}
	/* Our header is written before the HAMi magic: a creator that died in between left it. */
	if (magic != HAMI_MAGIC && own[0] != RATION_MAGIC)
		return region_file_fail(err, -ENOTUNIQ, path, "is not a region", hint);
	*out = REGION_HAMI;
	if (own[0] == RATION_MAGIC && (uint32_t)own[1] == RATION_LAYOUT &&
	    (uint32_t)(own[1] >> 32) == RATION_FILE_BYTES && st.st_size >= (off_t)RATION_FILE_BYTES &&
	    magic == HAMI_MAGIC)
		*out = REGION_OURS;
	return 0;
}

int region_file_examine(int fd, const char *path, enum region_content *out_content,
			bool *out_alive, struct region_error *err)
{
	int held, rc = classify(fd, path, out_content, err);
	char hint[96];
	int pid;

	if (rc < 0)
		return rc;
	held = lock_held(fd, RATION_LOCK_SLOT, RATION_LOCK_KEEPER + 1 - RATION_LOCK_SLOT, NULL);
	if (held < 0)
		return region_file_fail(err, held, path, "cannot be locked",
					"; choose a path on a local file system");
	if (held && *out_content != REGION_OURS)
		return region_file_fail(err, -ESTALE, path,
					"is in use, and is short or of another version",
					"; end its processes first");
	if (!held && *out_content == REGION_HAMI) {
		pid = foreign_user(fd);
		snprintf(hint, sizeof(hint), "; process %d uses it: end it first", pid);
		if (pid)
			return region_file_fail(err, -ESTALE, path,
						"is in use by another library", hint);
	}
	*out_alive = held;
	return 0;
}

int region_file_grow(int fd, const char *path, struct region_error *err)
{
	static const char zeros[4096];
	struct rlimit limit;
	struct stat st;
	off_t at;

	if (sys_fstat(fd, &st) < 0)
		return region_file_fail(err, -errno, path, "cannot be read", "");
	if (st.st_size >= (off_t)RATION_FILE_BYTES && st.st_blocks * 512 >= (off_t)RATION_FILE_BYTES)
		return 0;
	/* Beyond the limit the kernel would send SIGXFSZ, which ends the program. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < RATION_FILE_BYTES)
		return region_file_fail(err, -EFBIG, path, "needs 4 MiB, more than ulimit -f allows",
					"; raise it or choose an existing region");
	/* Keeping the size first: a disk that fills up midway leaves the file as it was. */
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, RATION_FILE_BYTES) == 0) {
		if (st.st_size < (off_t)RATION_FILE_BYTES && ftruncate(fd, RATION_FILE_BYTES) < 0)
			return region_file_fail(err, -errno, path, "cannot be given space", "");
		return 0;
	}
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return region_file_fail(err, -errno, path, "cannot be given its 4 MiB of space", "");
	for (at = st.st_size; at < (off_t)RATION_FILE_BYTES;) {
		size_t want = RATION_FILE_BYTES - (size_t)at;
		ssize_t n = pwrite(fd, zeros, want < sizeof(zeros) ? want : sizeof(zeros), at);

		if (n <= 0)
			return region_file_fail(err, n < 0 ? -errno : -ENOSPC, path,
						"cannot be given its 4 MiB of space", "");
		at += n;
	}
	return 0;
}
