/*
 * Mounts that only one child sees: it goes into a mount namespace of its own, with the rights of
 * root in it where it has none outside.
 */
#pragma once

#include "child.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static inline bool mount_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Goes into a user namespace in which this user is root. */
static inline bool mount_become_root(void)
{
	unsigned uid = (unsigned)geteuid(), gid = (unsigned)getegid();
	char text[64];

	if (unshare(CLONE_NEWUSER) < 0)
		return false;
	snprintf(text, sizeof(text), "0 %u 1", uid);
	if (!mount_write("/proc/self/uid_map", text))
		return false;
	mount_write("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", gid);
	return mount_write("/proc/self/gid_map", text);
}

/* In a child: runs the body in another pid namespace, and ends as it does. */
static inline void mount_other_pids(void (*body)(void *), void *arg)
{
	int status;
	pid_t pid;

	if ((geteuid() != 0 && !mount_become_root()) || unshare(CLONE_NEWPID) < 0)
		child_skip("no pid namespace can be made here");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(arg);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* In a child: makes an own mount namespace or ends the test as skipped. */
static inline void mount_begin(void)
{
	if ((geteuid() != 0 && !mount_become_root()) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		child_skip("no mount namespace can be made here");
}

/* Mounts a tmpfs with these options on the folder, which is made if it is not there. */
static inline void mount_tmpfs(const char *folder, const char *options)
{
	if (mkdir(folder, 0755) < 0)
		CHECK(errno == EEXIST);
	if (mount("tmpfs", folder, "tmpfs", 0, options) < 0)
		child_skip("no tmpfs can be mounted here");
}

/* Makes a mounted folder read-only. */
static inline void mount_read_only(const char *folder)
{
	CHECK(mount(NULL, folder, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
}
