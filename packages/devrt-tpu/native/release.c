/* Destroying buffers in a thread that may wait. */
#include <errno.h>

#include "internal.h"

void releases_init(devrt_core* core) {
  releases* of = &core->releases;
  pthread_mutex_init(&of->lock, NULL);
  pthread_cond_init(&of->pushed, NULL);
  init_monotonic(&of->ended);
  of->last = &of->first;
}

void releases_destroy(devrt_core* core) {
  pthread_cond_destroy(&core->releases.ended);
  pthread_cond_destroy(&core->releases.pushed);
  pthread_mutex_destroy(&core->releases.lock);
}

/* Ends the thread, once nothing has a share of the client: then nothing waits to be destroyed. */
void releases_close(devrt_core* core) {
  pthread_mutex_lock(&core->releases.lock);
  core->releases.is_closed = 1;
  pthread_cond_signal(&core->releases.pushed);
  pthread_mutex_unlock(&core->releases.lock);
}

static storage* pop(releases* of) {
  storage* taken = of->first;
  of->first = taken->next;
  if (of->first == NULL) of->last = &of->first;
  return taken;
}

static void* run(void* context) {
  devrt_core* core = context;
  releases* of = &core->releases;
  pthread_mutex_lock(&of->lock);
  while (1) {
    while (of->first == NULL && !of->is_closed) pthread_cond_wait(&of->pushed, &of->lock);
    if (of->first == NULL) break;
    storage* next = pop(of);
    pthread_mutex_unlock(&of->lock);
    destroy_storage(next); /* and the client with the last one */
    pthread_mutex_lock(&of->lock);
    --of->count;
    ++of->done;
    pthread_cond_broadcast(&of->ended);
  }
  pthread_mutex_unlock(&of->lock);
  core_disown(core);
  return NULL;
}

void release_later(storage* storage) {
  devrt_core* core = storage->core;
  releases* of = &core->releases;
  storage->next = NULL;
  pthread_mutex_lock(&of->lock);
  *of->last = storage;
  of->last = &storage->next;
  ++of->count;
  if (!of->has_thread) { /* where there is none to be had, the next one tries again */
    core_own(core);
    of->has_thread = start_thread(run, core);
    if (!of->has_thread) core_disown(core);
  }
  pthread_cond_signal(&of->pushed);
  pthread_mutex_unlock(&of->lock);
}

int devrt_core_settle(devrt_core* core, size_t most, int timeout_ms) {
  if (core_is_forked(core)) return DEVRT_OK;
  releases* of = &core->releases;
  pthread_mutex_lock(&of->lock);
  if (of->count > most) {
    const struct timespec deadline = deadline_after(timeout_ms);
    int late = 0;
    while (of->count > most && late != ETIMEDOUT) {
      late = pthread_cond_timedwait(&of->ended, &of->lock, &deadline);
    }
  }
  const int status = of->count > most ? DEVRT_WAITING : DEVRT_OK;
  pthread_mutex_unlock(&of->lock);
  return status;
}

long devrt_core_settled(devrt_core* core) {
  pthread_mutex_lock(&core->releases.lock);
  const long done = core->releases.done;
  pthread_mutex_unlock(&core->releases.lock);
  return done;
}
