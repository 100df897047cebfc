/* A client, who uses it, and when it is destroyed. */
#include <signal.h>
#include <time.h>

#include "internal.h"

static atomic_int forks;

static void count_fork(void) {
  atomic_fetch_add(&forks, 1);
  gate_reset();
}

static pthread_once_t watch_forks_once = PTHREAD_ONCE_INIT;

static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

int devrt_forks(void) {
  pthread_once(&watch_forks_once, watch_forks);
  return atomic_load(&forks);
}

int devrt_was_forked(void) { return atomic_load(&forks) != 0; }

int core_is_forked(const devrt_core* core) {
  return atomic_load_explicit(&forks, memory_order_relaxed) != core->forks;
}

static int takes_handlers(const PJRT_Api* api) {
  const PJRT_Extension_Base* at = api->extension_start;
  while (at != NULL && at->type != PJRT_Extension_Type_FFI) at = at->next;
  return at != NULL;
}

/* Makes what a handler of a custom call may look into. It may be another client's of the process,
 * which looks for what that has put there; XLA ends the process where there is no context. */
static PJRT_ExecuteContext* make_context(const PJRT_Api* api) {
  if (!DEVRT_HAS(api, PJRT_ExecuteContext_Create) || !DEVRT_HAS(api, PJRT_ExecuteContext_Destroy) ||
      !takes_handlers(api)) {
    return NULL;
  }
  PJRT_ExecuteContext_Create_Args args = {
      .struct_size = DEVRT_SIZE(PJRT_ExecuteContext_Create_Args, context),
  };
  PJRT_Error* error = api->PJRT_ExecuteContext_Create(&args);
  destroy_error(api, error);
  return error == NULL ? args.context : NULL;
}

static void destroy_context(devrt_core* core) {
  if (core->context == NULL) return;
  ARGS(ExecuteContext_Destroy, context, args, .context = core->context);
  destroy_error(core->api, core->api->PJRT_ExecuteContext_Destroy(&args));
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
  pthread_mutex_init(&core->serial, NULL);
  releases_init(core);
  core->api = api;
  core->client = client;
  core->context = make_context(api);
  core->forks = atomic_load(&forks);
  atomic_init(&core->shares, 1);
  atomic_init(&core->owners, 2);
  return core;
}

void core_own(devrt_core* core) { atomic_fetch_add(&core->owners, 1); }

void core_share(devrt_core* core) {
  core_own(core);
  atomic_fetch_add(&core->shares, 1);
}

static void drop_running(devrt_core* core) {
  for (size_t i = 0; i < core->num_running; ++i) devrt_watch_release(core->running[i]);
  free(core->running);
  core->running = NULL;
  core->num_running = 0;
}

static int64_t now_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000 + 1;
}

/* Whether some devices of a program wait for another one of it that has failed: they do for ever,
 * and so do the next program and the client's end. */
int devrt_core_is_stuck(devrt_core* core, int grace_ms) {
  if (core_is_forked(core) || atomic_load(&core->is_stuck)) return !core_is_forked(core);
  if (pthread_mutex_trylock(&core->serial) != 0) return 0;
  size_t failed = 0, waiting = 0;
  for (size_t i = 0; i < core->num_running; ++i) {
    PJRT_Error* error;
    const int status = devrt_watch_wait(core->running[i], 0, &error);
    failed += status == DEVRT_FAILED;
    waiting += status == DEVRT_WAITING;
  }
  if (failed == 0 || waiting == 0 || !core->is_collective) {
    core->failed_at = 0;
  } else if (core->failed_at == 0) {
    core->failed_at = now_ms();
  }
  if (core->failed_at != 0 && now_ms() - core->failed_at >= grace_ms) {
    atomic_store(&core->is_stuck, 1);
  }
  pthread_mutex_unlock(&core->serial);
  return atomic_load(&core->is_stuck);
}

