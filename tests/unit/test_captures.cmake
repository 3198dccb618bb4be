include(${CMAKE_CURRENT_LIST_DIR}/test_programs.cmake)
ration_take(${RATION_TEST} hook/cuda_stream)
