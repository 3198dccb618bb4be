foreach(source drv/fingerprint drv/nvml_list)
  target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/${source}.c)
endforeach()
