target_sources(${RATION_TEST} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/fake_owner.c)
target_link_options(${RATION_TEST} PRIVATE -Wl,--wrap=malloc)
