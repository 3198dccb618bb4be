ration_take(${RATION_TEST} drv/gpu_cuda drv/gpu_event drv/gpu_pool drv/relaxed drv/visit)
