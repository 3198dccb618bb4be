/*
 * Work on the software GPU that goes on until the test says otherwise, whatever time that takes.
 */
#pragma once

#include "sim_gpu.h"

#include <pthread.h>
#include <stdbool.h>

struct plug {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool is_pulled; /* mutex */
};

#define PLUG_INIT                                                          \
	{                                                                  \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false \
	}

static inline void plug_hold(void *arg)
{
	struct plug *plug = arg;

	pthread_mutex_lock(&plug->mutex);
	while (!plug->is_pulled)
		pthread_cond_wait(&plug->changed, &plug->mutex);
	pthread_mutex_unlock(&plug->mutex);
}

/* What comes after it in the stream waits. */
static inline void plug_put(struct plug *plug, CUstream stream)
{
	plug->is_pulled = false;
	SIM_OK(cuLaunchHostFunc(stream, plug_hold, plug));
}

static inline void plug_pull(struct plug *plug)
{
	pthread_mutex_lock(&plug->mutex);
	plug->is_pulled = true;
	pthread_cond_broadcast(&plug->changed);
	pthread_mutex_unlock(&plug->mutex);
}
