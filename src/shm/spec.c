#include "shm/spec.h"

#include "base/limits.h"
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

/*
 * Text and change are a seqlock: a word of the text that is stored here comes after the change was
 * made odd, so that who has read the word (acquire, in spec_read()) sees it odd then.
 */
static void store_word(struct ration_region *own, size_t i, uint64_t word)
{
	__atomic_store_n((uint64_t *)(void *)own->mem_spec + i, word, __ATOMIC_RELEASE);
}

static uint64_t load_word(const struct ration_region *own, size_t i)
{
	return __atomic_load_n((const uint64_t *)(const void *)own->mem_spec + i, __ATOMIC_ACQUIRE);
}

void spec_begin(struct ration_region *own)
{
	static const union text torn = { .text = { TORN } };

	__atomic_store_n(&own->spec_change, own->spec_change | 1, __ATOMIC_RELAXED);
	store_word(own, 0, torn.words[0]);
	/* What the caller changes comes after it, also for who is killed in between. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void spec_end(struct ration_region *own, const char *spec, const char *source)
{
	union text new;

	region_copy_text(new.text, sizeof(new.text), spec, sizeof(new.text));
	region_copy_text(own->mem_source, sizeof(own->mem_source), source, sizeof(own->mem_source));
	/* The first word, which made it none, last. */
	for (size_t i = WORDS; i-- > 0;)
		store_word(own, i, new.words[i]);
	__atomic_store_n(&own->spec_change, (own->spec_change | 1) + 1, __ATOMIC_RELEASE);
}

uint32_t spec_change(const struct ration_region *own)
{
	return __atomic_load_n(&own->spec_change, __ATOMIC_ACQUIRE);
}

static bool is_understood(const char *spec)
{
	return !*spec || (memchr(spec, '\0', RATION_SPEC_BYTES) &&
			  limits_check(spec, LIMITS_ZERO_IS_NONE, NULL) == 0);
}

int spec_read(const struct ration_region *own, char out_spec[RATION_SPEC_BYTES],
	      uint32_t *out_change)
{
	union text copy;

	for (int tries = 0; tries < READ_TRIES; tries++) {
		uint32_t before = spec_change(own);

		if (before & 1)
			return -EAGAIN;
		for (size_t i = 0; i < WORDS; i++)
			copy.words[i] = load_word(own, i);
		if (__atomic_load_n(&own->spec_change, __ATOMIC_RELAXED) != before)
			continue;
		if (!is_understood(copy.text))
			return -EBADMSG;
		memcpy(out_spec, copy.text, sizeof(copy.text));
		*out_change = before;
		return 0;
	}
	return -EAGAIN;
}
