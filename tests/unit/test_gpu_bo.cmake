foreach(source capture epoch fence_context gpu_bo gpu_copy gpu_fence gpu_move gpu_probe gpu_remap gpu_still gpu_store
    gpu_vmm real relaxed status symbol)
  target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/drv/${source}.c)
endforeach()
target_link_libraries(${RATION_TEST} PRIVATE sim_cuda ${CMAKE_DL_LIBS})
