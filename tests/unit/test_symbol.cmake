target_sources(${RATION_TEST} PRIVATE ${CMAKE_SOURCE_DIR}/src/drv/symbol.c)
target_link_libraries(${RATION_TEST} PRIVATE ${CMAKE_DL_LIBS})
