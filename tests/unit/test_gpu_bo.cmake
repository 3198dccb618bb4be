ration_take(${RATION_TEST} drv/capture drv/epoch drv/fence_context drv/gpu_bo drv/gpu_copy drv/gpu_fence
  drv/gpu_move drv/gpu_probe drv/gpu_remap drv/gpu_still drv/gpu_store drv/gpu_vmm drv/real drv/relaxed drv/status
  drv/symbol)
target_link_libraries(${RATION_TEST} PRIVATE sim_cuda ${CMAKE_DL_LIBS})
