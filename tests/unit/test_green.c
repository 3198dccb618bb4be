#include "core/green.h"

#include "fresh.h"

static const char primaries[2], greens[300];

static void who_is_no_green_context_is_itself(void)
{
	green_init();
	CHECK(green_owner(&primaries[0]) == &primaries[0]);
	CHECK(green_owner(NULL) == NULL);
	CHECK(green_enter(&greens[0], &primaries[0]));
	CHECK(green_owner(&primaries[0]) == &primaries[0]);
	CHECK(green_owner(&greens[1]) == &greens[1]);
	CHECK(green_owner(NULL) == NULL);
}

static void each_has_its_primary_until_it_is_gone(void)
{
	green_init();
	for (int i = 0; i < 300; i++)
		CHECK(green_enter(&greens[i], &primaries[i % 2]));
	for (int i = 0; i < 300; i += 3)
		green_leave(&greens[i]);
	green_leave(&greens[0]);
	green_leave(NULL);
	for (int i = 0; i < 300; i++)
		CHECK(green_owner(&greens[i]) == (i % 3 ? &primaries[i % 2] : &greens[i]));
}

/* One went with its primary context, unseen; its handle is another's now. */
static void a_handle_that_comes_again_is_another(void)
{
	green_init();
	CHECK(green_enter(&greens[0], &primaries[0]));
	CHECK(green_enter(&greens[0], &primaries[1]));
	CHECK(green_owner(&greens[0]) == &primaries[1]);
	green_leave(&greens[0]);
	CHECK(green_owner(&greens[0]) == &greens[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(who_is_no_green_context_is_itself),
		fresh_test(each_has_its_primary_until_it_is_gone),
		fresh_test(a_handle_that_comes_again_is_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
