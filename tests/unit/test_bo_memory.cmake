target_sources(${RATION_TEST} PRIVATE $<TARGET_OBJECTS:unit_fake_owner>)
target_link_options(${RATION_TEST} PRIVATE -Wl,--wrap=malloc)
