target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/hook/event_point.c)
