/* The `ration` command: finds the subcommand. */
#include "tools/doctor.h"
#include "tools/doctor_probe.h"
#include "tools/limit.h"
#include "tools/ps.h"
#include "tools/run.h"
#include "tools/suspend.h"
#include "tools/tools_common.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

const char *argp_program_version = "ration " RATION_VERSION;

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *help; /* NULL: not for people */
} commands[] = {
	{ "run", run_main, "start a program as a tenant, under limits" },
	{ "ps", ps_main, "show the tenants, their processes and the memory they hold" },
	{ "limit", limit_main, "show or change the limits of a running tenant" },
	{ "suspend", suspend_main, "have a running tenant's memory leave the GPU" },
	{ "resume", resume_main, "bring it back and let the tenant go on" },
	{ "doctor", doctor_main, "check whether Ration works here, and which limits are in force" },
	{ DOCTOR_PROBE_COMMAND, doctor_probe_main, NULL },
};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static void print_help(FILE *out)
{
	fprintf(out, "Usage: ration COMMAND [OPTION...]\n"
		     "       ration COMMAND --help\n"
		     "       ration --version\n\n"
		     "Shares a GPU among programs that know nothing of each other.\n\n");
	for (int i = 0; i < COMMANDS; i++)
		if (commands[i].help)
			fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "\nFor instance: ration run --mem 4g python3 train.py\n");
}

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static int unknown(const char *name)
{
	char text[64];

	tools_printable(name, text, sizeof(text));
	tools_complain(
		"",
		"'%s' is no %s; there are run, ps, limit, suspend, resume and doctor (see `ration --help`)",
		text, *name == '-' ? "option of ration" : "command");
	return TOOLS_USAGE;
}

int main(int argc, char **argv)
{
	const struct command *command;
	char help_option[] = "--help", *help[] = { NULL, help_option, NULL };

	tools_hold_streams();
	if (argc < 2) {
		print_help(stderr);
		return TOOLS_USAGE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts(argp_program_version);
		return TOOLS_OK;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?") || !strcmp(argv[1], "-h") ||
	    (!strcmp(argv[1], "help") && argc == 2)) {
		print_help(stdout);
		return TOOLS_OK;
	}
	if (!strcmp(argv[1], "help")) {
		help[0] = argv[2];
		command = find_command(argv[2]);
		return command && command->help ? command->main(2, help) : unknown(argv[2]);
	}
	command = find_command(argv[1]);
	return command ? command->main(argc - 1, argv + 1) : unknown(argv[1]);
}
