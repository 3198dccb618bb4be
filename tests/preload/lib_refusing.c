/*
 * The operating system refuses the nth thing that libration.so asks of it: memory, a file, a lock,
 * a thread. RATION_TEST_REFUSE=N: that call alone; N+: it and all later ones of the same function;
 * 0: none, they are counted. What the program and the driver ask is never refused.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int refusing_calls(void);
const char *refusing_name(void);

static struct {
	_Atomic int calls;
	_Atomic(const char *) refused; /* the function that was */
	_Atomic bool is_known;
	uintptr_t low, high; /* of libration.so */
	int nth;
	bool is_for_ever;
} refusing;

int refusing_calls(void)
{
	return refusing.calls;
}

const char *refusing_name(void)
{
	return refusing.refused;
}

static int find_library(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	if (!strstr(info->dlpi_name, "libration.so"))
		return 0;
	refusing.low = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			refusing.high = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
					info->dlpi_phdr[i].p_memsz;
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("RATION_TEST_REFUSE");

	refusing.nth = text ? atoi(text) : 0;
	refusing.is_for_ever = text && strchr(text, '+');
	dl_iterate_phdr(find_library, NULL);
	refusing.is_known = true;
}

/* Counts a call of `name`, made from `caller`; true when it is refused. */
static bool is_refused(const char *name, const void *caller, int error)
{
	uintptr_t at = (uintptr_t)caller;
	int n;

	if (!refusing.is_known || at < refusing.low || at >= refusing.high)
		return false;
	n = atomic_fetch_add(&refusing.calls, 1) + 1;
	if (n == refusing.nth)
		refusing.refused = name;
	else if (!refusing.is_for_ever || n < refusing.nth || !refusing.refused ||
		 strcmp(refusing.refused, name) != 0)
		return false;
	errno = error;
	return true;
}

#define REFUSED(name, error) is_refused(name, __builtin_return_address(0), error)

/* `real` becomes the next definition of the function. */
#define NEXT(name)                     \
	static __typeof__(name) *real; \
	if (!real)                     \
	real = (__typeof__(name) *)(uintptr_t)dlsym(RTLD_NEXT, #name)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
	return REFUSED("malloc", ENOMEM) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return REFUSED("calloc", ENOMEM) ? NULL : __libc_calloc(count, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return REFUSED("aligned_alloc", ENOMEM) ? NULL : __libc_memalign(alignment, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	NEXT(mmap);
	return REFUSED("mmap", ENOMEM) ? MAP_FAILED :
					 real(at, bytes, protection, flags, fd, offset);
}

int mprotect(void *at, size_t bytes, int protection)
{
	NEXT(mprotect);
	return REFUSED("mprotect", ENOMEM) ? -1 : real(at, bytes, protection);
}

int madvise(void *at, size_t bytes, int advice)
{
	NEXT(madvise);
	return REFUSED("madvise", ENOMEM) ? -1 : real(at, bytes, advice);
}

int open(const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	NEXT(open);
	va_start(more, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	return REFUSED("open", EMFILE) ? -1 : real(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	NEXT(fopen);
	return REFUSED("fopen", EMFILE) ? NULL : real(path, mode);
}

DIR *opendir(const char *path)
{
	NEXT(opendir);
	return REFUSED("opendir", EMFILE) ? NULL : real(path);
}

int fcntl(int fd, int command, ...)
{
	va_list more;
	void *arg;

	NEXT(fcntl);
	va_start(more, command);
	arg = va_arg(more, void *);
	va_end(more);
	return REFUSED("fcntl", command == F_DUPFD_CLOEXEC ? EMFILE : ENOLCK) ?
		       -1 :
		       real(fd, command, arg);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	NEXT(fallocate);
	return REFUSED("fallocate", ENOSPC) ? -1 : real(fd, mode, offset, bytes);
}

int ftruncate(int fd, off_t bytes)
{
	NEXT(ftruncate);
	return REFUSED("ftruncate", ENOSPC) ? -1 : real(fd, bytes);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
	NEXT(pread);
	return REFUSED("pread", EIO) ? -1 : real(fd, to, bytes, offset);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
	NEXT(pwrite);
	return REFUSED("pwrite", ENOSPC) ? -1 : real(fd, from, bytes, offset);
}

ssize_t read(int fd, void *to, size_t bytes)
{
	NEXT(read);
	return REFUSED("read", EIO) ? -1 : real(fd, to, bytes);
}

ssize_t write(int fd, const void *from, size_t bytes)
{
	NEXT(write);
	return REFUSED("write", ENOSPC) ? -1 : real(fd, from, bytes);
}

ssize_t readlink(const char *path, char *to, size_t bytes)
{
	NEXT(readlink);
	return REFUSED("readlink", ENOMEM) ? -1 : real(path, to, bytes);
}

int mkdir(const char *path, mode_t mode)
{
	NEXT(mkdir);
	return REFUSED("mkdir", ENOSPC) ? -1 : real(path, mode);
}

int chmod(const char *path, mode_t mode)
{
	NEXT(chmod);
	return REFUSED("chmod", EPERM) ? -1 : real(path, mode);
}

int fchmod(int fd, mode_t mode)
{
	NEXT(fchmod);
	return REFUSED("fchmod", EPERM) ? -1 : real(fd, mode);
}

char *getcwd(char *to, size_t bytes)
{
	NEXT(getcwd);
	return REFUSED("getcwd", ENOMEM) ? NULL : real(to, bytes);
}

int getrlimit(__rlimit_resource_t what, struct rlimit *out)
{
	NEXT(getrlimit);
	return REFUSED("getrlimit", EPERM) ? -1 : real(what, out);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
	NEXT(pthread_create);
	return REFUSED("pthread_create", EAGAIN) ? EAGAIN : real(thread, attr, body, arg);
}

int prctl(int option, ...)
{
	unsigned long a[4];
	va_list more;

	NEXT(prctl);
	va_start(more, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(more, unsigned long);
	va_end(more);
	return REFUSED("prctl", EINVAL) ? -1 : real(option, a[0], a[1], a[2], a[3]);
}

/* Calls that tell or wait have no memory to ask for; a barrier may be missing. */
long syscall(long number, ...)
{
	long a[6];
	va_list more;

	NEXT(syscall);
	va_start(more, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(more, long);
	va_end(more);
	if ((number == SYS_membarrier || number == SYS_newfstatat || number == SYS_fstat) &&
	    REFUSED("syscall", ENOMEM))
		return -1;
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
