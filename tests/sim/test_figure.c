/*
 * In whose figure exported memory is: its maker's while that has it, nobody's while a descriptor
 * alone or beside imports keeps it, then that of the process whose import is the last.
 */
#include <signal.h>

#include "kept.h"

#define PIECE (32 * MIB)

enum { MAKER, FIRST, SECOND, ACTORS, IMPORTS = 4 };

/* What an actor is told to do, a byte each. */
enum { MAKE = 'm', RELEASE = 'r', IMPORT = 'i', END_IMPORT = 'e' };

static struct actor {
	pid_t pid;
	int socket;
	int64_t begun;
} actors[ACTORS];

static struct {
	nvmlDevice_t card;
	uint64_t begun;
	int fd;
} all;

static void act(int socket)
{
	CUmemGenericAllocationHandle made = 0, imports[IMPORTS];
	int count = 0, fd;
	char what = 0;

	share_start();
	do {
		if (what == MAKE) {
			made = create(PIECE);
			fd = export(made);
			share_send_fd(socket, fd);
			close(fd);
		} else if (what == RELEASE) {
			OK(cuMemRelease(made));
		} else if (what == IMPORT) {
			fd = share_receive_fd(socket);
			imports[count++] = import(fd);
			close(fd);
		} else if (what == END_IMPORT) {
			OK(cuMemRelease(imports[--count]));
		}
		TRUE(write(socket, "", 1) == 1);
	} while (read(socket, &what, 1) == 1);
	_exit(check_failures ? 1 : 0);
}

static void tell(int who, char what)
{
	char done;

	TRUE(write(actors[who].socket, &what, 1) == 1);
	if (what == MAKE)
		all.fd = share_receive_fd(actors[who].socket);
	if (what == IMPORT)
		share_send_fd(actors[who].socket, all.fd);
	TRUE(read(actors[who].socket, &done, 1) == 1);
}

static void start_actor(struct actor *a)
{
	int pair[2];
	char done;

	TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fflush(stdout);
	a->pid = fork();
	if (a->pid == 0) {
		close(pair[0]);
		for (const struct actor *other = actors; other < a; other++)
			close(other->socket);
		act(pair[1]);
	}
	close(pair[1]);
	a->socket = pair[0];
	TRUE(read(a->socket, &done, 1) == 1);
}

