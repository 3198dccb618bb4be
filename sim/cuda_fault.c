#include "cuda_fault.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS = 32, FAULT_LOST = -1 };

struct fault {
	char name[64]; /* constant after load */
	long nth;      /* constant after load */
	long answer;   /* constant after load */
	_Atomic long count;
};

static struct {
	pthread_once_t once;
	_Atomic bool armed; /* false: there is nothing to look for */
	_Atomic bool lost;
	int faults; /* constant after load */
	struct fault fault[FAULTS];
} fault = { .once = PTHREAD_ONCE_INIT, .armed = true };

static const struct {
	const char *symbol, *base;
} names[CUDA_IDS] = {
#define CALL(base, symbol, version, stream) { #symbol, #base },
#define NONE(base, symbol, version, stream) { #symbol, #base },
#define ALIAS(base, symbol, version, stream)
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS
};

static bool parse(const char *item, size_t len)
{
	struct fault *f = &fault.fault[fault.faults];
	char text[128], answer[32];

	if (len >= sizeof(text))
		return false;
	memcpy(text, item, len);
	text[len] = '\0';
	if (sscanf(text, "%63[^:=]:%ld=%31s", f->name, &f->nth, answer) != 3)
		return false;
	if (strcmp(answer, "lost") == 0) {
		f->answer = FAULT_LOST;
	} else {
		char *end;

		f->answer = strtol(answer, &end, 10);
		if (*end || f->answer <= 0)
			return false;
	}
	fault.faults++;
	return f->nth > 0;
}

static void load(void)
{
	const char *text = getenv("RATION_SIM_FAULT");

	while (text && *text && fault.faults < FAULTS) {
		size_t len = strcspn(text, ",");

		if (len && !parse(text, len))
			fprintf(stderr,
				"RATION_SIM_FAULT: '%.*s' is not CALL:NTH=CODE or CALL:NTH=lost\n",
				(int)len, text);
		text += len + (text[len] == ',');
	}
	atomic_store(&fault.armed, fault.faults > 0);
}

static CUresult look(enum cuda_id id)
{
	CUresult res = CUDA_SUCCESS;

	for (int i = 0; i < fault.faults; i++) {
		struct fault *f = &fault.fault[i];

		if (strcmp(f->name, names[id].symbol) != 0 && strcmp(f->name, names[id].base) != 0)
			continue;
		if (atomic_fetch_add(&f->count, 1) + 1 != f->nth)
			continue;
		if (f->answer == FAULT_LOST)
			atomic_store(&fault.lost, true);
		else
			res = (CUresult)f->answer;
	}
	return atomic_load(&fault.lost) ? CUDA_ERROR_DEVICE_UNAVAILABLE : res;
}

CUresult cuda_fault_hit(enum cuda_id id)
{
	if (!atomic_load_explicit(&fault.armed, memory_order_relaxed))
		return CUDA_SUCCESS;
	pthread_once(&fault.once, load);
	return look(id);
}

bool cuda_fault_is_missing(const char *symbol)
{
	const char *text = getenv("RATION_SIM_MISSING");
	size_t len = strlen(symbol);

	while (text && *text) {
		size_t item = strcspn(text, ",");

		if (item == len && memcmp(text, symbol, len) == 0)
			return true;
		text += item + (text[item] == ',');
	}
	return false;
}
