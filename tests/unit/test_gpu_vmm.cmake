foreach(source gpu_vmm real relaxed status symbol)
  target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/drv/${source}.c)
endforeach()
target_link_libraries(${RATION_TEST} PRIVATE sim_cuda ${CMAKE_DL_LIBS})
