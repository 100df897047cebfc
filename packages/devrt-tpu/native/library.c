/* Opening a plugin's library. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "internal.h"

/* Opened a second time with is_global, a library shows its symbols from then on. */
void* devrt_open(const char* path, int is_global, char* message, size_t size) {
  /* NODELETE: plugins leave threads and handlers behind, and crash where their code is unmapped. */
  const int scope = is_global ? RTLD_GLOBAL : RTLD_LOCAL;
  void* library = dlopen(path, RTLD_NOW | RTLD_NODELETE | scope);
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

/* The environment as C has it: what a plugin sets there, Python's os.environ does not show. */
char** devrt_environ(void) { return environ; }

uintptr_t devrt_signal_handler(int number) {
  struct sigaction found;
  if (sigaction(number, NULL, &found) != 0) return 0;
  if ((found.sa_flags & SA_SIGINFO) == 0) return (uintptr_t)found.sa_handler;
  uintptr_t address = 0;
  memcpy(&address, &found.sa_sigaction, sizeof(address));
  return address;
}
