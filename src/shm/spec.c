#include "shm/spec.h"

#include "shm/region.h"

#include <errno.h>
#include <string.h>

/* No limit begins so: what a process left that was killed in the midst of a change. */
#define TORN '\1'

enum { READ_TRIES = 16, WORD_BYTES = sizeof(uint64_t), WORDS = RATION_SPEC_BYTES / WORD_BYTES };

/* The text, word by word, as others may read it meanwhile. */
union text {
	char text[RATION_SPEC_BYTES];
	uint64_t words[WORDS];
};

_Static_assert(offsetof(struct ration_region, mem_spec) % WORD_BYTES == 0, "not aligned");
_Static_assert(offsetof(struct ration_region, sm_spec) % WORD_BYTES == 0, "not aligned");

/* Where each kind's text, source and change are. */
static const struct {
	size_t text, source, change;
} places[LIMITS_KINDS] = {
	[LIMITS_MEM] = { offsetof(struct ration_region, mem_spec),
			 offsetof(struct ration_region, mem_source),
			 offsetof(struct ration_region, spec_change) },
	[LIMITS_SM] = { offsetof(struct ration_region, sm_spec),
			offsetof(struct ration_region, sm_source),
			offsetof(struct ration_region, sm_change) },
};

static void *at(struct ration_region *own, size_t offset)
{
	return (char *)own + offset;
}

static const void *const_at(const struct ration_region *own, size_t offset)
{
	return (const char *)own + offset;
}

const char *spec_text(const struct ration_region *own, enum limits_kind kind)
{
	return const_at(own, places[kind].text);
}

const char *spec_source(const struct ration_region *own, enum limits_kind kind)
{
	return const_at(own, places[kind].source);
}

/*
 * Text and change are a seqlock: a word of the text that is stored here comes after the change was
 * made odd, so that who has read the word (acquire, in spec_read()) sees it odd then.
 */
static void store_word(struct ration_region *own, enum limits_kind kind, size_t i, uint64_t word)
{
	__atomic_store_n((uint64_t *)at(own, places[kind].text) + i, word, __ATOMIC_RELEASE);
}

static uint64_t load_word(const struct ration_region *own, enum limits_kind kind, size_t i)
{
	return __atomic_load_n((const uint64_t *)const_at(own, places[kind].text) + i,
			       __ATOMIC_ACQUIRE);
}

void spec_begin(struct ration_region *own, enum limits_kind kind)
{
	static const union text torn = { .text = { TORN } };
	uint32_t *change = at(own, places[kind].change);

	__atomic_store_n(change, *change | 1, __ATOMIC_RELAXED);
	store_word(own, kind, 0, torn.words[0]);
	/* What the caller changes comes after it, also for who is killed in between. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void spec_end(struct ration_region *own, enum limits_kind kind, const char *spec,
	      const char *source)
{
	uint32_t *change = at(own, places[kind].change);
	union text new;

	region_copy_text(new.text, sizeof(new.text), spec, sizeof(new.text));
	region_copy_text(at(own, places[kind].source), RATION_SOURCE_BYTES, source,
			 RATION_SOURCE_BYTES);
	/* The first word, which made it none, last. */
	for (size_t i = WORDS; i-- > 0;)
		store_word(own, kind, i, new.words[i]);
	__atomic_store_n(change, (*change | 1) + 1, __ATOMIC_RELEASE);
}

uint32_t spec_change(const struct ration_region *own, enum limits_kind kind)
{
	return __atomic_load_n((const uint32_t *)const_at(own, places[kind].change),
			       __ATOMIC_ACQUIRE);
}

static bool is_understood(enum limits_kind kind, const char *spec)
{
	return !*spec || (memchr(spec, '\0', RATION_SPEC_BYTES) &&
			  limits_check(kind, spec, LIMITS_ZERO_IS_NONE, NULL) == 0);
}

bool spec_is_understood(const struct ration_region *own, enum limits_kind kind)
{
	return spec_change(own, kind) != 0 && is_understood(kind, spec_text(own, kind));
}

int spec_read(const struct ration_region *own, enum limits_kind kind,
	      char out_spec[RATION_SPEC_BYTES], uint32_t *out_change)
{
	union text copy;

	for (int tries = 0; tries < READ_TRIES; tries++) {
		uint32_t before = spec_change(own, kind);

		if (before & 1)
			return -EAGAIN;
		for (size_t i = 0; i < WORDS; i++)
			copy.words[i] = load_word(own, kind, i);
		if (spec_change(own, kind) != before)
			continue;
		/* Zeros that nobody wrote are what is left of a file that was cut. */
		if (before == 0 || !is_understood(kind, copy.text))
			return -EBADMSG;
		memcpy(out_spec, copy.text, sizeof(copy.text));
		*out_change = before;
		return 0;
	}
	return -EAGAIN;
}
