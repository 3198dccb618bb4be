#include "tools/region_write.h"

#include "base/clock.h"
#include "base/sys.h"
#include "shm/lock.h"
#include "shm/region.h"
#include "tools/region_error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCK_WAIT_NS (5 * NSEC_PER_SEC)

/* Opens the file to be changed: a descriptor, or -errno. */
static int open_file(const char *path, char *out_error, size_t error_bytes)
{
	int fd = region_fd_up(open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
	struct stat st;
	int rc;

	if (fd >= 0)
		return fd;
	rc = -errno;
	if ((rc == -EACCES || rc == -EPERM) && sys_stat(path, &st) == 0)
		snprintf(out_error, error_bytes,
			 "the file belongs to uid %u and uid %u may not write it; only who may can "
			 "change it",
			 (unsigned)st.st_uid, (unsigned)geteuid());
	else
		snprintf(out_error, error_bytes, "the file cannot be opened for writing (%s)",
			 strerror(-rc));
	return rc;
}

/* Looks at the file under the lock: is it still a living tenant's? */
static int look(int fd, const char *path, struct view *view, char *out_error, size_t error_bytes)
{
	const char *what = NULL;
	char text[256];
	struct stat st;
	int rc = view_read(path, view);

	if (rc < 0)
		what = rc == -EACCES ? "the file cannot be read" :
				       region_error_text(path, rc, text, sizeof(text));
	else if (sys_fstat(fd, &st) < 0 || st.st_dev != view->st_dev || st.st_ino != view->st_ino)
		what = "the file was replaced meanwhile; try again";
	else if (view->kind != VIEW_OWN)
		what = "another library made it; it is that library's to change";
	else if (!view_is_alive(view))
		what = "it has ended";
	if (!what)
		return 0;
	if (rc == 0)
		view_free(view);
	snprintf(out_error, error_bytes, "%s", what);
	return rc < 0 ? rc : -ESTALE;
}

int region_write_open(const char *path, struct view *out_view, char *out_error, size_t error_bytes)
{
	int fd = open_file(path, out_error, error_bytes), rc;

	if (fd < 0)
		return fd;
	rc = lock_wait(fd, 0, HAMI_REGION_BYTES, LOCK_WAIT_NS);
	if (rc == -ETIMEDOUT)
		snprintf(out_error, error_bytes, "another process keeps it locked; try again");
	else if (rc < 0)
		snprintf(out_error, error_bytes, "it cannot be locked (%s)", strerror(-rc));
	else
		rc = look(fd, path, out_view, out_error, error_bytes);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}
