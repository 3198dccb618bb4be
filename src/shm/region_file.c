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

enum { PATH_SHOWN = 300 };

static const char need_space[] = "; free some space or choose another path";

/* True of the codes that stand for something found in the file; the kernel's words do not fit. */
static bool is_finding(int rc)
{
	return rc == -ENOTUNIQ || rc == -ESTALE || rc == -EBADMSG || rc == -EBUSY;
}

int region_file_fail(struct region_error *err, int rc, const char *path, const char *what,
		     const char *hint)
{
	const char *dots = strlen(path) > PATH_SHOWN ? "..." : "";
	const char *end = *dots ? path + strlen(path) - PATH_SHOWN : path;

	if (is_finding(rc))
		snprintf(err->text, sizeof(err->text), "region %s%s %s%s", dots, end, what, hint);
	else
		snprintf(err->text, sizeof(err->text), "region %s%s %s (%s)%s", dots, end, what,
			 strerror(-rc), hint);
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

/* What would be right where open() said -`rc`. */
static const char *open_hint(int rc)
{
	switch (-rc) {
	case ELOOP:
		return "; a symbolic link is not followed: give the file itself";
	case EISDIR:
		return "; give the path of a file in it";
	case ENOENT:
	case ENOTDIR:
		return "; its directory must exist";
	case EACCES:
		return "; its directory must be writable";
	case ENXIO:
		return "; it must be a regular file";
	case EROFS:
		return "; choose a path on a writable file system";
	case EMFILE:
		return "; raise ulimit -n or close some";
	case ENAMETOOLONG:
		return "; choose a shorter one";
	case ENOSPC:
	case EDQUOT:
		return need_space;
	default:
		return "";
	}
}

static int open_failed(struct region_error *err, const char *path)
{
	int rc = -errno;
	struct stat st;
	char owner[128];

	if (rc != -EACCES || sys_stat(path, &st) < 0)
		return region_file_fail(err, rc, path, "cannot be opened", open_hint(rc));
	snprintf(owner, sizeof(owner),
		 "; it belongs to uid %u and we are uid %u: change its mode or choose another path",
		 (unsigned)st.st_uid, (unsigned)geteuid());
	return region_file_fail(err, rc, path, "cannot be opened", owner);
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
		return region_file_fail(err, rc, path, "is not a regular file",
					"; choose another path");
	}
	return fd;
}

/* Field `n` (from 1) of a line of /proc/PID/maps; NULL when the line has none. */
static const char *maps_field(const char *line, int n)
{
	for (int field = 1; field < n; field++) {
		line = strchr(line, ' ');
		if (!line)
			return NULL;
		line += strspn(line, " ");
	}
	return line;
}

/*
 * "major:minor " as /proc writes a device. The macros of that name are functions of glibc's that
 * musl does not have.
 */
static void format_dev(uint64_t dev, char *buf, size_t buf_bytes)
{
	snprintf(buf, buf_bytes, "%02x:%02x ", (unsigned)(dev >> 8 & 0xfff),
		 (unsigned)((dev & 0xff) | (dev >> 12 & 0xffffff00)));
}

/*
 * True when the line is a mapping of the file `st` at `path`. Inode numbers repeat on other file
 * systems; on some (overlayfs, btrfs) the device shown here is not that of stat(), but the name is.
 */
static bool is_mapping_of(const char *line, const struct stat *st, const char *path)
{
	const char *dev = maps_field(line, 4), *inode = maps_field(line, 5);
	const char *mapped = strrchr(line, '/'), *name = strrchr(path, '/');
	char want[32];

	if (!inode || units_parse_digits(inode, NULL) != (uint64_t)st->st_ino)
		return false;
	format_dev(st->st_dev, want, sizeof(want));
	if (!strncmp(dev, want, strlen(want)))
		return true;
	name = name ? name + 1 : path;
	return mapped && strcspn(mapped + 1, "\n") == strlen(name) &&
	       !strncmp(mapped + 1, name, strlen(name));
}

