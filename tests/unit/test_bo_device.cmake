target_sources(${RATION_TEST} PRIVATE $<TARGET_OBJECTS:unit_fake_owner>)
