/*
 * Makes a driver of which every call takes a while after it has let go of its lock, as real ones
 * do: what stands between two calls is then seen by other threads.
 */
#include <time.h>

int __real_cuda_call_end(int res);
int __wrap_cuda_call_end(int res);

int __wrap_cuda_call_end(int res)
{
	struct timespec a_while = { 0, 1000000 };

	res = __real_cuda_call_end(res);
	nanosleep(&a_while, NULL);
	return res;
}
