/*
 * Paths where no region can be, or only with care. Whatever is wrong, the message has the path and
 * what would be right, and nothing that was there is lost.
 */
#include "base/units.h"
#include "mount.h"
#include "refuse.h"
#include "tenant.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static const struct region_setup plain = { .mem_spec = "1g", .mem_source = "test", .priority = 1 };

/* In a child: the region at `path` is refused with `want` (-errno) and these words. */
static void refused(const char *path, int want, const char *words)
{
	struct region_error err = { "" };
	struct region r;
	int rc = region_open(path, &plain, &r, &err);

	if (rc != want || !strstr(err.text, path) || !strstr(err.text, words)) {
		fprintf(stderr, "%d (%s), '%s' is not in '%s'\n", rc, strerror(-rc), words,
			err.text);
		_exit(CHILD_FAILED);
	}
	CHECK(r.fd < 0 && !r.hami);
}

/* In a child: a region at `path` works. */
static void works(const char *path)
{
	struct region_error err = { "" };
	struct region r;
	int rc = region_open(path, &plain, &r, &err);

	if (rc < 0)
		fprintf(stderr, "%s\n", err.text);
	CHECK(rc == 0);
	region_settle(&r);
	CHECK(r.hami->magic == HAMI_MAGIC && r.own->magic == RATION_MAGIC);
	region_close(&r);
}

static const char *path_of(const char *name)
{
	return scratch_path(name);
}

static void body_kinds(void *arg)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct stat st;
	char target[512];
	int fd;

	(void)arg;
	CHECK(mkdir(path_of("folder"), 0755) == 0);
	refused(path_of("folder"), -EISDIR, "path of a file");
	refused(path_of(""), -EISDIR, "path of a file");

	snprintf(target, sizeof(target), "%s", scratch_file("target", "mine", 4));
	CHECK(symlink(target, path_of("link")) == 0);
	refused(path_of("link"), -ELOOP, "symbolic link");
	CHECK(stat(target, &st) == 0 && st.st_size == 4);
	CHECK(symlink(path_of("nowhere"), path_of("dangling")) == 0);
	refused(path_of("dangling"), -ELOOP, "symbolic link");
	CHECK(lstat(path_of("nowhere"), &st) < 0);

	CHECK(mkfifo(path_of("fifo"), 0666) == 0);
	refused(path_of("fifo"), -ENOTSUP, "regular file");

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path_of("socket"));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0);
	refused(path_of("socket"), -ENXIO, "regular file");
	refused("/dev/null", -ENOTSUP, "regular file");

	refused(path_of("no/such/region"), -ENOENT, "directory");
	refused(path_of("target/region"), -ENOTDIR, "directory");
}

static void test_what_is_no_file(void **state)
{
	(void)state;
	child_run(body_kinds, NULL);
}

static void body_names(void *arg)
{
	struct region_error err = { "" };
	char path[5000], name[261];
	struct region r;

	(void)arg;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	CHECK(region_open(path, &plain, &r, &err) == -ENAMETOOLONG);
	CHECK(strstr(err.text, "too long"));
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	refused(path_of(name), -ENAMETOOLONG, "shorter");
	CHECK(region_open("", &plain, &r, &err) == -ENOENT);
	/* Of a current directory that is gone. */
	CHECK(mkdir(path_of("gone"), 0755) == 0 && chdir(path_of("gone")) == 0);
	CHECK(rmdir(path_of("gone")) == 0);
	refused("region", -ENOENT, "begins with /");
}

static void test_names(void **state)
{
	(void)state;
	child_run(body_names, NULL);
}

static void body_other_uid(void *arg)
{
	(void)arg;
	if (setgid(65534) < 0 || setuid(65534) < 0)
		child_skip("this user cannot become another");
	refused(path_of("private"), -EACCES, "belongs to uid 0");
	refused(path_of("closed/region"), -EACCES, "directory");
	refused(path_of("new"), -EACCES, "directory must be writable");
	works(path_of("shared"));
}

static void test_files_of_others(void **state)
{
	struct region r;

	(void)state;
	if (geteuid() != 0)
		SKIP("only root can become another user");
	scratch_file("private", "", 0);
	assert_int_equal(chmod(path_of("private"), 0600), 0);
	assert_int_equal(mkdir(path_of("closed"), 0700), 0);
	/* A region that root made, under whatever mask, serves all uids of the container. */
	umask(077);
	tenant_open(&r, path_of("shared"), NULL);
	umask(022);
	region_close(&r);
	child_run(body_other_uid, NULL);
}

