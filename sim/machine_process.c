#include "machine_export.h"
#include "machine_file.h"
#include "machine_import.h"

#include "base/clock.h"
#include "base/pid.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int machine_process_take_dead(int slot)
{
	int fd = machine_reopen();
	int err;

	if (fd < 0)
		return fd;
	err = machine_byte_set(fd, F_RDLCK, MACHINE_BYTES + slot);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static void clear_share(int slot, int i)
{
	struct machine_file *file = machine_self()->file;
	struct machine_share *share = &file->slot[slot].share[i];
	uint64_t bytes;

	machine_lock(i, slot);
	machine_export_end_all(slot, i);
	machine_import_end_all(slot, i);
	bytes = atomic_exchange_explicit(&share->used_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&share->managed_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&share->away_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&share->away_managed_bytes, 0, memory_order_relaxed);
	atomic_fetch_sub_explicit(&file->state[i].used_bytes, bytes, memory_order_release);
	machine_turn_forget(i, slot);
	machine_unlock(i);
}

void machine_process_clear(int slot)
{
	struct machine_file *file = machine_self()->file;
	uint32_t count = file->config.devices;

	if (!atomic_load_explicit(&file->slot[slot].pid, memory_order_acquire))
		return;
	for (uint32_t i = 0; i < count && i < MACHINE_DEVICES; i++)
		clear_share(slot, (int)i);
	machine_time_forget(slot);
	atomic_store(&file->slot[slot].contexts, 0);
	atomic_store(&file->slot[slot].checkpoint, MACHINE_NO_DRIVER);
	atomic_store(&file->slot[slot].calls, 0);
	atomic_store(&file->slot[slot].away_contexts, 0);
	atomic_store(&file->slot[slot].host_handles, 0);
	/* Last: until here the next one to look does it again. */
	atomic_store_explicit(&file->slot[slot].pid, 0, memory_order_release);
}

/* Whether the kernel may not have come to the descriptors of a card yet, for all that can be seen. */
static bool is_leaving(const struct machine_slot *slot)
{
	return atomic_load_explicit(&slot->pid_namespace, memory_order_relaxed) ==
		       machine_self()->pid_namespace &&
	       pid_look((int)atomic_load(&slot->pid), atomic_load(&slot->start_ticks)) ==
		       PID_ENDING;
}

/* Clears a used slot if its process is dead. */
static void reap_slot(int fd, int slot)
{
	if (machine_byte_set(fd, F_RDLCK, MACHINE_BYTES + slot))
		return;
	if (!is_leaving(&machine_self()->file->slot[slot]))
		machine_process_clear(slot);
	(void)machine_byte_set(fd, F_UNLCK, MACHINE_BYTES + slot);
}

void machine_process_reap(void)
{
	struct machine_file *file = machine_self()->file;
	uint32_t end = machine_slots_end();
	int fd = -1;

	for (uint32_t slot = 0; slot < end; slot++) {
		if (!atomic_load_explicit(&file->slot[slot].pid, memory_order_acquire) ||
		    machine_life_is_sure(&file->slot[slot].life))
			continue;
		if (fd < 0)
			fd = machine_reopen();
		if (fd < 0)
			return;
		reap_slot(fd, (int)slot);
	}
	if (fd >= 0)
		close(fd);
}

/* True if the process that /proc calls `name` is process `pid` of pid namespace `namespace`. */
static bool is_process(const char *name, uint32_t pid, uint64_t namespace)
{
	char path[64], line[256];
	struct stat st;
	bool is_same = false;
	FILE *status;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/ns/pid", name);
	if (stat(path, &st) || st.st_ino != namespace)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%.16s/status", name);
	status = fopen(path, "re");
	if (!status)
		return false;
	while (fgets(line, sizeof(line), status)) {
		const char *last;

		if (strncmp(line, "NSpid:", 6))
			continue;
		last = strrchr(line, '\t');
		is_same = last && strtoul(last + 1, NULL, 10) == pid;
		break;
	}
	fclose(status);
	return is_same;
}

/* The pid that this process knows process `pid` of another pid namespace by, or 0. */
static uint32_t find_pid(uint32_t pid, uint64_t namespace)
{
	struct dirent *entry;
	uint32_t found = 0;
	DIR *proc = opendir("/proc");

	if (!proc)
		return 0;
	while (!found && (entry = readdir(proc))) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    is_process(entry->d_name, pid, namespace))
			found = (uint32_t)strtoul(entry->d_name, NULL, 10);
	}
	closedir(proc);
	return found;
}

/* Slot `slot` as a process of device i, by its own pid. False if it has nothing there. */
static bool read_process(int slot, int i, struct machine_process *out)
{
	struct machine_slot *from = &machine_self()->file->slot[slot];
	struct machine_ring *ring;
	uint64_t managed_bytes;

	out->pid = atomic_load_explicit(&from->pid, memory_order_acquire);
	out->pid_namespace = atomic_load_explicit(&from->pid_namespace, memory_order_relaxed);
	/* without the lock a share may change in between: a figure never goes below nothing */
	managed_bytes = atomic_load_explicit(&from->share[i].managed_bytes, memory_order_relaxed);
	out->used_bytes = atomic_load_explicit(&from->share[i].used_bytes, memory_order_relaxed);
	out->used_bytes -= managed_bytes < out->used_bytes ? managed_bytes : out->used_bytes;
	out->used_bytes += machine_export_inherited(slot, i);
	out->slice = machine_device(i)->slice;
	out->has_context = atomic_load(&from->contexts) >> i & 1;
	if (!out->pid || (!out->used_bytes && !out->has_context))
		return false;
	if (machine_self()->file->config.has_bare_rows)
		out->used_bytes = UINT64_MAX; /* NVML's "not available" */
	ring = machine_time_find(slot, i);
	out->sm_util_pct = ring ? machine_time_busy_pct(ring, (uint64_t)clock_now_ns()) : 0;
	out->last_seen_us = ring ? atomic_load_explicit(&ring->last_us, memory_order_relaxed) : 0;
	return true;
}

static int read_processes(int i, struct machine_process *out, int max)
{
	uint32_t end = machine_slots_end();
	struct machine_process process;
	int count = 0;

	for (uint32_t slot = 0; slot < end; slot++) {
		if (!read_process((int)slot, i, &process))
			continue;
		if (count < max)
			out[count] = process;
		count++;
	}
	return count;
}

/* The pid by which it is listed here; 0 where it cannot be known. */
static uint32_t listed_pid(const struct machine_process *process)
{
	if (machine_self()->file->config.has_host_pids)
		return process->pid + MACHINE_HOST_PIDS;
	return process->pid_namespace == machine_self()->pid_namespace ?
		       process->pid :
		       find_pid(process->pid, process->pid_namespace);
}

/* What others inherited changes with no word of theirs: it is looked at, and read with all else
 * under one lock. */
int machine_processes(int i, struct machine_process *out, int max)
{
	int count;

	if (i < 0 || i >= machine_count())
		return 0;
	machine_process_reap();
	if (machine_export_is_any()) {
		machine_lock(i, -1);
		(void)machine_export_kept(i);
		count = read_processes(i, out, max);
		machine_unlock(i);
	} else {
		count = read_processes(i, out, max);
	}
	for (int k = 0; k < count && k < max; k++)
		out[k].pid = listed_pid(&out[k]);
	return count;
}
