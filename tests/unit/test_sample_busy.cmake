ration_take(${RATION_TEST} drv/sample_busy)
