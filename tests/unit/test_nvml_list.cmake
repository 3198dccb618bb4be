ration_take(${RATION_TEST} drv/nvml_list)
