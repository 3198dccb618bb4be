#include "cuda_fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT "RATION_SIM_FAULT"
#define MISSING "RATION_SIM_MISSING"

enum { FAULTS = 64, FAULT_LOST = -1 };

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
	int error;  /* of the variables; constant after load */
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

static int complain(const char *variable, const char *item, size_t len, const char *what)
{
	fprintf(stderr, "ration-sim: %s: '%.*s': %s\n", variable, (int)len, item, what);
	return -EINVAL;
}

/* True when `name` is a call's, with or without its version. */
static bool is_call(const char *name)
{
	for (int id = 0; id < CUDA_IDS; id++)
		if (!strcmp(name, names[id].symbol) || !strcmp(name, names[id].base))
			return true;
	return false;
}

/* True when `text` is a number above zero and nothing else. */
static bool is_positive(const char *text, long *out_number)
{
	char *end;

	*out_number = strtol(text, &end, 10);
	return end != text && *end == '\0' && *out_number > 0;
}

static bool split(const char *item, size_t len, struct fault *out_fault)
{
	char text[128], nth[32], answer[32], rest;

	if (len >= sizeof(text))
		return false;
	memcpy(text, item, len);
	text[len] = '\0';
	if (sscanf(text, "%63[^:=]:%31[0-9]=%31[a-z0-9]%c", out_fault->name, nth, answer, &rest) !=
	    3)
		return false;
	if (!strcmp(answer, "lost"))
		out_fault->answer = FAULT_LOST;
	else if (!is_positive(answer, &out_fault->answer))
		return false;
	return is_positive(nth, &out_fault->nth);
}

static int add(const char *item, size_t len)
{
	struct fault *f = &fault.fault[fault.faults];

	if (fault.faults == FAULTS)
		return complain(FAULT, item, len, "there is room for 64 faults");
	if (!split(item, len, f))
		return complain(FAULT, item, len, "is not CALL:NTH=CODE or CALL:NTH=lost");
	if (!is_call(f->name))
		return complain(FAULT, item, len, "the driver has no call of that name");
	fault.faults++;
	return 0;
}

/* Every item of a list must be good, the empty ones aside. 0 or -EINVAL, which has been said. */
static int each_item(const char *variable, int (*use)(const char *item, size_t len))
{
	const char *text = getenv(variable);
	int rc = 0;

	while (rc == 0 && text && *text) {
		size_t len = strcspn(text, ",");

		if (len)
			rc = use(text, len);
		text += len + (text[len] == ',');
	}
	return rc;
}

static int check_missing(const char *item, size_t len)
{
	static const char *const symbols[] = {
#define CALL(base, symbol, version, stream) #symbol,
#define NONE(base, symbol, version, stream) #symbol,
#define ALIAS(base, symbol, version, stream) #symbol,
#include "cuda_symbols.def"
#undef CALL
#undef NONE
#undef ALIAS
	};

	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		if (strlen(symbols[i]) == len && !memcmp(symbols[i], item, len))
			return 0;
	return complain(MISSING, item, len, "the driver has no symbol of that name");
}

static void load(void)
{
	fault.error = each_item(FAULT, add);
	if (fault.error == 0)
		fault.error = each_item(MISSING, check_missing);
	atomic_store(&fault.armed, fault.faults > 0);
}

int cuda_fault_check(void)
{
	pthread_once(&fault.once, load);
	return fault.error;
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
	const char *text = getenv(MISSING);
	size_t len = strlen(symbol);

	while (text && *text) {
		size_t item = strcspn(text, ",");

		if (item == len && memcmp(text, symbol, len) == 0)
			return true;
		text += item + (text[item] == ',');
	}
	return false;
}
