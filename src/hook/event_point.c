#include "hook/event_point.h"

#include "base/process.h"

#include <pthread.h>
#include <stdint.h>

enum { PLACES = 1024 };

struct event_place {
	CUevent event; /* NULL: nothing is known */
	struct meter *meter;
	struct marker_point point;
};

struct event_points {
	pthread_mutex_t mutex; /* zero is an unlocked mutex */
	struct event_place places[PLACES];
};
PROCESS_STATE(event_points, state);

static struct event_place *place_of(CUevent event)
{
	uint64_t hash = (uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15);

	return &state.s.places[hash >> 54];
}

void event_point_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

void event_point_put(CUevent event, struct meter *meter, const struct marker_point *point)
{
	struct event_place *place = place_of(event);

	pthread_mutex_lock(&state.s.mutex);
	if (meter)
		*place = (struct event_place){ event, meter, *point };
	else if (place->event == event)
		place->event = NULL;
	pthread_mutex_unlock(&state.s.mutex);
}

bool event_point_find(CUevent event, struct meter **out_meter, struct marker_point *out_point)
{
	struct event_place *place = place_of(event);
	bool is_known;

	pthread_mutex_lock(&state.s.mutex);
	is_known = event && place->event == event;
	if (is_known) {
		*out_meter = place->meter;
		*out_point = place->point;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return is_known;
}
