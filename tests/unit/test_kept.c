#include "shm/kept.h"

#include "fresh.h"

#include <string.h>

static struct ration_region own;

static void it_is_kept_while_any_slot_has_small_ones(void)
{
	own.hint[3] = own.hint[1023] = 1;
	CHECK(!kept_is(&own, 0) && !kept_look(&own, 0));
	kept_show(&own, 3, 0, true);
	kept_show(&own, 1023, 0, true);
	kept_show(&own, 3, 31, true);
	CHECK(kept_is(&own, 0) && kept_is(&own, 31) && !kept_is(&own, 1));
	kept_show(&own, 3, 0, false);
	CHECK(kept_look(&own, 0));
	kept_clear(&own, 1023);
	CHECK(!kept_is(&own, 0));
	CHECK(kept_look(&own, 31));
	kept_show(&own, 1023, 31, true);
	kept_clear(&own, 3);
	CHECK(kept_is(&own, 31));
	kept_show(&own, 1023, 31, false);
	CHECK(!kept_is(&own, 31));
	CHECK_EQ(own.kept_devices, 0);
}

/* What a stranger writes there costs a block until somebody looks, and no more. */
static void a_word_that_nobody_set_goes(void)
{
	memset(&own.kept_devices, 0xff, sizeof(own.kept_devices));
	for (int d = 0; d < RATION_DEVICES; d++)
		CHECK(!kept_look(&own, d));
	CHECK_EQ(own.kept_devices, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(it_is_kept_while_any_slot_has_small_ones),
		fresh_test(a_word_that_nobody_set_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
