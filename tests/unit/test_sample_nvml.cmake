foreach(source drv/sample_nvml drv/nvml_list drv/fingerprint)
  target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/${source}.c)
endforeach()