int serial_wait(devrt_core* core, int timeout_ms) {
  for (size_t i = 0; i < core->num_running; ++i) {
    PJRT_Error* error; /* the watch's, and the results have it too */
    if (devrt_watch_wait(core->running[i], timeout_ms, &error) == DEVRT_WAITING) {
      return DEVRT_WAITING;
    }
  }
  drop_running(core);
  return DEVRT_OK;
}

/* Takes the events over. */
void serial_take(devrt_core* core, PJRT_Event** events, const devrt_execution* run) {
  const size_t count = run->num_devices;
  core->failed_at = 0;
  core->is_collective = run->is_collective;
  core->running = calloc(count, sizeof(*core->running));
  for (size_t i = 0; i < count; ++i) {
    PJRT_Error* error = NULL;
    devrt_watch* watch = NULL;
    if (core->running == NULL) {
      destroy_event(core->api, events[i]);
    } else if (events[i] != NULL) {
      watch = devrt_watch_make(core->api, events[i], NULL, 0, &error);
    }
    destroy_error(core->api, error);
    if (watch == NULL) continue;
    core->running[core->num_running++] = watch;
    if (run->watches != NULL) run->watches[i] = devrt_watch_share(watch);
  }
}

static void destroy_client(devrt_core* core) {
  drop_running(core);
  if (atomic_load(&core->is_stuck)) return; /* it would wait for its threads for ever */
  ARGS(Client_Destroy, client, args, .client = core->client);
  destroy_error(core->api, core->api->PJRT_Client_Destroy(&args));
  destroy_context(core); /* the client has waited for what runs in it */
}

void core_disown(devrt_core* core) {
  if (atomic_fetch_sub(&core->owners, 1) != 1) return;
  outbox_release(core->outbox);
  releases_destroy(core);
  pthread_mutex_destroy(&core->serial);
  free(core);
}

static void* destroy_and_drop(void* core) {
  destroy_client(core);
  core_disown(core);
  return NULL;
}

int start_thread(void* (*run)(void*), void* context) {
  pthread_t thread;
  sigset_t all, former;
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &former);
  const int failed = pthread_create(&thread, NULL, run, context);
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  if (!failed) pthread_detach(thread);
  return !failed;
}

void core_release(devrt_core* core) {
  if (core_is_forked(core)) return; /* the child of a fork must not touch its parent's client */
  if (atomic_fetch_sub(&core->shares, 1) == 1) {
    releases_close(core);
    /* A client waits for its threads to end: one of them, which calls Python, must not do it. */
    if (gate_is_inside() && start_thread(destroy_and_drop, core)) return;
    destroy_client(core);
  }
  core_disown(core);
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
  core_disown(core);
}

void devrt_core_hold(devrt_core* core) { core_share(core); }
void devrt_core_let_go(devrt_core* core) { core_release(core); }

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
  if (box->count == box->capacity) {
    const size_t capacity = box->capacity ? 2 * box->capacity : 16;
    int64_t* grown = realloc(box->tokens, capacity * sizeof(*grown));
    if (grown == NULL) { /* the source is then kept for as long as its client */
      pthread_mutex_unlock(&box->lock);
      return;
    }
    box->tokens = grown;
    box->capacity = capacity;
  }
  box->tokens[box->count++] = token;
  pthread_mutex_unlock(&box->lock);
}

size_t devrt_core_finished(devrt_core* core, int64_t* tokens, size_t capacity) {
  outbox* box = core->outbox;
  pthread_mutex_lock(&box->lock);
  const size_t count = box->count < capacity ? box->count : capacity;
  for (size_t i = 0; i < count; ++i) tokens[i] = box->tokens[--box->count];
  pthread_mutex_unlock(&box->lock);
  return count;
}

void destroy_event(const PJRT_Api* api, PJRT_Event* event) {
  if (event == NULL) return;
  ARGS(Event_Destroy, event, args, .event = event);
  destroy_error(api, api->PJRT_Event_Destroy(&args));
}

void destroy_error(const PJRT_Api* api, PJRT_Error* error) {
  if (error == NULL) return;
  ARGS(Error_Destroy, error, args, .error = error);
  api->PJRT_Error_Destroy(&args);
}
