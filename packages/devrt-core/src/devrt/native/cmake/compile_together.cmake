# Has a few compilers read the headers once for many sources: most of the time goes there, and each
# package compiles the same client. To work on the sources, set DEVRT_TOGETHER to OFF.
option(DEVRT_TOGETHER "Compile the sources of devrt's own backends many at a time" ON)
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
