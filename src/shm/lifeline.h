/*
 * Whether a process lives, where no lock can say it: a piece of System V shared memory that the
 * process alone is attached to and nobody can come upon. The kernel removes it when the process
 * ends or becomes another program, whatever that closed; a fork child is not attached. Who is in
 * the same IPC namespace, of whatever pid namespace, asks for it by its number.
 */
#pragma once

#include <stdint.h>

/* Constant after lifeline_take(). Zero is none. */
struct lifeline {
	const void *at;     /* where it is attached, for as long as the process is the same */
	uint32_t number;    /* 0 = none */
	uint32_t namespace; /* inode of the IPC namespace; 0 = not known */
};

enum lifeline_state { LIFELINE_UNKNOWN, LIFELINE_HELD, LIFELINE_GONE };

/*
 * Takes one for this process. By `mark` it is told from another's that has its number by now. None
 * where the system gives none.
 */
void lifeline_take(uint32_t mark, struct lifeline *out_line);

/*
 * Whether somebody is attached to the one with this number and mark, of the IPC namespace with this
 * inode. LIFELINE_UNKNOWN where that is another namespace than ours, or there is no number.
 */
enum lifeline_state lifeline_look(uint32_t number, uint32_t namespace, uint32_t mark);
