#include "machine_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *own_text(void)
{
	const char *text = secure_getenv("RATION_SIM");

	return text ? text : "";
}

void machine_settings_write(struct machine_file *file)
{
	(void)snprintf(file->settings, sizeof(file->settings), "%s", own_text());
}

/* True when another library of this process has a slot already, and has spoken. */
static bool has_sibling(const struct machine_file *file, uint64_t pid_namespace)
{
	uint32_t end = atomic_load_explicit(&file->slots_end, memory_order_acquire);

	for (uint32_t i = 0; i < end && i < MACHINE_PROCESSES; i++) {
		const struct machine_slot *slot = &file->slot[i];

		if (atomic_load_explicit(&slot->pid, memory_order_acquire) == (uint32_t)getpid() &&
		    atomic_load_explicit(&slot->pid_namespace, memory_order_relaxed) ==
			    pid_namespace)
			return true;
	}
	return false;
}

void machine_settings_compare(const struct machine_file *file, const struct machine_config *own,
			      uint64_t pid_namespace, const char *path)
{
	enum { SHOWN_CHARS = 200 };

	if (!*own_text() || !memcmp(&file->config, own, sizeof(*own)) ||
	    has_sibling(file, pid_namespace))
		return;
	fprintf(stderr,
		"ration-sim: RATION_SIM is '%.*s', but other processes use the software GPU of %s "
		"as '%.*s', and that holds; name another file in RATION_SIM_FILE for one apart\n",
		SHOWN_CHARS, own_text(), path, SHOWN_CHARS, file->settings);
}
