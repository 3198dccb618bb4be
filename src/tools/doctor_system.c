#include "tools/doctor_system.h"

#include "shm/exported.h"
#include "shm/lock.h"
#include "shm/region.h"
#include "tools/doctor_report.h"
#include "tools/tools_common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PRELOAD_FILE "/etc/ld.so.preload"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef NFS_SUPER_MAGIC
#define NFS_SUPER_MAGIC 0x6969
#endif

static void preload_variable(void)
{
	const char *value = getenv("LD_PRELOAD");
	char text[1024];

	if (value && *value)
		doctor_report(DOCTOR_NOTE, "preload", "LD_PRELOAD is '%s'",
			      tools_printable(value, text, sizeof(text)));
	else
		doctor_report(DOCTOR_NOTE, "preload", "LD_PRELOAD is not set");
}

static void preload_file(void)
{
	char line[1024], text[1024];
	FILE *f = fopen(PRELOAD_FILE, "re");
	int lines = 0;

	if (!f) {
		if (errno == ENOENT)
			doctor_report(DOCTOR_NOTE, "preload", PRELOAD_FILE " is not there");
		else
			doctor_report(DOCTOR_WARN, "preload",
				      PRELOAD_FILE " cannot be read (%m); make it readable");
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!*line)
			continue;
		lines++;
		if (access(line, R_OK) < 0)
			doctor_report(DOCTOR_WARN, "preload",
				      PRELOAD_FILE
				      " names '%s', which cannot be read (%m); every "
				      "program's start complains of it: remove the line or "
				      "put the library there",
				      tools_printable(line, text, sizeof(text)));
		else
			doctor_report(DOCTOR_NOTE, "preload", PRELOAD_FILE " has '%s'",
				      tools_printable(line, text, sizeof(text)));
	}
	fclose(f);
	if (lines == 0)
		doctor_report(DOCTOR_NOTE, "preload", PRELOAD_FILE " is empty");
}

void doctor_system_preload(void)
{
	preload_variable();
	preload_file();
	if (getauxval(AT_SECURE))
		doctor_report(
			DOCTOR_WARN, "preload",
			"this command was started with the rights of another user (setuid, "
			"setgid or capabilities): LD_PRELOAD does not reach such a program; start "
			"it as the user who runs the programs");
}

/* Whether those of device memory are seen for as long as they are open. */
static void descriptors(void)
{
	const struct exported what = { .memory = 1, .bytes = EXPORTED_UNIT_BYTES };
	const uint64_t owner = (uint64_t)getpid();
	int fd = memfd_create("ration-doctor", MFD_CLOEXEC);
	int rc = fd < 0 ? -errno : exported_mark(fd, owner, &what);

	if (rc == 0)
		rc = exported_shows(owner, &what);
	if (rc == 0)
		doctor_report(DOCTOR_OK, "kernel", "descriptors of memory can be followed");
	else
		doctor_report(DOCTOR_WARN, "kernel",
			      "descriptors of memory cannot be followed (%s): memory that has had "
			      "one stays counted until its process ends; let /proc/locks be read",
			      strerror(-rc));
	if (fd >= 0)
		close(fd);
}

void doctor_system_kernel(void)
{
	const size_t bytes = 65536;
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	void *page;

	if (commands >= 0 && commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		doctor_report(DOCTOR_OK, "kernel", "membarrier is there");
	else
		doctor_report(
			DOCTOR_WARN, "kernel",
			"membarrier is not to be had (a kernel before 4.14, or a seccomp filter): "
			"each launch costs a fence more; allow membarrier(2)");
	page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) == 0)
		doctor_report(DOCTOR_OK, "kernel", "memory can be wiped at fork");
	else
		doctor_report(
			DOCTOR_WARN, "kernel",
			"memory cannot be wiped at fork (%m): fork children are known by their "
			"process id instead; allow madvise(2) with MADV_WIPEONFORK");
	if (page != MAP_FAILED)
		munmap(page, bytes);
	descriptors();
}

/* Locks a byte of a file without a name through one description and looks through another. */
static int try_lock(const char *dir)
{
	char self[64];
	int fd = region_fd_up(open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600)), other, rc;

	if (fd < 0)
		return -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	other = open(self, O_RDWR | O_CLOEXEC);
	if (other < 0) {
		rc = -errno;
	} else {
		rc = lock_try(fd, RATION_LOCK_SLOT, 1);
		if (rc == 0)
			rc = lock_held(other, RATION_LOCK_SLOT, 1, NULL) == 1 ? 0 : -ENOLCK;
		close(other);
	}
	close(fd);
	return rc;
}

/* False when the directory cannot be looked at. */
static bool file_system(const char *dir)
{
	struct statfs fs;

	if (statfs(dir, &fs) < 0) {
		doctor_report(
			DOCTOR_FAIL, "region",
			"%s cannot be looked at (%m); make the directory, or name another path",
			dir);
		return false;
	}
	switch ((unsigned long)fs.f_type) {
	case OVERLAYFS_SUPER_MAGIC:
		doctor_report(
			DOCTOR_NOTE, "region",
			"%s is on overlayfs: each process keeps a descriptor for its place, and a "
			"piece of System V shared memory in case its program closes that; a volume "
			"or /dev/shm is better",
			dir);
		break;
	case NFS_SUPER_MAGIC:
		doctor_report(
			DOCTOR_WARN, "region",
			"%s is on NFS, where locks and shared memory are not those of one machine; "
			"choose a local file system",
			dir);
		break;
	default:
		doctor_report(DOCTOR_OK, "region", "%s is on a local file system", dir);
	}
	return true;
}

void doctor_system_region(const char *path)
{
	char dir[PATH_MAX];
	char *slash;
	int rc;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash)
		snprintf(dir, sizeof(dir), ".");
	else
		slash[slash == dir] = '\0';
	if (path[0] != '/')
		doctor_report(
			DOCTOR_WARN, "region",
			"%s depends on the folder in which a program is: those in another one are "
			"another tenant, with all of the limit again; give a path that begins "
			"with /",
			path);
	if (!file_system(dir))
		return;
	rc = try_lock(dir);
	if (rc == 0)
		doctor_report(DOCTOR_OK, "region", "locks hold in %s", dir);
	else if (rc == -EOPNOTSUPP || rc == -EISDIR || rc == -EACCES || rc == -EROFS)
		doctor_report(DOCTOR_NOTE, "region", "locks in %s could not be tried (%s)", dir,
			      strerror(-rc));
	else
		doctor_report(
			DOCTOR_FAIL, "region",
			"locks do not hold in %s (%s); choose a directory on a local file system",
			dir, strerror(-rc));
}

void doctor_system_limits(void)
{
	doctor_report(
		DOCTOR_NOTE, "out of reach",
		"programs that are linked statically or against musl, and setuid programs unless "
		"by " PRELOAD_FILE ": no preloaded library reaches their CUDA calls");
	doctor_report(
		DOCTOR_NOTE, "out of reach",
		"drivers that a program loads by dlmopen or with RTLD_DEEPBIND: they go past any "
		"preloaded library");
	doctor_report(
		DOCTOR_NOTE, "out of reach",
		"memory that a kernel pages in from the host by itself (HMM): it is in no call");
}
