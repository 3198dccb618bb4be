# What `make install` puts under its prefix: the library and its HAMi name, the command, the software
# GPU where `ration run --sim` looks for it, the headers of the shared-memory layout, the manual.
# Libraries go to lib, also where the distribution has a folder per architecture: the command looks for
# them in ../lib of its own folder.
install(TARGETS ration LIBRARY DESTINATION lib)
install(FILES ${CMAKE_BINARY_DIR}/libvgpu.so DESTINATION lib)
install(TARGETS ration_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS sim_cuda sim_nvml LIBRARY DESTINATION lib/ration/sim)
install(FILES include/ration/region.h include/ration/pace.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ration)

file(GLOB man1_pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.1)
file(GLOB man7_pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.7)
install(FILES ${man1_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${man7_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
