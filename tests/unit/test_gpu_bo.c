#include "drv/gpu_bo.h"

#include "moving.h"

#define MACHINE "mem=256m,context=8m"

static void bytes_move_with_the_object(void)
{
	static const enum bo_place way[] = { BO_GTT,    BO_VRAM, BO_SYSTEM, BO_VRAM,
					     BO_SYSTEM, BO_GTT,  BO_SYSTEM, BO_VRAM };
	uint64_t free_bytes;
	struct bo bo;

	moving_start(MACHINE, NULL, 4 * GRAIN);
	CHECK(gpu_bo_has_gtt(gpu.owner));
	free_bytes = sim_gpu_free_bytes();
	moving_make(&bo, GRAIN, 2 * GRAIN, BO_VRAM);
	moving_fill(&bo, 1);
	for (unsigned i = 0; i < sizeof(way) / sizeof(*way); i++) {
		CHECK_EQ(moving_put(&bo, way[i]), 0);
		CHECK_EQ(bo.place, way[i]);
		CHECK_EQ(free_bytes - sim_gpu_free_bytes(), way[i] == BO_VRAM ? 2 * GRAIN : 0);
		if (way[i] == BO_SYSTEM)
			CHECK_EQ(cuMemsetD8_v2(bo.addr, 0, 1), CUDA_ERROR_INVALID_VALUE);
		else
			CHECK(moving_holds(&bo, 1));
	}
	bo_put(&bo);
	CHECK_EQ(sim_gpu_free_bytes(), free_bytes);
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(bytes_move_with_the_object),
	};

	return cmocka_run_group_tests_name("gpu_bo", tests, NULL, NULL);
}
