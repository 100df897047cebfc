# devrt's native SDK for backends.
#
#   find_package(devrt 1 CONFIG REQUIRED)
#   devrt_add_backend_module(_ext NB_DOMAIN devrt_acme CLASS_PREFIX Acme DRIVER driver.hpp)
#
# scikit-build-core finds this file by devrt-core's entry point of group cmake.prefix; elsewhere devrt_DIR
# is what python -m devrt.native --cmake-dir prints.
#
# The version is that of the native ABI (devrt/base/abi.h); another one than requested is refused here,
# and a module refuses to be imported where devrt-core has another one than it was built with.
# Targets: devrt::headers (include path, C++20, threads), devrt::warnings (compile options).
# The native client (src/client, src/execution) and its front (src/binding) are sources, compiled into
# each backend: two of them in one process share no code.
include_guard(GLOBAL)

option(DEVRT_WERROR "Treat compiler warnings as errors" OFF)
option(DEVRT_LINKED_NANOBIND "Link nanobind into the module instead of using nanobind-backend" OFF)

find_package(Threads REQUIRED)

add_library(devrt_headers INTERFACE)
add_library(devrt::headers ALIAS devrt_headers)
target_include_directories(devrt_headers INTERFACE "${CMAKE_CURRENT_LIST_DIR}/../include")
target_compile_features(devrt_headers INTERFACE cxx_std_20)
target_link_libraries(devrt_headers INTERFACE Threads::Threads)

add_library(devrt_warnings INTERFACE)
add_library(devrt::warnings ALIAS devrt_warnings)
target_compile_options(devrt_warnings INTERFACE -Wall -Wextra -Wconversion
                                                $<$<BOOL:${DEVRT_WERROR}>:-Werror>)

set(devrt_sources "${CMAKE_CURRENT_LIST_DIR}/../src")

# Adds a static library of the native client, which knows no Python, and the backend's own sources.
function(devrt_add_native_client name)
  file(GLOB sources CONFIGURE_DEPENDS "${devrt_sources}/client/*.cpp" "${devrt_sources}/execution/*.cpp")
  add_library(${name} STATIC ${sources} ${ARGN})
  target_include_directories(${name} PUBLIC "${devrt_sources}")
  target_link_libraries(${name} PUBLIC devrt::headers ${CMAKE_DL_LIBS} PRIVATE devrt::warnings)
  set_target_properties(${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# Adds a Python extension module in nanobind's split mode: one abi3 module for every Python.
#
#   name        target and module name
#   NB_DOMAIN   nanobind domain, one per distribution: two that share one lose each other's classes
#   CLASS_PREFIX  with the front of the native client, whose classes are named so (AcmeClient, ...);
#               NB_DOMAIN is then the package that the module is in
#   DRIVER      with CLASS_PREFIX: a header that defines devrt::native::platform() and make_backend()
#               (client/device_backend.hpp); the rest of the module is the SDK's
#   SOURCES     the module's files, beside the driver or without one
#   LIBRARIES   what it links to; shared libraries among them are found beside it at run time
#   STUB        a .pyi file that the target <name>_stub writes from the built module
function(devrt_add_backend_module name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "NB_DOMAIN;CLASS_PREFIX;DRIVER;STUB" "SOURCES;LIBRARIES")
  if(NOT ARG_NB_DOMAIN OR NOT (ARG_SOURCES OR (ARG_DRIVER AND ARG_CLASS_PREFIX)))
    message(FATAL_ERROR "devrt_add_backend_module(${name}): NB_DOMAIN is needed, and SOURCES or "
                        "CLASS_PREFIX with DRIVER")
  endif()
  if(NOT COMMAND nanobind_add_module)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
    # Queried from this interpreter: under pip's isolation find_package(nanobind) alone may pick another.
    execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
                    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT
                    COMMAND_ERROR_IS_FATAL ANY)
    find_package(nanobind CONFIG REQUIRED)
  endif()
  set(mode BACKEND_MODULE nanobind_backend STABLE_ABI_VERSION 3.11)
  if(DEVRT_LINKED_NANOBIND)
    set(mode NB_STATIC)
  endif()
  set(abi_check "${CMAKE_CURRENT_BINARY_DIR}/${name}_abi_check.cpp")
  set(module ${name})
  set(domain ${ARG_NB_DOMAIN})
  configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/abi_check.cpp.in" "${abi_check}" @ONLY)
  string(REPLACE "_" "-" distribution "${ARG_NB_DOMAIN}")
  set(front "")
  if(ARG_CLASS_PREFIX)
    file(GLOB front CONFIGURE_DEPENDS "${devrt_sources}/binding/*.cpp")
  endif()
  if(ARG_DRIVER)
    cmake_path(ABSOLUTE_PATH ARG_DRIVER NORMALIZE OUTPUT_VARIABLE driver)
    set(driver_module "${CMAKE_CURRENT_BINARY_DIR}/${name}_driver.cpp")
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/driver_module.cpp.in" "${driver_module}" @ONLY)
    list(APPEND ARG_SOURCES "${driver_module}")
    devrt_add_native_client(${name}_client)
    list(APPEND ARG_LIBRARIES ${name}_client)
  endif()
  nanobind_add_module(${name} ${mode} NB_DOMAIN ${ARG_NB_DOMAIN} NOMINSIZE NB_SUPPRESS_WARNINGS
                      ${front} ${ARG_SOURCES} "${abi_check}")
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    # Daemon threads that the interpreter ends sleep at the module's frames: see the file.
    target_sources(${name} PRIVATE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/ended_threads.cpp")
    target_link_options(${name} PRIVATE -Wl,--wrap=__gxx_personality_v0)
  endif()
  # The generated file has the real entry point, which checks and then calls this one.
  target_compile_definitions(${name} PRIVATE PyInit_${name}=devrt_init_${name}
    DEVRT_PACKAGE="${ARG_NB_DOMAIN}" DEVRT_DISTRIBUTION="${distribution}"
    DEVRT_CLASS_PREFIX="${ARG_CLASS_PREFIX}")
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} devrt::headers devrt::warnings)
  set_target_properties(${name} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
  if(ARG_STUB)
    nanobind_add_stub(${name}_stub MODULE ${name} OUTPUT "${ARG_STUB}"
                      PYTHON_PATH $<TARGET_FILE_DIR:${name}> DEPENDS ${name} EXCLUDE_FROM_ALL)
  endif()
endfunction()

include("${CMAKE_CURRENT_LIST_DIR}/compile_together.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/gpu_backend.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/gpu_simulator.cmake")
