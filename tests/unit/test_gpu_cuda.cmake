target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/drv/gpu_cuda.c
  ${CMAKE_SOURCE_DIR}/src/drv/gpu_pool.c ${CMAKE_SOURCE_DIR}/src/drv/relaxed.c)
