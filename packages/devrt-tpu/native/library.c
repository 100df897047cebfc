/* Opening a plugin's library. */
#include <dlfcn.h>
#include <stdio.h>

#include "internal.h"

void* devrt_open(const char* path, char* message, size_t size) {
  /* NODELETE: plugins leave threads and handlers behind, and crash where their code is unmapped. */
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) {
    const char* why = dlerror();
    snprintf(message, size, "%s", why != NULL ? why : "unknown reason");
  }
  return library;
}

const PJRT_Api* devrt_find_api(void* library) {
  /* A function pointer comes out of dlsym as an object pointer: copied, as POSIX has it. */
  const PJRT_Api* (*get)(void) = NULL;
  void* symbol = dlsym(library, "GetPjrtApi");
  memcpy(&get, &symbol, sizeof(get));
  return get != NULL ? get() : NULL;
}
