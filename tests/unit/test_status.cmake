ration_take(${RATION_TEST} drv/status)
