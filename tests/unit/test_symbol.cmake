ration_take(${RATION_TEST} drv/symbol)
target_link_libraries(${RATION_TEST} PRIVATE ${CMAKE_DL_LIBS})
