include(${CMAKE_CURRENT_LIST_DIR}/test_programs.cmake)
target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/hook/cuda_stream.c)
