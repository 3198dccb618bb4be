/*
 * Says what dlsym answers, step by step, one line each.
 *
 *   where STEP...
 *     open=LIBRARY[,FLAG..]   dlopen; FLAG: local global deep lazy space (a new one, by dlmopen)
 *     handle:NAME             dlsym on the handle opened last
 *     default:NAME next:NAME  dlsym(RTLD_DEFAULT, ..), dlsym(RTLD_NEXT, ..)
 *     self:NAME               dlsym(dlopen(NULL), ..)
 *     tail:NAME tailnext:NAME the last act of a function
 *     ask:FUNCTION            calls void *FUNCTION(void) of the handle opened last
 *     error                   dlerror
 *     init                    calls cuInit(0) as found by dlsym on the handle opened last
 *     close                   dlclose
 *
 * An answer is "STEP FILE SYMBOL", or "STEP NULL".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *opened;

static void *open_library(char *text)
{
	int flags = RTLD_NOW | RTLD_LOCAL;
	int is_space = 0;
	char *flag = strchr(text, ',');

	if (flag)
		*flag++ = '\0';
	for (flag = flag ? strtok(flag, ",") : NULL; flag; flag = strtok(NULL, ",")) {
		if (!strcmp(flag, "global"))
			flags |= RTLD_GLOBAL;
		else if (!strcmp(flag, "deep"))
			flags |= RTLD_DEEPBIND;
		else if (!strcmp(flag, "lazy"))
			flags = (flags & ~RTLD_NOW) | RTLD_LAZY;
		else if (!strcmp(flag, "space"))
			is_space = 1;
	}
	return is_space ? dlmopen(LM_ID_NEWLM, text, flags) : dlopen(text, flags);
}

static void say(const char *step, void *address)
{
	Dl_info info;
	const char *file;

	if (!address) {
		printf("%s NULL\n", step);
		return;
	}
	if (!dladdr(address, &info)) {
		printf("%s nowhere\n", step);
		return;
	}
	file = strrchr(info.dli_fname, '/');
	printf("%s %s %s\n", step, file ? file + 1 : info.dli_fname,
	       info.dli_sname ? info.dli_sname : "-");
}

__attribute__((noinline)) static void *tail_default(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

__attribute__((noinline)) static void *tail_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void *look_up(const char *how, const char *name)
{
	void *(*ask)(void);

	if (!strcmp(how, "handle"))
		return dlsym(opened, name);
	if (!strcmp(how, "default"))
		return dlsym(RTLD_DEFAULT, name);
	if (!strcmp(how, "next"))
		return dlsym(RTLD_NEXT, name);
	if (!strcmp(how, "self"))
		return dlsym(dlopen(NULL, RTLD_LAZY), name);
	if (!strcmp(how, "tail"))
		return tail_default(name);
	if (!strcmp(how, "tailnext"))
		return tail_next(name);
	*(void **)&ask = dlsym(opened, name);
	return ask ? ask() : NULL;
}

static void take(char *step)
{
	int (*init)(unsigned);
	char *name = strchr(step, ':');
	const char *text;

	if (!strncmp(step, "open=", 5)) {
		opened = open_library(step + 5);
		printf("%s %s\n", step, opened ? "opened" : "failed");
	} else if (!strcmp(step, "error")) {
		text = dlerror();
		printf("error %s\n", text ? text : "none");
	} else if (!strcmp(step, "init")) {
		*(void **)&init = dlsym(opened, "cuInit");
		printf("init %d\n", init ? init(0) : -1);
	} else if (!strcmp(step, "close")) {
		printf("close %d\n", dlclose(opened));
	} else if (name) {
		*name = '\0';
		text = name + 1;
		printf("%s:", step);
		say(text, look_up(step, text));
	} else {
		fprintf(stderr, "where: %s: no such step\n", step);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		take(argv[i]);
	return 0;
}
