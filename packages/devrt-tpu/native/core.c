/* A client, who uses it, and when it is destroyed. */
#include <time.h>

#include "internal.h"

static atomic_int forks;

static void count_fork(void) {
  atomic_fetch_add(&forks, 1);
  gate_reset();
}

static pthread_once_t watch_forks_once = PTHREAD_ONCE_INIT;

static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

int devrt_was_forked(void) { return atomic_load(&forks) != 0; }

int core_is_forked(const devrt_core* core) {
  return atomic_load_explicit(&forks, memory_order_relaxed) != core->forks;
}

devrt_core* devrt_core_make(const PJRT_Api* api, PJRT_Client* client) {
  pthread_once(&watch_forks_once, watch_forks);
  devrt_core* core = calloc(1, sizeof(*core));
  outbox* box = calloc(1, sizeof(*box));
  if (core == NULL || box == NULL) {
    free(core);
    free(box);
    return NULL;
  }
  atomic_init(&box->shares, 1);
  pthread_mutex_init(&box->lock, NULL);
  core->outbox = box;
  core->api = api;
  core->client = client;
  core->forks = atomic_load(&forks);
  atomic_init(&core->shares, 1);
  atomic_init(&core->owners, 2);
  return core;
}

void core_share(devrt_core* core) {
  atomic_fetch_add(&core->owners, 1);
  atomic_fetch_add(&core->shares, 1);
}

static void destroy_client(devrt_core* core) {
  PJRT_Client_Destroy_Args args = {
      .struct_size = DEVRT_SIZE(PJRT_Client_Destroy_Args, client),
      .client = core->client,
  };
  destroy_error(core->api, core->api->PJRT_Client_Destroy(&args));
}

static void drop_owner(devrt_core* core) {
  if (atomic_fetch_sub(&core->owners, 1) != 1) return;
  outbox_release(core->outbox);
  free(core);
}

void core_release(devrt_core* core) {
  if (core_is_forked(core)) return; /* the child of a fork must not touch its parent's client */
  if (atomic_fetch_sub(&core->shares, 1) == 1) destroy_client(core);
  drop_owner(core);
}

/* Gives up the share that an open client has of itself, once. */
void devrt_core_retire(devrt_core* core) {
  if (core_is_forked(core)) return;
  if (!atomic_exchange(&core->is_retired, 1)) core_release(core);
}

/* For the Python object that goes: nothing calls with this core any more. */
void devrt_core_drop(devrt_core* core) {
  if (core_is_forked(core)) return;
  devrt_core_retire(core);
  drop_owner(core);
}

int devrt_core_enter(devrt_core* core) {
  if (core_is_forked(core)) return DEVRT_FORKED;
  atomic_fetch_add(&core->users, 1);
  if (atomic_load(&core->is_closed)) {
    atomic_fetch_sub(&core->users, 1);
    return DEVRT_CLOSED;
  }
  return DEVRT_OK;
}

void devrt_core_leave(devrt_core* core) { atomic_fetch_sub(&core->users, 1); }

int devrt_core_close(devrt_core* core, int timeout_ms) {
  if (core_is_forked(core)) return DEVRT_FORKED;
  atomic_store(&core->is_closed, 1);
  const struct timespec nap = {0, 100000};
  for (long naps = 0; atomic_load(&core->users) > 0; ++naps) {
    if (naps >= (long)timeout_ms * 10) return DEVRT_WAITING;
    nanosleep(&nap, NULL);
  }
  return DEVRT_OK;
}

outbox* outbox_share(devrt_core* core) {
  atomic_fetch_add(&core->outbox->shares, 1);
  return core->outbox;
}

void outbox_release(outbox* box) {
  if (atomic_fetch_sub(&box->shares, 1) != 1) return;
  pthread_mutex_destroy(&box->lock);
  free(box->tokens);
  free(box);
}

void outbox_put(outbox* box, int64_t token) {
  pthread_mutex_lock(&box->lock);
  if (box->count == box->room) {
    const size_t room = box->room ? 2 * box->room : 16;
    int64_t* grown = realloc(box->tokens, room * sizeof(*grown));
    if (grown == NULL) { /* the source is then kept for as long as its client */
      pthread_mutex_unlock(&box->lock);
      return;
    }
    box->tokens = grown;
    box->room = room;
  }
  box->tokens[box->count++] = token;
  pthread_mutex_unlock(&box->lock);
}

size_t devrt_core_finished(devrt_core* core, int64_t* tokens, size_t room) {
  outbox* box = core->outbox;
  pthread_mutex_lock(&box->lock);
  const size_t count = box->count < room ? box->count : room;
  for (size_t i = 0; i < count; ++i) tokens[i] = box->tokens[--box->count];
  pthread_mutex_unlock(&box->lock);
  return count;
}

void destroy_event(const PJRT_Api* api, PJRT_Event* event) {
  if (event == NULL) return;
  PJRT_Event_Destroy_Args args = {
      .struct_size = DEVRT_SIZE(PJRT_Event_Destroy_Args, event),
      .event = event,
  };
  destroy_error(api, api->PJRT_Event_Destroy(&args));
}

void destroy_error(const PJRT_Api* api, PJRT_Error* error) {
  if (error == NULL) return;
  PJRT_Error_Destroy_Args args = {
      .struct_size = DEVRT_SIZE(PJRT_Error_Destroy_Args, error),
      .error = error,
  };
  api->PJRT_Error_Destroy(&args);
}
