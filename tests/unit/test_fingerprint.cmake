ration_take(${RATION_TEST} drv/fingerprint drv/nvml_list)