static void body_read_only(void *arg)
{
	struct stat st;

	(void)arg;
	mount_begin();
	mount_tmpfs(path_of("mnt"), "size=16m");
	scratch_file("mnt/old", "", 0);
	mount_read_only(path_of("mnt"));
	refused(path_of("mnt/new"), -EROFS, "writable file system");
	refused(path_of("mnt/old"), -EROFS, "writable file system");
	CHECK(stat(path_of("mnt/new"), &st) < 0);
}

static void test_read_only_file_system(void **state)
{
	(void)state;
	child_run(body_read_only, NULL);
}

/* Fills the file system and gives back what `bytes` need. */
static void fill_disk(const char *path, off_t bytes)
{
	static char part[4096];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	off_t size = 0;

	CHECK(fd >= 0);
	memset(part, 'x', sizeof(part));
	while (write(fd, part, sizeof(part)) == sizeof(part))
		size += (off_t)sizeof(part);
	CHECK(errno == ENOSPC && size >= bytes);
	CHECK(ftruncate(fd, size - bytes) == 0);
	close(fd);
}

static void read_whole(const char *path, char **out, size_t *out_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	*out_bytes = (size_t)st.st_size;
	*out = malloc(*out_bytes + 1);
	CHECK(*out && read(fd, *out, *out_bytes + 1) == st.st_size);
	close(fd);
}

static void same_as(const char *path, const char *bytes, size_t n)
{
	char *now;
	size_t now_bytes;

	read_whole(path, &now, &now_bytes);
	CHECK(now_bytes == n && !memcmp(now, bytes, n));
	free(now);
}

/* A file of HAMi-core's, 1.2 but for what the caller changes, with something in every slot. */
static char *hami_file(size_t bytes)
{
	struct hami_region *h = calloc(1, bytes > sizeof(*h) ? bytes : sizeof(*h));

	CHECK(h);
	memset(h->procs, 0x5a, sizeof(h->procs));
	h->magic = HAMI_MAGIC;
	h->major_version = 1;
	h->minor_version = 2;
	h->device_num = 1;
	h->limit_bytes[0] = 77;
	h->utilization_switch = 0;
	h->recent_kernel = -1;
	h->proc_num = 1024;
	return (char *)h;
}

static void body_full_disk(void *arg)
{
	char *hami = hami_file(HAMI_REGION_BYTES + 1);
	struct stat st;

	(void)arg;
	mount_begin();
	mount_tmpfs(path_of("mnt"), "size=7m");
	scratch_file("mnt/hami", hami, HAMI_REGION_BYTES + 1);
	fill_disk(path_of("mnt/filler"), 64 * 1024);
	refused(path_of("mnt/new"), -ENOSPC, "free");
	refused(path_of("mnt/hami"), -ENOSPC, "free");
	same_as(path_of("mnt/hami"), hami, HAMI_REGION_BYTES + 1);
	CHECK(stat(path_of("mnt/new"), &st) == 0 && st.st_size == 0);
	/* Room again: both work. */
	CHECK(unlink(path_of("mnt/filler")) == 0);
	works(path_of("mnt/hami"));
	CHECK(unlink(path_of("mnt/hami")) == 0);
	works(path_of("mnt/new"));
	fill_disk(path_of("mnt/filler"), 0);
	works(path_of("mnt/new"));
	free(hami);
}

static void test_full_disk(void **state)
{
	(void)state;
	child_run(body_full_disk, NULL);
}

/* The same where the file system cannot reserve space, so that it is written. */
static void body_full_disk_without_fallocate(void *arg)
{
	char *hami = hami_file(HAMI_REGION_BYTES + 1);
	struct stat st;

	(void)arg;
	mount_begin();
	mount_tmpfs(path_of("mnt"), "size=7m");
	if (!refuse_call(SYS_fallocate, REFUSE_ANY, 0, EOPNOTSUPP))
		child_skip("no seccomp filter can be set here");
	scratch_file("mnt/hami", hami, HAMI_REGION_BYTES + 1);
	fill_disk(path_of("mnt/filler"), 64 * 1024);
	refused(path_of("mnt/new"), -ENOSPC, "free");
	CHECK(unlink(path_of("mnt/filler")) == 0);
	CHECK(unlink(path_of("mnt/hami")) == 0);
	works(path_of("mnt/new"));
	CHECK(stat(path_of("mnt/new"), &st) == 0);
	CHECK(st.st_size == (off_t)RATION_FILE_BYTES && st.st_blocks * 512 >= st.st_size);
	free(hami);
}

