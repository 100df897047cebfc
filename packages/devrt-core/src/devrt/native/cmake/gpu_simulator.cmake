# devrt_add_gpu_simulator(NAME SOURCES...): adds a shared library that stands in for a driver: the
# SDK's simulator (src/gpu_simulator), and the sources that export the driver's functions over it. It
# is the vendor's PJRT plugin too, for the simulated devices.
# Only what those mark as visible is.
function(devrt_add_gpu_simulator name)
  file(GLOB sources CONFIGURE_DEPENDS "${devrt_sources}/gpu_simulator/*.cpp"
                                      "${devrt_sources}/gpu_simulator/plugin/*.cpp")
  add_library(${name} SHARED ${sources} ${ARGN})
  target_include_directories(${name} PRIVATE "${devrt_sources}")
  target_link_libraries(${name} PRIVATE devrt::headers devrt::warnings ${CMAKE_DL_LIBS})
  # Its threads may run when it is closed: it stays in the process.
  target_link_options(${name} PRIVATE -Wl,-z,nodelete)
  set_target_properties(${name} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  devrt_compile_together(${name})
endfunction()
