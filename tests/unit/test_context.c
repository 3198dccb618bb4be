#include "core/context.h"

#include "fresh.h"

#include <pthread.h>

static const struct dev dev0 = { 0 }, dev1 = { 1 };
static int a, b;

static void a_context_is_known_until_it_ends(void)
{
	struct context *context;
	struct context_cost cost;

	context_init();
	CHECK(!context_take(&a, context_mark()));
	CHECK_EQ(context_enter(&a, dev1, 500).bytes, 0);
	CHECK(context_any(dev1) && !context_any(dev0));
	CHECK_EQ(context_enter(&b, dev0, 600).bytes, 0);
	CHECK(context_any(dev1) && context_any(dev0));
	context = context_take(&a, context_mark());
	CHECK(context && !context_take(&a, context_mark()));
	CHECK_EQ(context_put_back(context).bytes, 0);
	cost = context_end(context_take(&a, context_mark()));
	CHECK_EQ(cost.bytes, 500);
	CHECK_EQ(cost.dev.v, 1);
	CHECK(!context_take(&a, context_mark()));
	CHECK_EQ(context_end(context_take(&b, context_mark())).bytes, 600);
	CHECK(!context_any(dev1) && !context_any(dev0));
	CHECK_EQ(context_end(NULL).bytes, 0);
	CHECK_EQ(context_put_back(NULL).bytes, 0);
}

/* A handle that comes again: the old one's end takes nothing of the new one. */
static void handles_come_again(void)
{
	struct context *context;
	uint64_t mark;

	context_init();
	context_enter(&a, dev0, 500);
	mark = context_mark();
	CHECK_EQ(context_enter(&a, dev0, 700).bytes, 500);
	CHECK(!context_take(&a, mark));
	context = context_take(&a, context_mark());
	CHECK_EQ(context_enter(&a, dev0, 800).bytes, 0);
	CHECK_EQ(context_put_back(context).bytes, 700);
	CHECK_EQ(context_end(context_take(&a, context_mark())).bytes, 800);
}

static void the_last_user_ends_it(void)
{
	struct context *context;

	context_init();
	CHECK(!context_detach(&a, &context));
	context_attach(&a);
	CHECK(!context_detach(&a, &context));
	context_enter(&a, dev0, 500);
	context_attach(&a);
	CHECK(!context_detach(&a, &context) && !context);
	CHECK(context_detach(&a, &context) && context);
	/* The driver did not let it go: the user is there still. */
	CHECK_EQ(context_put_back(context).bytes, 0);
	context_attach(&a);
	CHECK(!context_detach(&a, &context));
	context_attach(&a);
	CHECK(!context_detach(&a, &context));
	CHECK(context_detach(&a, &context));
	CHECK_EQ(context_end(context).bytes, 500);
}

static void a_child_has_nothing(void)
{
	int status;
	pid_t pid;

	context_init();
	context_enter(&a, dev0, 500);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(context_take(&a, UINT64_MAX) != NULL || context_mark() != 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(context_end(context_take(&a, context_mark())).bytes, 500);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *use_contexts(void *own)
{
	uint64_t sum = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct context *context;

		sum -= context_enter(own, dev0, 1).bytes;
		context_attach(own);
		context_attach(&a);
		CHECK(!context_detach(own, &context));
		CHECK(!context_detach(&a, &context));
		CHECK(context_detach(own, &context));
		if (i % 2)
			CHECK_EQ(context_put_back(context).bytes, 0);
		sum += context_end(i % 2 ? context_take(own, context_mark()) : context).bytes;
	}
	return (void *)(uintptr_t)sum;
}

static void threads_have_contexts(void)
{
	char own[THREADS];
	pthread_t threads[THREADS];

	context_init();
	context_enter(&a, dev0, 500);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, use_contexts, &own[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		void *sum;

		pthread_join(threads[i], &sum);
		CHECK_EQ((uintptr_t)sum, ROUNDS);
	}
	CHECK_EQ(context_end(context_take(&a, context_mark())).bytes, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_context_is_known_until_it_ends),
		fresh_test(handles_come_again),
		fresh_test(the_last_user_ends_it),
		fresh_test(a_child_has_nothing),
		fresh_test(threads_have_contexts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