static void test_full_disk_without_fallocate(void **state)
{
	(void)state;
	child_run(body_full_disk_without_fallocate, NULL);
}

/* Somebody's data, also data that begins like a region's or is as long as one. */
static void body_garbage(void *arg)
{
	static const size_t sizes[] = { 1,
					4,
					4095,
					4096,
					100000,
					HAMI_REGION_BYTES,
					RATION_FILE_BYTES,
					RATION_FILE_BYTES + 5000 };
	char *bytes = malloc(RATION_FILE_BYTES + 5000);

	(void)arg;
	CHECK(bytes);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (int where = 0; where < 3; where++) {
			const char *path;

			/* All over, at the end alone, at the start alone. */
			memset(bytes, where == 0 ? 'g' : 0, sizes[i]);
			bytes[where == 1 ? sizes[i] - 1 : 0] = 'g';
			path = scratch_file("garbage", bytes, sizes[i]);
			refused(path, -ENOTUNIQ,
				"garbage is not a region; it holds something else: remove it or "
				"choose another path");
			same_as(path, bytes, sizes[i]);
		}
	}
	free(bytes);
}

static void test_garbage_is_somebodys_data(void **state)
{
	(void)state;
	child_run(body_garbage, NULL);
}

/* An empty file, or one of zeros, is what a creator that died has left. */
static void body_blank(void *arg)
{
	static const size_t sizes[] = { 0, 1, 4096, HAMI_REGION_BYTES, RATION_FILE_BYTES };
	char *bytes = calloc(1, RATION_FILE_BYTES + 1);

	(void)arg;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		works(scratch_file("blank", bytes, sizes[i]));
	/* Longer than a region: somebody's. */
	refused(scratch_file("long", bytes, RATION_FILE_BYTES + 1), -ENOTUNIQ,
		"choose another path");
	free(bytes);
}

static void test_blank_files_are_taken(void **state)
{
	(void)state;
	child_run(body_blank, NULL);
}

static void body_fsize(void *arg)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };

	(void)arg;
	works(path_of("existing"));
	/* SIGXFSZ would end this child. */
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	refused(path_of("new"), -EFBIG, "ulimit -f");
	refused(path_of("hami"), -EFBIG, "ulimit -f");
	works(path_of("existing"));
}

static void test_file_size_limit(void **state)
{
	char *hami = hami_file(HAMI_REGION_BYTES + 1);

	(void)state;
	scratch_file("hami", hami, HAMI_REGION_BYTES + 1);
	child_run(body_fsize, NULL);
	same_as(path_of("hami"), hami, HAMI_REGION_BYTES + 1);
	free(hami);
}

static void body_nofile(void *arg)
{
	struct rlimit limit;
	struct region_error err;
	struct region r;
	struct slot slot;
	int fd = dup(0), next = dup(0);

	(void)arg;
	close(fd);
	close(next);
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = (rlim_t)fd;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	refused(path_of("region"), -EMFILE, "ulimit -n");
	/* Room for the region's own descriptor alone: no slot, and that is said. */
	limit.rlim_cur = (rlim_t)next;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(region_open(path_of("region"), &plain, &r, &err) == 0);
	CHECK(slot_claim(&r, &slot) == -EMFILE);
	region_settle(&r);
	region_close(&r);
	limit.rlim_cur = (rlim_t)next + 1;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(region_open(path_of("region"), &plain, &r, &err) == 0);
	CHECK(slot_claim(&r, &slot) == 0 && slot.index == 0);
}

static void test_descriptor_limit(void **state)
{
	(void)state;
	child_run(body_nofile, NULL);
}

static void body_no_standard_fds(void *arg)
{
	struct region_error err;
	struct region r;
	struct slot slot;
	int fd;

	(void)arg;
	/* The socket to the parent may be one of the low ones. */
	child_fd = fcntl(child_fd, F_DUPFD_CLOEXEC, 10);
	close(0);
	close(1);
	close(2);
	CHECK(region_open(path_of("region"), &plain, &r, &err) == 0);
	CHECK(r.fd > 2);
	CHECK(slot_claim(&r, &slot) == 0);
	fd = region_reopen(&r);
	CHECK(fd > 2);
	close(fd);
	for (int i = 0; i < 3; i++)
		CHECK(fcntl(i, F_GETFD) < 0);
	region_settle(&r);
	child_say('k');
	child_hear();
}

