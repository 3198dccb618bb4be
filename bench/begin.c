/*
 * Many programs at once: how long until all of them have a context.
 *
 *   begin COUNT
 *
 * Prints nanoseconds from the first fork until the last child is ready.
 */
#include "driver.h"

#include <sys/wait.h>
#include <unistd.h>

static void be_program(int ready, int end)
{
	void *cuda = driver_open("libcuda.so.1");
	CUdeviceptr addr;
	char c = 1;

	driver_begin(cuda);
	CHECK(DRIVER(cuda, cuMemAlloc_v2)(&addr, 4096));
	if (write(ready, &c, 1) != 1)
		_exit(1);
	/* Alive until all are: the figure is that of a crowd. */
	while (read(end, &c, 1) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 300, ready[2], end[2], bad = 0, status;
	int64_t start_ns = driver_now_ns();
	char c;

	if (pipe(ready) || pipe(end))
		return 1;
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			close(ready[0]);
			close(end[1]);
			be_program(ready[1], end[0]);
		}
	}
	close(ready[1]);
	for (int i = 0; i < count; i++)
		if (read(ready[0], &c, 1) != 1)
			break;
	printf("%lld\n", (long long)(driver_now_ns() - start_ns));
	close(end[1]);
	while (wait(&status) > 0)
		bad += status != 0;
	if (bad)
		fprintf(stderr, "begin: %d of %d programs failed\n", bad, count);
	return bad != 0;
}
