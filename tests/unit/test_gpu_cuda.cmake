ration_take(${RATION_TEST} drv/gpu_cuda drv/gpu_event drv/gpu_pool drv/gpu_tiles drv/relaxed drv/visit)
