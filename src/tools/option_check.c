#include "tools/option_check.h"

#include "tools/tools_common.h"

#include <stdio.h>
#include <string.h>

/* argp's own. */
static const char *const common[] = { "help", "usage", "version" };

enum { COMMON = sizeof(common) / sizeof(*common) };

/* The row of the short option `c`; NULL when there is none. */
static const struct argp_option *find_short(const struct argp_option *table, char c)
{
	for (; table->name; table++)
		if (table->key == c)
			return table;
	return NULL;
}

/* True when `name` is the whole name of a long option. */
static bool is_long(const struct argp_option *table, const char *name, size_t len)
{
	for (; table->name; table++)
		if (!strncmp(table->name, name, len) && !table->name[len])
			return true;
	for (int i = 0; i < COMMON; i++)
		if (!strncmp(common[i], name, len) && !common[i][len])
			return true;
	return false;
}

/* The row that `name` or its beginning means. *out_is_known: also one of argp's own. */
static const struct argp_option *find_long(const struct argp_option *table, const char *name,
					   size_t len, bool *out_is_known)
{
	*out_is_known = true;
	for (; table->name; table++)
		if (!strncmp(table->name, name, len))
			return table;
	for (int i = 0; i < COMMON; i++)
		if (!strncmp(common[i], name, len))
			return NULL;
	*out_is_known = false;
	return NULL;
}

static bool needs_value(const struct argp_option *option)
{
	return option && option->arg && !(option->flags & OPTION_ARG_OPTIONAL);
}

/* True when the next word is the value of the last letter of "-abc". */
static bool letters_need_next(const struct argp_option *table, const char *letters)
{
	for (; *letters; letters++) {
		const struct argp_option *option = find_short(table, *letters);

		if (option && option->arg)
			return needs_value(option) && !letters[1];
	}
	return false;
}

static void complain(const char *command, const char *arg, size_t len,
		     const struct argp_option *table)
{
	char names[256] = "", text[64];
	size_t n = 0;

	for (; table->name && n < sizeof(names); table++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "--%s, ", table->name);
	tools_printable(arg, text, len + 1 < sizeof(text) ? len + 1 : sizeof(text));
	tools_complain(command,
		       "unrecognized option '%s'; there are %s--help, --usage and --version", text,
		       names);
}

bool option_check(const char *command, int argc, char **argv, const struct argp_option *table,
		  enum option_end end)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		const struct argp_option *option;
		const char *arg = argv[i];
		size_t len = strcspn(arg, "=");
		bool is_known;

		if (arg[0] != '-' || !arg[1]) {
			if (end == OPTION_END_AT_WORD)
				break;
			continue;
		}
		if (arg[1] != '-') {
			/* As letters, -name would be the name "ame". */
			if (is_long(table, arg + 1, len - 1)) {
				tools_complain(command, "'%.*s' has one dash; write -%.*s",
					       (int)len, arg, (int)len, arg);
				return false;
			}
			i += letters_need_next(table, arg + 1);
			continue;
		}
		option = find_long(table, arg + 2, len - 2, &is_known);
		if (!is_known) {
			complain(command, arg, len, table);
			return false;
		}
		i += needs_value(option) && !arg[len];
	}
	return true;
}
