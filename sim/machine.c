#include "machine.h"

#include "machine_file.h"
#include "machine_settings.h"

#include "base/clock.h"
#include "base/pid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	WIPE_ALIGN_BYTES = 65536, /* the largest page size Linux is built with */
	KEEPER_FD_MIN = 3,
};

#define SETUP_WAIT_NS (30 * NSEC_PER_SEC)
#define PATH_BYTES 512

static union {
	struct machine_self self;
	char pages[WIPE_ALIGN_BYTES];
} wiped __attribute__((aligned(WIPE_ALIGN_BYTES)));

_Static_assert(sizeof(wiped) % WIPE_ALIGN_BYTES == 0, "nothing else is wiped");

/* What a fork child keeps of its parent's view. */
static struct {
	char path[PATH_BYTES];
	dev_t dev;
	ino_t ino;
	bool is_shared_by_users; /* the path was given: other users may attach */
	int keeper_fd;           /* + 1; holds the slot's byte where a mapping does not */
	_Atomic pid_t wipe_failed_pid;
	struct machine_config config; /* so that machine_device() stays valid for ever */
} known;

struct machine_self *machine_self(void)
{
	return &wiped.self;
}

_Atomic unsigned *machine_uses(void)
{
	return &wiped.self.uses;
}

static void complain(const char *what, int err)
{
	fprintf(stderr, "ration-sim: %s: %s: %s\n", known.path, what, strerror(-err));
}

static int above_stdio(int fd)
{
	int high;

	if (fd < 0)
		return -errno;
	if (fd >= KEEPER_FD_MIN)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, KEEPER_FD_MIN);
	if (high < 0)
		high = -errno;
	close(fd);
	return high;
}

