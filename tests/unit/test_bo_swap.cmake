target_sources(${RATION_TEST} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/fake_owner.c)