/* True when process `pid` has the file mapped. Unknown counts as no: /proc may be closed to us. */
static bool maps_file(int pid, const struct stat *st, const char *path)
{
	char maps[64], line[4352];
	bool found = false;
	FILE *f;

	snprintf(maps, sizeof(maps), "/proc/%d/maps", pid);
	f = fopen(maps, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = is_mapping_of(line, st, path);
	fclose(f);
	return found;
}

/* The line of a mapping that begins at `at`. */
static bool is_at(const char *line, const void *at)
{
	char want[32];
	int n = snprintf(want, sizeof(want), "%lx-", (unsigned long)(uintptr_t)at);

	return !strncmp(line, want, (size_t)n);
}

bool region_file_is_unlinked(const void *at)
{
	static const char deleted[] = " (deleted)\n";
	const size_t deleted_bytes = sizeof(deleted) - 1;
	FILE *f = fopen("/proc/self/maps", "re");
	bool is_unlinked = false;
	char line[4352];

	while (f && fgets(line, sizeof(line), f)) {
		size_t n = strlen(line);

		if (!is_at(line, at))
			continue;
		is_unlinked = n > deleted_bytes && !strcmp(line + n - deleted_bytes, deleted);
		break;
	}
	if (f)
		fclose(f);
	return is_unlinked;
}

/* A process of another library that lives in the file: HAMi-core holds no lock while it does. */
static int foreign_user(int fd, const char *path)
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

		if (pid > 0 && pid != (int)getpid() && maps_file(pid, &st, path))
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

/* A creator that died before it wrote our magic leaves zeros, and never more than a region. */
static bool is_blank(int fd, off_t size)
{
	unsigned char part[512];
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

/*
 * What a file with our magic holds. Without a layout its creator died before it wrote anything
 * else.
 */
static enum region_content classify_own(uint32_t layout, uint32_t file_bytes, int32_t magic,
					off_t size)
{
	const off_t head_bytes = RATION_OFFSET + offsetof(struct ration_region, hint);

	if (layout == 0)
		return REGION_HAMI;
	if (layout == 1 && size >= head_bytes)
		return REGION_OLDER;
	if (layout != RATION_LAYOUT || file_bytes != RATION_FILE_BYTES)
		return REGION_OTHER;
	return magic == HAMI_MAGIC && size >= (off_t)RATION_FILE_BYTES ? REGION_OURS : REGION_TORN;
}

/* Tells the content from the first page and our own header. */
static int classify(int fd, const char *path, enum region_content *out, struct region_error *err)
{
	static const char hint[] = "; it holds something else: remove it or choose another path";
	unsigned char head[512];
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
	/* Our magic is written before all else: a creator that died later left it. */
	if (magic != HAMI_MAGIC && own[0] != RATION_MAGIC)
		return region_file_fail(err, -ENOTUNIQ, path, "is not a region", hint);
	*out = own[0] == RATION_MAGIC ?
		       classify_own((uint32_t)own[1], (uint32_t)(own[1] >> 32), magic, st.st_size) :
		       REGION_HAMI;
	return 0;
}

int region_file_examine(int fd, const char *path, enum region_content *out_content, bool *out_alive,
			struct region_error *err)
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
	if (!held && *out_content >= REGION_OLDER) {
		pid = foreign_user(fd, path);
		snprintf(hint, sizeof(hint), "; process %d uses it: end it first", pid);
		if (pid)
			return region_file_fail(err, -ESTALE, path, "is in use by another library",
						hint);
	}
	*out_alive = held;
	return 0;
}

/* Reserves the space of a region, and then raises the size to it. 0 or -errno. */
static int reserve(int fd, off_t size)
{
	int rc = -1;

	/* tmpfs gives up when a signal comes, and a program may have a timer that never lets it. */
	errno = EINTR;
	for (int i = 0; rc < 0 && errno == EINTR && i < 100; i++)
		rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, RATION_FILE_BYTES);
	if (rc < 0)
		return errno == EINTR || errno == ENOSYS ? -EOPNOTSUPP : -errno;
	if (size < (off_t)RATION_FILE_BYTES && ftruncate(fd, RATION_FILE_BYTES) < 0)
		return -errno;
	return 0;
}

/* The same by writing every byte again: nobody but the caller uses the file. */
static int rewrite(int fd)
{
	unsigned char part[512];

	for (off_t at = 0; at < (off_t)RATION_FILE_BYTES;) {
		size_t want = RATION_FILE_BYTES - (size_t)at;
		ssize_t n;

		want = want < sizeof(part) ? want : sizeof(part);
		memset(part, 0, want);
		if (pread(fd, part, want, at) < 0)
			return -errno;
		n = pwrite(fd, part, want, at);
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		at += n;
	}
	return 0;
}

int region_file_grow(int fd, const char *path, struct region_error *err)
{
	char size[16], what[96];
	struct rlimit limit;
	struct stat st;
	int rc;

	units_format_size(RATION_FILE_BYTES, size, sizeof(size));
	if (sys_fstat(fd, &st) < 0)
		return region_file_fail(err, -errno, path, "cannot be read", "");
	if (st.st_size >= (off_t)RATION_FILE_BYTES &&
	    st.st_blocks * 512 >= (off_t)RATION_FILE_BYTES)
		return 0;
	/* Beyond the limit the kernel would send SIGXFSZ, which ends the program. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < RATION_FILE_BYTES) {
		snprintf(what, sizeof(what), "needs %s, more than ulimit -f allows", size);
		return region_file_fail(err, -EFBIG, path, what,
					"; raise it or choose an existing region");
	}
	/* Keeping the size first: a disk that fills up midway leaves the file as it was. */
	rc = reserve(fd, st.st_size);
	if (rc == -EOPNOTSUPP)
		rc = rewrite(fd);
	if (rc == 0)
		return 0;
	snprintf(what, sizeof(what), "cannot be given its %s of space", size);
	return region_file_fail(err, rc, path, what,
				rc == -ENOSPC || rc == -EDQUOT ? need_space : "");
}
