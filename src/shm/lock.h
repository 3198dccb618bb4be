/*
 * Byte-range locks on a file that belong to the open file description: the kernel drops them when
 * the last descriptor and the last mapping of that description are gone, so a dead process never
 * holds one.
 */
#pragma once

#include <stdint.h>

/* Takes a write lock on [at, at + bytes) or says -EAGAIN at once. 0 or -errno. */
int lock_try(int fd, int64_t at, int64_t bytes);

/* As that, a read lock: others may have one too. */
int lock_share(int fd, int64_t at, int64_t bytes);

/*
 * As lock_try(), again and again, the last time when `wait_ns` have passed: then -ETIMEDOUT. Who
 * has just given this very lock up naps first, for 2 ms at most, so that those who wait see it
 * free; not with a wait_ns of 0, which is lock_try() with that answer.
 */
int lock_wait(int fd, int64_t at, int64_t bytes, int64_t wait_ns);

/* Gives [at, at + bytes) up. */
void lock_drop(int fd, int64_t at, int64_t bytes);

/*
 * 1 when a byte of [at, at + bytes) is locked through another description, with its position in
 * *out_at (may be NULL); 0 when all are free, or -errno. A read-only descriptor will do.
 */
int lock_held(int fd, int64_t at, int64_t bytes, int64_t *out_at);
