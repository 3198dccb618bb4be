/*
 * Makes the kernel refuse one system call in this process and its children from now on, as a
 * container's seccomp profile does.
 */
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REFUSE_ANY = -1 };

/*
 * System call `nr` answers -`error` where its argument `arg` (REFUSE_ANY: whatever they are) is
 * `value`. False when filters are not allowed here.
 */
static inline bool refuse_call(long nr, int arg, unsigned value, int error)
{
	unsigned at = offsetof(struct seccomp_data, nr);
	unsigned arg_at = arg < 0 ? at :
				    (unsigned)offsetof(struct seccomp_data, args) +
					    8u * (unsigned)arg;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg_at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arg < 0 ? (unsigned)nr : value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(*code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}
