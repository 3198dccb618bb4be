/*
 * Whether a process lives, told from a word in the machine's file: a robust mutex that the thread
 * which opened the machine takes and never gives back. The kernel marks the word when that thread
 * ends, which is before the process's byte lock goes. So "sure" is the truth and costs no system
 * call; "not sure" says that the lock has to be asked.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* The calling thread stands for its process from now on. Nobody else uses the slot of `life`. */
void machine_life_begin(pthread_mutex_t *life);

/* True: the owner lives. False: it may be dead. */
bool machine_life_is_sure(const pthread_mutex_t *life);
