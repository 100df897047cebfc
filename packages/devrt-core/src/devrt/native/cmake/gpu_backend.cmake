# Backends for GPUs, over a table of the driver's functions (src/gpu/driver.hpp).

# Adds a static library of the native client for GPUs: the SDK's part, and the sources that open
# the vendor's driver.
function(devrt_add_gpu_backend name)
  file(GLOB sources CONFIGURE_DEPENDS "${devrt_sources}/gpu/*.cpp")
  devrt_add_native_client(${name} ${sources} ${ARGN})
  devrt_compile_together(${name})
endfunction()

# Adds the Python module of such a backend, which consists of the SDK's sources alone.
#
#   BACKEND     the library that devrt_add_gpu_backend added
#   NB_DOMAIN, CLASS_PREFIX   as for devrt_add_backend_module
function(devrt_add_gpu_module name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "BACKEND;NB_DOMAIN;CLASS_PREFIX" "")
  string(REPLACE "_" "-" distribution "${ARG_NB_DOMAIN}")
  set(driver "client/device_backend.hpp")
  set(driver_module "${CMAKE_CURRENT_BINARY_DIR}/${name}_driver.cpp")
  configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/driver_module.cpp.in" "${driver_module}" @ONLY)
  devrt_add_backend_module(${name} NB_DOMAIN ${ARG_NB_DOMAIN} CLASS_PREFIX ${ARG_CLASS_PREFIX}
                           LIBRARIES ${ARG_BACKEND} SOURCES "${driver_module}")
  devrt_compile_together(${name})
endfunction()
