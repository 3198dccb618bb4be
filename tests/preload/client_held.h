/*
 * Another thread that stays in a call of the driver until it is let go on: on the driver of
 * lib_held.c, with HELD, the call.
 */
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include "client.h"

/* The thread of one; constant until client_held_end(). */
struct client_held {
	int (*is_waiting)(void);
	void (*release)(void);
	pthread_t thread;
};

static inline struct client_held client_held_find(void)
{
	struct client_held held;

	*(void **)&held.is_waiting = dlsym(RTLD_DEFAULT, "held_is_waiting");
	*(void **)&held.release = dlsym(RTLD_DEFAULT, "held_release");
	CHECK(held.is_waiting && held.release);
	return held;
}

/* Starts it, and waits until it is in the call. */
static inline void client_held_start(struct client_held *held, void *(*body)(void *), void *arg)
{
	CHECK(pthread_create(&held->thread, NULL, body, arg) == 0);
	while (!held->is_waiting())
		usleep(1000);
}

/* Lets it go on, to its end. */
static inline void client_held_end(struct client_held *held)
{
	held->release();
	CHECK(pthread_join(held->thread, NULL) == 0);
}
