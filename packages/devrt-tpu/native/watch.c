/* Waiting for a plugin's event with a deadline, which the C API itself cannot. */
#include <errno.h>
#include <time.h>

#include "internal.h"

struct devrt_watch {
  const PJRT_Api* api;
  outbox* outbox; /* where the token goes; may be null */
  PJRT_Event* event;
  int64_t token;
  atomic_int shares; /* the waiter, and the callback */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_done;
  PJRT_Error* error;
};

/* The event is destroyed with the last share: a callback that runs inside OnReady must not destroy
 * it, as the plugin goes on to use it there. */
static void drop(devrt_watch* watch) {
  if (atomic_fetch_sub(&watch->shares, 1) != 1) return;
  destroy_event(watch->api, watch->event);
  destroy_error(watch->api, watch->error);
  pthread_cond_destroy(&watch->changed);
  pthread_mutex_destroy(&watch->lock);
  free(watch);
}

/* Runs on a plugin's thread, or inside devrt_watch_make: never with the GIL. */
static void on_ready(PJRT_Error* error, void* user_arg) {
  devrt_watch* watch = user_arg;
  outbox* box = watch->outbox;
  pthread_mutex_lock(&watch->lock);
  watch->is_done = 1;
  watch->error = error;
  pthread_cond_broadcast(&watch->changed);
  pthread_mutex_unlock(&watch->lock);
  if (box != NULL) {
    outbox_put(box, watch->token);
    outbox_release(box);
  }
  drop(watch);
}

void init_monotonic(pthread_cond_t* condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

static devrt_watch* make(const PJRT_Api* api, PJRT_Event* event, int64_t token) {
  devrt_watch* watch = calloc(1, sizeof(*watch));
  if (watch == NULL) return NULL;
  watch->api = api;
  watch->event = event;
  watch->token = token;
  atomic_init(&watch->shares, 2);
  pthread_mutex_init(&watch->lock, NULL);
  init_monotonic(&watch->changed);
  return watch;
}

/* Takes the event over. Returns null, with or without an error, when it cannot be watched. */
devrt_watch* devrt_watch_make(const PJRT_Api* api, PJRT_Event* event, devrt_core* core,
                              int64_t token, PJRT_Error** error) {
  *error = NULL;
  devrt_watch* watch = make(api, event, token);
  if (watch == NULL) {
    destroy_event(api, event);
    return NULL;
  }
  if (core != NULL) watch->outbox = outbox_share(core);
  ARGS(Event_OnReady, user_arg, args, .event = event, .callback = on_ready, .user_arg = watch);
  *error = api->PJRT_Event_OnReady(&args);
  if (*error == NULL) return watch;
  if (watch->outbox != NULL) outbox_release(watch->outbox);
  atomic_store(&watch->shares, 1);
  drop(watch);
  return NULL;
}

struct timespec deadline_after(int timeout_ms) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_sec += timeout_ms / 1000;
  at.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
  if (at.tv_nsec >= 1000000000L) {
    at.tv_sec += 1;
    at.tv_nsec -= 1000000000L;
  }
  return at;
}

/* The error belongs to the watch. */
int devrt_watch_wait(devrt_watch* watch, int timeout_ms, PJRT_Error** error) {
  const struct timespec deadline = deadline_after(timeout_ms);
  pthread_mutex_lock(&watch->lock);
  int late = 0;
  while (!watch->is_done && late != ETIMEDOUT && timeout_ms > 0) {
    late = pthread_cond_timedwait(&watch->changed, &watch->lock, &deadline);
  }
  const int is_done = watch->is_done;
  *error = watch->error;
  pthread_mutex_unlock(&watch->lock);
  if (!is_done) return DEVRT_WAITING;
  return *error == NULL ? DEVRT_OK : DEVRT_FAILED;
}

devrt_watch* devrt_watch_share(devrt_watch* watch) {
  atomic_fetch_add(&watch->shares, 1);
  return watch;
}

void devrt_watch_release(devrt_watch* watch) { drop(watch); }
