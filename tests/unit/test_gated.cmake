# All hooks, on a driver of the test's own; it is no member, so nothing is attached.
file(GLOB gated_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/hook/*.c ${CMAKE_SOURCE_DIR}/src/drv/*.c)
list(FILTER gated_sources EXCLUDE REGEX "/(init|worker|dlsym)[.]c$")
target_sources(${RATION_TEST} PRIVATE ${gated_sources})
target_include_directories(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/sim)
target_link_libraries(${RATION_TEST} PRIVATE ${CMAKE_DL_LIBS})
