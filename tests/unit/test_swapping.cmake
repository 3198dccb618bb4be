include(${CMAKE_CURRENT_SOURCE_DIR}/test_gpu_bo.cmake)