static void end_actor(int who, int sig)
{
	struct actor *a = &actors[who];
	int status = -1;

	if (!a->pid)
		return;
	if (sig)
		kill(a->pid, sig);
	close(a->socket);
	waitpid(a->pid, &status, 0);
	TRUE(sig ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
	a->pid = 0;
	all.begun -= 64 * MIB;
}

/* Only who looks is left; it has no driver. */
static void start_all(void)
{
	for (int who = 0; who < ACTORS; who++)
		start_actor(&actors[who]);
	all.card = nvml_start();
	all.begun = nvml_used_bytes(all.card);
	for (int who = 0; who < ACTORS; who++)
		actors[who].begun = nvml_process_bytes(all.card, (unsigned)actors[who].pid);
	tell(MAKER, MAKE);
}

static void end_all(void)
{
	for (int who = 0; who < ACTORS; who++)
		end_actor(who, 0);
	TRUE(nvml_used_bytes(all.card) == 0);
}

static int64_t grown(int who)
{
	return nvml_process_bytes(all.card, (unsigned)actors[who].pid) - actors[who].begun;
}

/* It is in the figure of this actor alone, once, and the card has it in use once. */
#define IS_IN_FIGURE_OF(owner)                                                     \
	do {                                                                       \
		TRUE(nvml_used_bytes(all.card) == all.begun + PIECE);              \
		for (int who = 0; who < ACTORS; who++)                             \
			TRUE(!actors[who].pid ||                                   \
			     grown(who) == (who == (owner) ? (int64_t)PIECE : 0)); \
	} while (0)

#define IS_IN_NO_FIGURE() IS_IN_FIGURE_OF(-1)

#define IS_GONE()                                                  \
	do {                                                       \
		TRUE(nvml_used_bytes(all.card) == all.begun);      \
		for (int who = 0; who < ACTORS; who++)             \
			TRUE(!actors[who].pid || grown(who) == 0); \
	} while (0)

/* Whatever descriptors and imports there are. */
static int is_its_makers(void *arg)
{
	(void)arg;
	start_all();
	IS_IN_FIGURE_OF(MAKER);
	tell(FIRST, IMPORT);
	tell(MAKER, IMPORT);
	IS_IN_FIGURE_OF(MAKER);
	close(all.fd);
	IS_IN_FIGURE_OF(MAKER);
	tell(MAKER, END_IMPORT);
	tell(FIRST, END_IMPORT);
	IS_IN_FIGURE_OF(MAKER);
	tell(MAKER, RELEASE);
	IS_GONE();
	end_all();
	return 0;
}

/* The last import is whose figure it is in; its maker's own imports are like any. */
static int goes_from_last_to_first(void *arg)
{
	(void)arg;
	start_all();
	tell(MAKER, IMPORT);
	tell(FIRST, IMPORT);
	tell(SECOND, IMPORT);
	tell(FIRST, IMPORT);
	tell(MAKER, RELEASE);
	IS_IN_NO_FIGURE();
	close(all.fd);
	IS_IN_FIGURE_OF(FIRST);
	tell(FIRST, END_IMPORT);
	IS_IN_FIGURE_OF(SECOND);
	tell(SECOND, END_IMPORT);
	IS_IN_FIGURE_OF(FIRST);
	tell(FIRST, END_IMPORT);
	IS_IN_FIGURE_OF(MAKER);
	tell(MAKER, END_IMPORT);
	IS_GONE();
	end_all();
	return 0;
}

/* An import that is not the last ends and changes nothing. */
static int stays_with_last(void *arg)
{
	(void)arg;
	start_all();
	tell(FIRST, IMPORT);
	tell(SECOND, IMPORT);
	tell(MAKER, RELEASE);
	close(all.fd);
	IS_IN_FIGURE_OF(SECOND);
	tell(FIRST, END_IMPORT);
	IS_IN_FIGURE_OF(SECOND);
	tell(SECOND, END_IMPORT);
	IS_GONE();
	end_all();
	return 0;
}

/* Imported after its maker let go of it, also by that. */
static int may_be_imported_later(void *arg)
{
	(void)arg;
	start_all();
	tell(MAKER, RELEASE);
	IS_IN_NO_FIGURE();
	tell(FIRST, IMPORT);
	tell(MAKER, IMPORT);
	IS_IN_NO_FIGURE();
	close(all.fd);
	IS_IN_FIGURE_OF(MAKER);
	tell(MAKER, END_IMPORT);
	IS_IN_FIGURE_OF(FIRST);
	tell(FIRST, END_IMPORT);
	IS_GONE();
	end_all();
	return 0;
}

/* Twice by its maker, whose second import counts beside the first as another's would. */
static int may_be_imported_twice(void *arg)
{
	(void)arg;
	start_all();
	tell(MAKER, IMPORT);
	tell(MAKER, IMPORT);
	close(all.fd);
	tell(MAKER, RELEASE);
	IS_IN_FIGURE_OF(MAKER);
	tell(MAKER, END_IMPORT);
	IS_IN_FIGURE_OF(MAKER);
	tell(MAKER, END_IMPORT);
	IS_GONE();
	end_all();
	return 0;
}

/* Death is as good as a release, of its maker and of who imported it. */
static int goes_on_by_death(void *arg)
{
	(void)arg;
	start_all();
	tell(FIRST, IMPORT);
	tell(SECOND, IMPORT);
	end_actor(MAKER, SIGKILL);
	IS_IN_NO_FIGURE();
	close(all.fd);
	IS_IN_FIGURE_OF(SECOND);
	end_actor(SECOND, SIGKILL);
	IS_IN_FIGURE_OF(FIRST);
	end_actor(FIRST, SIGKILL);
	IS_GONE();
	end_all();
	return 0;
}

int main(void)
{
	check_machine("count=1,mem=1g,context=64m");
	TRUE(check_child(is_its_makers, NULL));
	TRUE(check_child(goes_from_last_to_first, NULL));
	TRUE(check_child(stays_with_last, NULL));
	TRUE(check_child(may_be_imported_later, NULL));
	TRUE(check_child(may_be_imported_twice, NULL));
	TRUE(check_child(goes_on_by_death, NULL));
	return check_end();
}
