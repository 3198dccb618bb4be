target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/drv/sample_nvml.c)
