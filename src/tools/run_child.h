/*
 * The program that a subcommand stands above: started, and waited for, with signals passed on.
 */
#pragma once

/*
 * Runs argv[0], found as execvp() does, and waits for it. Every signal that somebody sends to this
 * process is passed on; one from the terminal reaches the program by itself. When the program
 * stops, this process stops too, and continues it when it is continued. 0 with the status of
 * waitpid() in *out_status, or -errno when no process could be made. All signals stay blocked: what
 * is left to do is cleaned up undisturbed, and the program's end is the one that counts.
 */
int run_child_wait(const char *command, char **argv, int *out_status);

/* Ends as the program did: returns its exit status, or dies of the signal that ended it. */
int run_child_pass_on(int status);
