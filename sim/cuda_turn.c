#include "cuda_turn.h"

#include <time.h>

#include "machine.h"

enum { REPORT_NS = 2000000 };

uint64_t cuda_turn_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cuda_turn_begin(struct cuda_turn *turn)
{
	machine_turn_begin(turn->index);
	turn->is_held = true;
	turn->start_ns = cuda_turn_now_ns();
}

void cuda_turn_end(struct cuda_turn *turn)
{
	machine_busy(turn->index, turn->start_ns, cuda_turn_now_ns());
	turn->is_held = false;
	machine_turn_end(turn->index);
}

bool cuda_turn_check(struct cuda_turn *turn)
{
	uint64_t now_ns;

	if (machine_turn_expired(turn->index)) {
		cuda_turn_end(turn);
		cuda_turn_begin(turn);
		return true;
	}
	now_ns = cuda_turn_now_ns();
	if (now_ns - turn->start_ns >= REPORT_NS) {
		machine_busy(turn->index, turn->start_ns, now_ns);
		turn->start_ns = now_ns;
	}
	return false;
}
