# Backends for GPUs, over a table of the driver's functions (src/gpu/driver.hpp).

# Has a few compilers read the headers once for many sources: most of the time goes there, and two
# packages compile the same client. To work on the sources, set DEVRT_TOGETHER to OFF.
option(DEVRT_TOGETHER "Compile sources of GPU backends many at a time" ON)
function(devrt_compile_together name)
  if(NOT DEVRT_TOGETHER)
    return()
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)
  get_target_property(sources ${name} SOURCES)
  list(FILTER sources INCLUDE REGEX "_abi_check\\.cpp$|ended_threads\\.cpp$|\\.c$")
  # The module's entry point has macros of its own.
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

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
