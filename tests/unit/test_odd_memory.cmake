include(${CMAKE_CURRENT_LIST_DIR}/test_programs.cmake)
