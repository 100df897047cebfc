/* How a process ends while a plugin is inside a call that nobody waits for. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "devrt/base/interrupts.h"
#include "internal.h"

enum { kInterrupted = 130 }; /* the status that shells have for it */

static atomic_long busy;
static atomic_int is_demanded;

void devrt_busy(int change) { atomic_fetch_add(&busy, change); }

void devrt_end_on_demand(void) { atomic_store(&is_demanded, 1); }

void devrt_watch_interrupts(int is_new) {
  if (is_new) devrt_interrupts_set(0);
  devrt_interrupts_watch();
}

void devrt_note_interrupt(void) {
  devrt_interrupts_watch();
  if (devrt_interrupts_seen() == 0) devrt_interrupts_set(1); /* it came before they were counted */
}

int devrt_is_pressed_again(void) { return devrt_interrupts_seen() > 1; }

/* Ends the process as Ctrl-C does where nothing handles it. */
static void end_as_interrupted(void) {
  sigset_t only;
  fflush(stdout);
  signal(SIGINT, SIG_DFL);
  sigemptyset(&only);
  sigaddset(&only, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &only, NULL);
  raise(SIGINT);
  _exit(kInterrupted);
}

static void leave(int status, void* unused) {
  (void)unused;
  fflush(stdout);
  _exit(status);
}

/* Called once Python is gone and before the handlers of libraries: threads that go on crash where
 * their library is taken apart, so those handlers are left out. The last one to be registered is
 * the first to run. */
void devrt_finish(void) {
  if (devrt_was_forked() || atomic_load(&busy) == 0) return;
  if (atomic_load(&is_demanded)) end_as_interrupted();
  on_exit(leave, NULL);
}

uintptr_t devrt_finish_address(void) {
  void (*function)(void) = devrt_finish;
  uintptr_t address = 0;
  memcpy(&address, &function, sizeof(address));
  return address;
}