static void test_no_standard_descriptors(void **state)
{
	struct child c = child_start(body_no_standard_fds, NULL);
	struct region r;

	(void)state;
	child_await(&c, 'k');
	tenant_open(&r, path_of("region"), NULL);
	assert_int_equal(tenant_alive(&r, 0), 1);
	region_close(&r);
	child_tell(&c, 'x');
	child_end(&c);
}

static void test_mask(void **state)
{
	mode_t before = umask(0777);
	struct region r;
	struct stat st;

	(void)state;
	tenant_open(&r, path_of("region"), NULL);
	assert_int_equal(umask(before), 0777);
	assert_int_equal(stat(r.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	region_close(&r);
	/* What was there keeps its mode. */
	assert_int_equal(chmod(path_of("region"), 0660), 0);
	tenant_open(&r, path_of("region"), NULL);
	assert_int_equal(stat(r.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	region_close(&r);
}

static const char protected_regular[] = "/proc/sys/fs/protected_regular";
static char protected_before;

static bool set_protected(char value)
{
	int fd = open(protected_regular, O_RDWR | O_CLOEXEC);
	bool done = fd >= 0 && (protected_before || read(fd, &protected_before, 1) == 1) &&
		    pwrite(fd, &value, 1, 0) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

static int restore_protected(void **state)
{
	if (protected_before)
		set_protected(protected_before);
	return scratch_remove(state);
}

static void body_works(void *path)
{
	works(path);
}

/* Another's file in a sticky folder: not even root may open it with O_CREAT. */
static void test_protected_regular(void **state)
{
	char path[512];

	(void)state;
	assert_int_equal(mkdir(path_of("sticky"), 0755), 0);
	assert_int_equal(chmod(path_of("sticky"), 01777), 0);
	snprintf(path, sizeof(path), "%s", scratch_file("sticky/region", "", 0));
	if (geteuid() != 0 || chown(path, 65534, 65534) < 0 || chmod(path, 0666) < 0)
		SKIP("only root can give a file away");
	if (!set_protected('2'))
		SKIP("fs.protected_regular cannot be set here");
	assert_int_equal(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666), -1);
	assert_int_equal(errno, EACCES);
	child_run(body_works, path);
	child_run(body_works, path);
}

/* True when the process has the file open. */
static bool has_open(pid_t pid, const char *path)
{
	char link[64], target[512];

	for (int fd = 3; fd < 64; fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, fd);
		n = readlink(link, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = '\0';
			if (!strcmp(target, path))
				return true;
		}
	}
	return false;
}

static void body_waiter(void *path)
{
	struct region_error err;
	struct region r;
	struct stat st;

	CHECK(region_open(path, &plain, &r, &err) == 0);
	CHECK(stat(path, &st) == 0 && st.st_ino == r.place.st_ino && st.st_dev == r.place.st_dev);
	CHECK(r.own->generation == 1);
}

/* A tenant ended and took its file away between another's open and lock. */
static void test_removed_while_waiting(void **state)
{
	struct region_error err;
	struct region old;
	struct child c;
	char path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s", path_of("region"));
	assert_ok(region_open(path, &plain, &old, &err));
	c = child_start(body_waiter, path);
	while (!has_open(c.pid, path))
		usleep(1000);
	assert_int_equal(unlink(path), 0);
	region_settle(&old);
	child_end(&c);
	region_close(&old);
}

static void body_no_locks(void *arg)
{
	(void)arg;
	if (!refuse_call(SYS_fcntl, 1, F_OFD_SETLK, ENOLCK))
		child_skip("no seccomp filter can be set here");
	refused(path_of("region"), -ENOLCK, "local file system");
}

static void test_no_locks_there(void **state)
{
	(void)state;
	child_run(body_no_locks, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_what_is_no_file),
		scratch_test(test_names),
		scratch_test(test_files_of_others),
		scratch_test(test_read_only_file_system),
		scratch_test(test_full_disk),
		scratch_test(test_full_disk_without_fallocate),
		scratch_test(test_garbage_is_somebodys_data),
		scratch_test(test_blank_files_are_taken),
		scratch_test(test_file_size_limit),
		scratch_test(test_descriptor_limit),
		scratch_test(test_no_standard_descriptors),
		scratch_test(test_mask),
		cmocka_unit_test_setup_teardown(test_protected_regular, scratch_make,
						restore_protected),
		scratch_test(test_removed_while_waiting),
		scratch_test(test_no_locks_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
