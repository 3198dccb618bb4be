ration_take(${RATION_TEST} drv/gpu_vmm drv/real drv/relaxed drv/status drv/symbol)
target_link_libraries(${RATION_TEST} PRIVATE sim_cuda ${CMAKE_DL_LIBS})
