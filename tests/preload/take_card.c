/* take_card: has all of device 0 that is free. */
#include "client.h"

int main(void)
{
	size_t free_bytes, total_bytes;
	CUdeviceptr addr;

	client_start();
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	OK(cuMemAlloc_v2(&addr, free_bytes));
	client_pause("ready");
	return 0;
}
