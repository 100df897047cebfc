# The version of the package is the native ABI's: one integer, and only an equal one will do.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../include/devrt/base/abi.h" devrt_abi_line
     REGEX "^#define DEVRT_NATIVE_ABI [0-9]+$")
string(REGEX REPLACE "[^0-9]" "" PACKAGE_VERSION "${devrt_abi_line}")
unset(devrt_abi_line)

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if("${PACKAGE_FIND_VERSION}" STREQUAL "${PACKAGE_VERSION}")
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