static int open_existing(void)
{
	return above_stdio(
		open(known.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
}

/* Without O_CREAT first: fs.protected_regular refuses O_CREAT on another user's file. */
static int open_or_create(void)
{
	mode_t mode = known.is_shared_by_users ? 0666 : 0600;
	int fd;

	for (int tries = 0; tries < 3; tries++) {
		fd = open_existing();
		if (fd != -ENOENT)
			return fd;
		fd = above_stdio(
			open(known.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, mode));
		if (fd >= 0)
			(void)fchmod(fd, mode);
		if (fd != -EEXIST)
			return fd;
	}
	return -EEXIST;
}

int machine_reopen(void)
{
	struct stat st;
	int fd = open_existing();

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || st.st_dev != known.dev || st.st_ino != known.ino) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

int machine_byte_set(int fd, short type, int64_t byte)
{
	struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	if (!fcntl(fd, F_OFD_SETLK, &range))
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

int machine_byte_next(int fd, int64_t end, int64_t *byte)
{
	struct flock range = {
		.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = *byte, .l_len = end - *byte
	};

	if (*byte >= end)
		return 0;
	if (fcntl(fd, F_OFD_GETLK, &range))
		return -errno;
	if (range.l_type == F_UNLCK)
		return 0;
	if (range.l_start > *byte)
		*byte = range.l_start;
	return 1;
}

uint32_t machine_slots_end(void)
{
	uint32_t end = atomic_load_explicit(&wiped.self.file->slots_end, memory_order_acquire);

	return end < MACHINE_PROCESSES ? end : MACHINE_PROCESSES;
}

/* 1 if any process is attached, 0, or -errno. The caller holds the setup byte. */
static int has_living(int fd)
{
	int64_t byte = MACHINE_BYTES;

	return machine_byte_next(fd, MACHINE_BYTE_SETUP, &byte);
}

static int wait_for_setup(int fd)
{
	int64_t start_ns = clock_now_ns();
	int err;

	while ((err = machine_byte_set(fd, F_WRLCK, MACHINE_BYTE_SETUP)) == -EAGAIN) {
		int64_t waited_ns = clock_now_ns() - start_ns;

		if (waited_ns > SETUP_WAIT_NS)
			return -ETIMEDOUT;
		clock_sleep_ns(clock_nap_ns(waited_ns));
	}
	return err;
}

/* Space is allocated before it is mapped: a full disk is an error here and not a SIGBUS later. */
static int grow(int fd, int64_t have_bytes)
{
	static const char zeros[4096];
	const int64_t want_bytes = (int64_t)sizeof(struct machine_file);
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < (rlim_t)want_bytes)
		return -EFBIG;
	if (!fallocate(fd, 0, 0, want_bytes))
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	while (have_bytes < want_bytes) {
		size_t part = (size_t)(want_bytes - have_bytes);
		ssize_t done = pwrite(fd, zeros, part < sizeof(zeros) ? part : sizeof(zeros),
				      have_bytes);

		if (done <= 0)
			return done ? -errno : -ENOSPC;
		have_bytes += done;
	}
	return 0;
}

/* The file is ours to write: it is empty, half set up, or a machine's. */
static int check_file(int fd, int64_t *out_have_bytes)
{
	struct stat st;
	uint64_t magic = 0;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP;
	if (st.st_size && pread(fd, &magic, sizeof(magic), 0) < 0)
		return -errno;
	if (magic && magic != MACHINE_MAGIC)
		return -EMEDIUMTYPE;
	known.dev = st.st_dev;
	known.ino = st.st_ino;
	*out_have_bytes = st.st_size;
	return 0;
}

static bool is_usable(const struct machine_file *file)
{
	return atomic_load_explicit(&file->magic, memory_order_acquire) == MACHINE_MAGIC &&
	       file->layout == MACHINE_LAYOUT && file->size_bytes == sizeof(*file) &&
	       file->config.count >= 1 && file->config.count <= file->config.devices &&
	       file->config.devices <= MACHINE_DEVICES;
}

/* The setup byte is held. A kill on the way leaves magic 0: the next one starts again. */
static int set_up(struct machine_file *file, int fd, const struct machine_config *config)
{
	int living = has_living(fd);

	if (living < 0)
		return living;
	if (is_usable(file)) {
		if (living || !memcmp(&file->config, config, sizeof(*config)))
			return 0;
	} else if (living) {
		return -EBUSY;
	}
	atomic_store_explicit(&file->magic, 0, memory_order_release);
	memset((char *)file + sizeof(file->magic), 0, sizeof(*file) - sizeof(file->magic));
	file->layout = MACHINE_LAYOUT;
	file->size_bytes = sizeof(*file);
	file->config = *config;
	machine_settings_write(file);
	if (getrandom(&file->key, sizeof(file->key), GRND_NONBLOCK) != (ssize_t)sizeof(file->key))
		file->key = (uint32_t)clock_now_ns();
	atomic_store_explicit(&file->magic, MACHINE_MAGIC, memory_order_release);
	return 0;
}

/* Takes the byte of a free slot, else of a dead process's. The setup byte is held. */
static int take_slot(struct machine_file *file, int fd)
{
	for (int pass = 0; pass < 2; pass++) {
		for (int slot = 0; slot < MACHINE_PROCESSES; slot++) {
			bool is_free = !atomic_load_explicit(&file->slot[slot].pid,
							     memory_order_acquire);
			int err;

			if (is_free != (pass == 0))
				continue;
			err = machine_byte_set(fd, F_WRLCK, MACHINE_BYTES + slot);
			if (!err)
				return slot;
			if (err != -EAGAIN)
				return err;
		}
	}
	return -EUSERS;
}

/*
 * Keeps the slot's byte without an fd that the program could close or a child inherit: the mapping
 * alone holds the open file description. On overlayfs it does not, so the fd stays there.
 */
static int keep_byte(int fd, int setup_fd, int slot)
{
	int64_t byte = MACHINE_BYTES + slot;
	int held, err;

	close(fd);
	held = machine_byte_next(setup_fd, byte + 1, &byte);
	if (held)
		return held < 0 ? held : 0;
	fd = machine_reopen();
	if (fd < 0)
		return fd;
	err = machine_byte_set(fd, F_WRLCK, MACHINE_BYTES + slot);
	if (err) {
		close(fd);
		return err;
	}
	known.keeper_fd = fd + 1;
	return 0;
}

static uint64_t own_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* Makes `slot`, whose byte is held, this process's place. The setup byte is held. */
static void move_in(struct machine_self *self, struct machine_file *file, int slot)
{
	self->slot = slot;
	self->pid_namespace = own_pid_namespace();
	self->file = file;
	if (machine_slots_end() <= (uint32_t)slot)
		atomic_store_explicit(&file->slots_end, (uint32_t)slot + 1, memory_order_release);
	machine_process_clear(slot);
	machine_life_begin(&file->slot[slot].life);
	atomic_store_explicit(&file->slot[slot].pid_namespace, self->pid_namespace,
			      memory_order_relaxed);
	atomic_store_explicit(&file->slot[slot].start_ticks, pid_start((int)getpid()),
			      memory_order_relaxed);
	atomic_store_explicit(&file->slot[slot].pid, (uint32_t)getpid(), memory_order_release);
	/* A parent's devices stay as they are under its child's readers. */
	if (memcmp(&known.config, &file->config, sizeof(known.config)))
		known.config = file->config;
}

/* `fd` becomes this process's hold on its slot. The setup byte is held through `setup_fd`. */
static int attach_locked(struct machine_self *self, int fd, int setup_fd,
			 const struct machine_config *config)
{
	struct machine_file *file;
	int64_t have_bytes = 0;
	int err, slot;

	err = check_file(setup_fd, &have_bytes);
	if (!err && have_bytes < (int64_t)sizeof(*file))
		err = grow(setup_fd, have_bytes);
	if (err)
		goto out_fd;
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED) {
		err = -errno;
		goto out_fd;
	}
	if (madvise(file, sizeof(*file), MADV_DONTFORK)) {
		err = -errno;
		goto out_map;
	}
	err = set_up(file, setup_fd, config);
	if (err)
		goto out_map;
	slot = take_slot(file, fd);
	if (slot < 0) {
		err = slot;
		goto out_map;
	}
	err = keep_byte(fd, setup_fd, slot);
	fd = -1;
	if (err)
		goto out_map;
	machine_settings_compare(file, config, own_pid_namespace(), known.path);
	move_in(self, file, slot);
	return 0;

out_map:
	munmap(file, sizeof(*file));
out_fd:
	if (fd >= 0)
		close(fd);
	return err;
}

static int attach(struct machine_self *self, const struct machine_config *config)
{
	int setup_fd = open_or_create();
	int fd, err;

	if (setup_fd < 0)
		return setup_fd;
	err = wait_for_setup(setup_fd);
	if (err)
		goto out;
	fd = open_existing();
	err = fd < 0 ? fd : attach_locked(self, fd, setup_fd, config);
	/* Said, not left to close: a child forked meanwhile has a copy of the fd. */
	(void)machine_byte_set(setup_fd, F_UNLCK, MACHINE_BYTE_SETUP);
out:
	close(setup_fd);
	return err;
}

static int find_path(void)
{
	const char *path = secure_getenv("RATION_SIM_FILE");
	char folder[PATH_BYTES] = "";
	int len;

	known.is_shared_by_users = path && *path;
	/* Absolute: it is opened again after the program has changed its folder. */
	if (known.is_shared_by_users && *path != '/' && !getcwd(folder, sizeof(folder)))
		return -errno;
	if (known.is_shared_by_users)
		len = snprintf(known.path, sizeof(known.path), "%s%s%s", folder,
			       *path != '/' ? "/" : "", path);
	else
		len = snprintf(known.path, sizeof(known.path), "/dev/shm/ration-sim-%u", getuid());
	return len < (int)sizeof(known.path) ? 0 : -ENAMETOOLONG;
}

/* In a fork child: what its parent's view left here. The mapping itself was not inherited. */
static void drop_inherited(void)
{
	struct stat st;
	int fd = known.keeper_fd - 1;

	known.keeper_fd = 0;
	if (fd >= 0 && !fstat(fd, &st) && st.st_dev == known.dev && st.st_ino == known.ino)
		close(fd);
}

static const char *explain(int err)
{
	switch (-err) {
	case EMEDIUMTYPE:
		return "is no file of a software GPU; name another one in RATION_SIM_FILE";
	case EBUSY:
		return "is in use by a software GPU of another version";
	case EUSERS:
		return "has no place for one more process";
	case EFBIG:
		return "the file size limit (ulimit -f) is too low for it";
	default:
		return "cannot open the software GPU";
	}
}

static int open_locked(struct machine_self *self)
{
	/* static: 20 kB are too much for a small thread stack; `setup` protects it */
	static struct machine_config config;
	int err = machine_config_read(&config);

	if (err)
		return err;
	drop_inherited();
	err = find_path();
	if (!err)
		err = attach(self, &config);
	if (err)
		complain(explain(err), err);
	return err;
}

int machine_open(void)
{
	struct machine_self *self = machine_self();
	int err = 0;

	if (atomic_load(&known.wipe_failed_pid) && atomic_load(&known.wipe_failed_pid) != getpid())
		memset(&wiped, 0, sizeof(wiped));
	pthread_mutex_lock(&self->setup);
	if (!self->file) {
		bool is_wiped = !madvise(&wiped, sizeof(wiped), MADV_WIPEONFORK);

		atomic_store(&known.wipe_failed_pid, is_wiped ? 0 : getpid());
		err = open_locked(self);
	}
	pthread_mutex_unlock(&self->setup);
	return err;
}

int machine_cards(void)
{
	return machine_self()->file ? (int)known.config.count : 0;
}

bool machine_has_peers(void)
{
	return !known.config.has_no_peers;
}

bool machine_has_early_heap(void)
{
	return known.config.has_early_heap;
}

int machine_count(void)
{
	return machine_self()->file ? (int)known.config.devices : 0;
}

int machine_slice(int i, unsigned slice)
{
	for (int k = machine_cards(); k < machine_count(); k++)
		if (known.config.device[k].card == (unsigned)i &&
		    known.config.device[k].slice == slice)
			return k;
	return -1;
}

int machine_cuda_version(void)
{
	return (int)known.config.cuda_version;
}

const char *machine_driver_version(void)
{
	return known.config.driver_version;
}

const struct machine_device *machine_device(int i)
{
	return i >= 0 && i < machine_count() ? &known.config.device[i] : NULL;
}
