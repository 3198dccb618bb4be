# All hooks, on a driver of the test's own; it is no member, so nothing is attached.
target_sources(${RATION_TEST} PRIVATE
  "$<FILTER:$<TARGET_OBJECTS:ration_high>,EXCLUDE,/(init|worker|dlsym)[.]c[.]o$|[.]S[.]o$>")
target_include_directories(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/sim)
target_link_libraries(${RATION_TEST} PRIVATE ${CMAKE_DL_LIBS})
