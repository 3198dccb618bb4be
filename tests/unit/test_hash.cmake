target_link_options(${RATION_TEST} PRIVATE -Wl,--wrap=calloc)
