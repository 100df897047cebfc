/* How often the user pressed Ctrl-C: Python tells of several that come shortly after each other as
 * of one, and of one that comes while no code of devrt's runs it tells others. For C and C++; every
 * library that includes this counts for itself.
 */
#ifndef DEVRT_INTERRUPTS_H_
#define DEVRT_INTERRUPTS_H_

#include <signal.h>
#include <stddef.h>

static int devrt_interrupts = 0;
static struct sigaction devrt_interrupts_next; /* the handler that decides, Python's as a rule */
static int devrt_interrupts_has_next = 0;

static inline void devrt_interrupts_handle(int number, siginfo_t* info, void* context) {
  __atomic_add_fetch(&devrt_interrupts, 1, __ATOMIC_SEQ_CST);
  if (devrt_interrupts_next.sa_flags & SA_SIGINFO) {
    devrt_interrupts_next.sa_sigaction(number, info, context);
  } else {
    devrt_interrupts_next.sa_handler(number);
  }
}

/* Counts from now on, in front of the handler that is installed. Nothing where there is none, or
 * another than at the first call: then somebody else handles interrupts, or counts in front of
 * this. For one thread at a time. */
static inline void devrt_interrupts_watch(void) {
  struct sigaction now;
  if (sigaction(SIGINT, NULL, &now) != 0) return;
  const int has_info = (now.sa_flags & SA_SIGINFO) != 0;
  if (has_info && now.sa_sigaction == devrt_interrupts_handle) return;
  if (!has_info && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  if (devrt_interrupts_has_next) {
    const struct sigaction* next = &devrt_interrupts_next;
    if (has_info != ((next->sa_flags & SA_SIGINFO) != 0)) return;
    if (has_info ? now.sa_sigaction != next->sa_sigaction : now.sa_handler != next->sa_handler) {
      return;
    }
  }
  devrt_interrupts_next = now;
  devrt_interrupts_has_next = 1;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = devrt_interrupts_handle;
  (void)sigaction(SIGINT, &now, NULL);
}

static inline int devrt_interrupts_seen(void) {
  return __atomic_load_n(&devrt_interrupts, __ATOMIC_SEQ_CST);
}

static inline void devrt_interrupts_set(int seen) {
  __atomic_store_n(&devrt_interrupts, seen, __ATOMIC_SEQ_CST);
}

#endif /* DEVRT_INTERRUPTS_H_ */
