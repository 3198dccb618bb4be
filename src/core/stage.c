#include "core/stage.h"

#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* Marks are few, and others need some too. */
enum { RUNNING_MOST = 128, STREAM_RUNNING = 2 };

struct stage {
	uint64_t stream, mark; /* constant */
	/* The rest: state.mutex. */
	enum stage_state state;
	unsigned shares;  /* that of the list included */
	unsigned putters; /* who are about to put the mark */
	uint64_t puts;    /* begun so far: what was asked before another says nothing */
	struct stage *next;
};

struct stages {
	/* Orders all of it; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	/* The newest first; also those that are lost, until their mark is given back. */
	struct stage *running;
	_Atomic unsigned count; /* of these; written under mutex */
};
PROCESS_STATE(stages, state);

void stage_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* mutex held: somebody is about to put the mark. */
static void begin_put(struct stage *stage)
{
	stage->shares++;
	stage->putters++;
	stage->puts++;
}

struct stage *stage_join(uint64_t stream)
{
	struct stage *newest = NULL;
	unsigned count = 0;

	if (!stream || !stage_any())
		return NULL;
	pthread_mutex_lock(&state.s.mutex);
	for (struct stage *s = state.s.running; s; s = s->next) {
		if (s->stream != stream || s->state != STAGE_RUNNING)
			continue;
		newest = newest ? newest : s;
		count++;
	}
	if (count < STREAM_RUNNING)
		newest = NULL;
	if (newest)
		begin_put(newest);
	pthread_mutex_unlock(&state.s.mutex);
	return newest;
}

struct stage *stage_make(uint64_t stream, uint64_t mark)
{
	struct stage *stage;
	bool has_room;

	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return NULL;
	stage->stream = stream;
	stage->mark = mark;
	pthread_mutex_lock(&state.s.mutex);
	has_room = atomic_load(&state.s.count) < RUNNING_MOST;
	if (has_room) {
		stage->shares = 1;
		begin_put(stage);
		stage->next = state.s.running;
		state.s.running = stage;
		atomic_fetch_add(&state.s.count, 1);
	}
	pthread_mutex_unlock(&state.s.mutex);
	if (has_room)
		return stage;
	free(stage);
	return NULL;
}

uint64_t stage_mark(const struct stage *stage)
{
	return stage->mark;
}

void stage_put(struct stage *stage, bool is_put)
{
	pthread_mutex_lock(&state.s.mutex);
	stage->putters--;
	if (!is_put)
		stage->state = STAGE_LOST;
	pthread_mutex_unlock(&state.s.mutex);
}

struct stage *stage_share(struct stage *stage)
{
	if (!stage)
		return NULL;
	pthread_mutex_lock(&state.s.mutex);
	stage->shares++;
	pthread_mutex_unlock(&state.s.mutex);
	return stage;
}

void stage_drop(struct stage *stage)
{
	if (!stage)
		return;
	pthread_mutex_lock(&state.s.mutex);
	if (--stage->shares > 0)
		stage = NULL;
	pthread_mutex_unlock(&state.s.mutex);
	free(stage);
}

enum stage_state stage_state(struct stage *stage)
{
	enum stage_state was;

	if (!stage)
		return STAGE_LOST;
	pthread_mutex_lock(&state.s.mutex);
	was = stage->state;
	pthread_mutex_unlock(&state.s.mutex);
	return was;
}

uint64_t stage_stream(const struct stage *stage)
{
	return stage ? stage->stream : 0;
}

bool stage_any(void)
{
	return atomic_load_explicit(&state.s.count, memory_order_relaxed) > 0;
}

/* A stage that is asked about. */
struct question {
	struct stage *stage;
	uint64_t puts;
};

/* Those whose marks are where they are to be, each with one share more; how many. */
static unsigned list(struct question questions[RUNNING_MOST])
{
	unsigned count = 0;

	pthread_mutex_lock(&state.s.mutex);
	for (struct stage *s = state.s.running; s; s = s->next) {
		if (s->putters)
			continue;
		s->shares++;
		questions[count++] = (struct question){ s, s->puts };
	}
	pthread_mutex_unlock(&state.s.mutex);
	return count;
}

/* mutex held. False: another thread was first. */
static bool take_off(struct stage *stage)
{
	struct stage **link = &state.s.running;

	while (*link && *link != stage)
		link = &(*link)->next;
	if (!*link)
		return false;
	*link = stage->next;
	stage->shares--;
	atomic_fetch_sub(&state.s.count, 1);
	return true;
}

/* True when the stage has come to its end with what the answer says: its mark is the caller's. */
static bool end(const struct question *q, enum stage_state answer)
{
	bool is_over;

	pthread_mutex_lock(&state.s.mutex);
	is_over = answer != STAGE_RUNNING && q->stage->puts == q->puts && take_off(q->stage);
	if (is_over && q->stage->state == STAGE_RUNNING)
		q->stage->state = answer;
	pthread_mutex_unlock(&state.s.mutex);
	return is_over;
}

bool stage_settle(enum stage_state (*ask)(uint64_t mark), void (*give)(uint64_t mark))
{
	struct question questions[RUNNING_MOST];
	unsigned count = stage_any() ? list(questions) : 0;
	bool is_any = false;

	for (unsigned i = 0; i < count; i++) {
		struct stage *stage = questions[i].stage;
		enum stage_state answer = stage_state(stage);

		if (answer == STAGE_RUNNING)
			answer = ask(stage->mark);
		if (end(&questions[i], answer)) {
			give(stage->mark);
			is_any = true;
		}
		stage_drop(stage);
	}
	return is_any;
}
