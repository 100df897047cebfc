/* What the files of the native module share among themselves. */
#ifndef DEVRT_PJRT_INTERNAL_H_
#define DEVRT_PJRT_INTERNAL_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

/* Offset of the last field plus its size: what plugins of this ABI call the structure's size. */
#define DEVRT_SIZE(type, last) (offsetof(type, last) + sizeof(((type*)0)->last))

/* What a plugin's function takes, up to the last field that is used. */
#define ARGS(function, last, args, ...)                                                   \
  PJRT_##function##_Args args = {.struct_size = DEVRT_SIZE(PJRT_##function##_Args, last), \
                                 __VA_ARGS__}

/* Whether a plugin has a function: older tables end before it. */
#define DEVRT_HAS(api, function)                                                   \
  (offsetof(PJRT_Api, function) + sizeof((api)->function) <= (api)->struct_size && \
   (api)->function != NULL)

typedef struct storage storage;

/* Buffers to destroy in a thread that may wait: a plugin may let the end of a buffer wait for the
 * program that took it by donation, and XLA's does. The caller would wait with it, and a thread of
 * the plugin, which ends programs, for itself. */
typedef struct releases {
  pthread_mutex_t lock;
  pthread_cond_t pushed;
  pthread_cond_t ended;
  storage* first;
  storage** last;
  size_t count; /* waiting, or being destroyed */
  long done;
  int has_thread;
  int is_closed;
} releases;

struct devrt_core {
  const PJRT_Api* api;
  PJRT_Client* client;
  PJRT_ExecuteContext* context; /* of all executions, and empty; null where the plugin has none */
  atomic_long shares;           /* the client is destroyed with the last one */
  atomic_long owners; /* the structure is freed with the last one: shares, and Python's object */
  atomic_int is_retired;
  atomic_long users; /* calls that are running */
  atomic_int is_closed;
  int forks; /* how often the process had forked when the client was made */
  struct outbox* outbox;
  releases releases;
  pthread_mutex_t serial; /* of programs whose devices wait for each other, and of what follows */
  devrt_watch** running;  /* one for each device of the last such program */
  size_t num_running;
  int is_collective;
  int64_t failed_at; /* milliseconds; when it was first seen that one has failed; 0: none has */
  atomic_int is_stuck;
};

/* Tokens of sources that are not needed any more. It has shares of its own, as the callbacks that
 * fill it run on the plugin's threads, where the last share of a client must not be given up: a
 * client waits for its threads. */
typedef struct outbox {
  atomic_long shares;
  pthread_mutex_t lock;
  int64_t* tokens;
  size_t count;
  size_t capacity;
} outbox;

struct storage {
  devrt_core* core;
  PJRT_Buffer* buffer;
  storage* next;       /* of those that are to be destroyed */
  atomic_long shares;  /* handles, views */
  atomic_long open;    /* handles that are not deleted */
  atomic_long pins;    /* calls that use the buffer */
  atomic_long views;   /* exported views */
  atomic_int is_gone;  /* donated, or its memory was given back */
  atomic_int is_taken; /* donated: its end may wait for the program that took it */
  atomic_int is_ready; /* ready without an error */
  int is_promised;     /* its data depends on what the program has yet to send */
  _Atomic(devrt_watch*) watch;
};

typedef struct handle {
  storage* storage;
  atomic_int is_deleted;
  int is_view;
} handle;

void core_share(devrt_core* core);
void core_release(devrt_core* core);
void core_own(devrt_core* core);                      /* keeps the structure, */
void core_disown(devrt_core* core);                   /* and not the client */
int start_thread(void* (*run)(void*), void* context); /* detached, without signals; 0: no thread */
struct timespec deadline_after(int timeout_ms);       /* by the monotonic clock */
void init_monotonic(pthread_cond_t* condition);
outbox* outbox_share(devrt_core* core);
void outbox_release(outbox* box);
void outbox_put(outbox* box, int64_t token);
int core_is_forked(const devrt_core* core);
int devrt_forks(void); /* how often this process's forebears have forked since the first call */
void destroy_buffer(const PJRT_Api* api, PJRT_Buffer* buffer);
void destroy_event(const PJRT_Api* api, PJRT_Event* event);
void destroy_error(const PJRT_Api* api, PJRT_Error* error);

/* A plugin's call into Python, with the GIL taken inside: let through until the interpreter ends.
 */
int gate_enter(void);
void gate_leave(void);
int gate_is_inside(void);
void gate_reset(void);
void devrt_python_ask(devrt_question* question, devrt_answer* answer);
void devrt_python_call(int slot, XLA_FFI_CallFrame* frame, uintptr_t stream, devrt_answer* answer);

/* Returns DEVRT_OK, DEVRT_WAITING, or DEVRT_FAILED with an error. */
int wait_for(storage* of, int timeout_ms, devrt_result* result);

/* Waits for the program that runs serially; the lock is held. */
int serial_wait(devrt_core* core, int timeout_ms);
void serial_take(devrt_core* core, PJRT_Event** events, const devrt_execution* run);

/* Asks a plugin's function within one that returns a status and has a `row` for what went wrong. */
#define ASK(function, subject, pointer)                     \
  PJRT_##function##_Args function = {                       \
      .struct_size = sizeof(function),                      \
      .subject = pointer,                                   \
  };                                                        \
  row->function_name = "PJRT_" #function;                   \
  if (!DEVRT_HAS(api, PJRT_##function)) return DEVRT_STALE; \
  row->error = api->PJRT_##function(&function);             \
  if (row->error != NULL) return DEVRT_FAILED

void releases_init(devrt_core* core);
void releases_close(devrt_core* core);
void releases_destroy(devrt_core* core);
void release_later(storage* of); /* never waits */
void destroy_storage(storage* of);

int pin(devrt_core* core, handle* h);
void unpin(handle* h);

#endif /* DEVRT_PJRT_INTERNAL_H_ */
