ration_take(${RATION_TEST} drv/gpu_event drv/visit)
