ration_take(${RATION_TEST} drv/sample_nvml drv/nvml_list drv/fingerprint)
