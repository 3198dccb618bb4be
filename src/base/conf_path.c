#include "base/conf_path.h"

#include <ration/region.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where HAMi and KAI mount what is a container's, and Volcano. */
#define MOUNT "/usr/local/vgpu"
#define MOUNT_OF_VOLCANO "/tmp/vgpu"

#define SUFFIX ".cache"

static const char *value_of(const struct conf *conf, enum conf_var var)
{
	return conf_value(conf, conf_name(var));
}

static void set_path(struct conf *conf, enum conf_var var, const char *path)
{
	if (!*path || strlen(path) >= sizeof(conf->region_path)) {
		conf_fail(conf, conf_name(var),
			  *path ? "the path is too long" : "the path is empty");
		return;
	}
	memcpy(conf->region_path, path, strlen(path) + 1);
}

static bool is_region_name(const char *name)
{
	size_t n = strlen(name);

	return n >= sizeof(SUFFIX) && !strcmp(name + n - (sizeof(SUFFIX) - 1), SUFFIX) &&
	       !strstr(name, "libvgpu.so");
}

/* We could not look for want of memory or descriptors: nobody knows what is there. */
static bool is_want(int error)
{
	return error == ENOMEM || error == EMFILE || error == ENFILE;
}

/* A region, or what we cannot look at: who opens it says so. */
static bool may_be_region(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int32_t magic = 0;
	ssize_t n;

	if (fd < 0)
		return errno == EACCES || is_want(errno);
	n = read(fd, &magic, sizeof(magic));
	close(fd);
	return n == (ssize_t)sizeof(magic) && magic == HAMI_MAGIC;
}

/* The first region of a folder, by name. */
static bool find_in(struct conf *conf, const char *folder)
{
	char first[NAME_MAX + 1] = "";
	DIR *dir = opendir(folder);
	int n;

	if (!dir && is_want(errno))
		conf_fail(conf, folder, strerror(errno));
	for (struct dirent *e; dir && (e = readdir(dir));)
		if (is_region_name(e->d_name) && (!first[0] || strcmp(e->d_name, first) < 0) &&
		    may_be_region(dirfd(dir), e->d_name))
			snprintf(first, sizeof(first), "%s", e->d_name);
	if (dir)
		closedir(dir);
	if (!first[0])
		return false;
	n = snprintf(conf->region_path, sizeof(conf->region_path), "%s/%s", folder, first);
	return n > 0 && (size_t)n < sizeof(conf->region_path);
}

void conf_path_read(struct conf *conf)
{
	const char *pod = value_of(conf, CONF_POD_UID), *name = value_of(conf, CONF_CONTAINER_NAME);
	const char *mount = value_of(conf, CONF_CONTAINER_VGPU_MOUNT);
	const char *path;
	int n;

	if (!mount || !*mount)
		mount = MOUNT;
	path = value_of(conf, CONF_RATION_REGION);
	if (path) {
		set_path(conf, CONF_RATION_REGION, path);
		return;
	}
	path = value_of(conf, CONF_CUDA_DEVICE_MEMORY_SHARED_CACHE);
	if (path) {
		set_path(conf, CONF_CUDA_DEVICE_MEMORY_SHARED_CACHE, path);
		return;
	}
	if (pod && *pod && name && *name && !strchr(pod, '/') && !strchr(name, '/')) {
		n = snprintf(conf->region_path, sizeof(conf->region_path),
			     "%s/containers/%s_%s/usage.cache", mount, pod, name);
		conf->region_is_pod = n > 0 && (size_t)n < sizeof(conf->region_path);
		if (conf->region_is_pod)
			return;
	}
	if (find_in(conf, mount) || find_in(conf, MOUNT_OF_VOLCANO))
		return;
	snprintf(conf->region_path, sizeof(conf->region_path), "%s", CONF_DEFAULT_REGION);
	conf->region_is_default = true;
}
