target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/drv/nvml_list.c)
