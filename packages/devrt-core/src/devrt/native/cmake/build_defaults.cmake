# How devrt's own packages compile, included by each before its targets: a Release build, the
# optimization that it sets (devrt_optimization), and the sanitizers that its tests request. A
# third-party package has its own flags, so devrtConfig.cmake does not include this.
set(DEVRT_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize takes them")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(devrt_release_flags "${devrt_optimization} -DNDEBUG")
set(CMAKE_CXX_EXTENSIONS OFF)
if(DEVRT_SANITIZE)
  # -Og and line tables only: instrumented code compiles three times as fast as with -O1 -g.
  set(devrt_release_flags "-Og -g1 -fno-omit-frame-pointer")
  add_compile_options(-fsanitize=${DEVRT_SANITIZE})
  add_link_options(-fsanitize=${DEVRT_SANITIZE})
endif()
set(CMAKE_C_FLAGS_RELEASE "${devrt_release_flags}")
set(CMAKE_CXX_FLAGS_RELEASE "${devrt_release_flags}")
unset(devrt_release_flags)
