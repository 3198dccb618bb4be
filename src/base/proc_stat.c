#include "base/proc_stat.h"

#include "base/sys.h"
#include "base/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Numbers of the fields, as proc(5) has them. */
enum { STATE = 3, FLAGS = 9, THREADS = 20, START = 22 };

/* Fills text with the file, terminated: false where there is none. */
static bool read_text(int pid, char *text, size_t text_bytes)
{
	char path[32];
	ssize_t n = -1;
	int fd, held;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	held = sys_cancel_hold();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, text_bytes - 1);
		close(fd);
	}
	sys_cancel_release(held);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

bool proc_stat_read(int pid, struct proc_stat *out)
{
	struct proc_stat s = { .state = '\0' };
	char text[1024], *at;

	if (!read_text(pid, text, sizeof(text)))
		return false;
	/* The name in parentheses may hold anything; field 3 follows the last ')'. */
	at = strrchr(text, ')');
	at = at ? strchr(at, ' ') : NULL;
	for (int field = STATE; at && field <= START; field++) {
		uint64_t value = units_parse_digits(at + 1, NULL);

		switch (field) {
		case STATE:
			s.state = at[1];
			break;
		case FLAGS:
			s.flags = value;
			break;
		case THREADS:
			s.threads = value;
			break;
		case START:
			s.start_ticks = value;
			*out = s;
			return true;
		}
		at = strchr(at + 1, ' ');
	}
	return false;
}
