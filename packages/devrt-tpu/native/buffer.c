/* Buffers: making, sharing, deleting, waiting for and reading them. */
#include "internal.h"

static storage* make_storage(devrt_core* core, PJRT_Buffer* buffer) {
  storage* made = calloc(1, sizeof(*made));
  if (made == NULL) return NULL;
  made->core = core;
  made->buffer = buffer;
  core_share(core);
  return made;
}

static handle* make_handle(storage* of, int is_view) {
  handle* made = calloc(1, sizeof(*made));
  if (made == NULL) return NULL;
  made->storage = of;
  made->is_view = is_view;
  atomic_fetch_add(&of->shares, 1);
  atomic_fetch_add(is_view ? &of->views : &of->open, 1);
  return made;
}

void destroy_buffer(const PJRT_Api* api, PJRT_Buffer* buffer) {
  ARGS(Buffer_Destroy, buffer, args, .buffer = buffer);
  destroy_error(api, api->PJRT_Buffer_Destroy(&args));
}

/* Gives the memory back once nobody may look at it any more, and keeps the PJRT_Buffer. */
static void free_memory(storage* of) {
  if (atomic_load(&of->open) > 0 || atomic_load(&of->pins) > 0 || atomic_load(&of->views) > 0) {
    return;
  }
  if (atomic_exchange(&of->is_gone, 1)) return;
  ARGS(Buffer_Delete, buffer, args, .buffer = of->buffer);
  destroy_error(of->core->api, of->core->api->PJRT_Buffer_Delete(&args));
}

void destroy_storage(storage* of) {
  devrt_watch* watch = atomic_load(&of->watch);
  destroy_buffer(of->core->api, of->buffer);
  if (watch != NULL) devrt_watch_release(watch);
  core_release(of->core);
  free(of);
}

static void drop_storage(storage* of) {
  if (atomic_fetch_sub(&of->shares, 1) != 1) return;
  /* Within the gate this thread may be the plugin's, and end what others wait for. */
  (atomic_load(&of->is_taken) || gate_is_inside() ? release_later : destroy_storage)(of);
}

uintptr_t devrt_adopt(devrt_core* core, PJRT_Buffer* buffer) {
  storage* made = make_storage(core, buffer);
  handle* first = made != NULL ? make_handle(made, 0) : NULL;
  if (first == NULL) {
    destroy_buffer(core->api, buffer);
    if (made != NULL) core_release(core);
    free(made);
  }
  return (uintptr_t)first;
}

uintptr_t devrt_adopt_promised(devrt_core* core, PJRT_Buffer* buffer) {
  handle* made = (handle*)devrt_adopt(core, buffer);
  if (made != NULL) made->storage->is_promised = 1;
  return (uintptr_t)made;
}

uintptr_t devrt_adopt_copy(devrt_core* core, PJRT_Buffer* buffer, uintptr_t source) {
  handle* made = (handle*)devrt_adopt(core, buffer);
  if (made != NULL) made->storage->is_promised = ((handle*)source)->storage->is_promised;
  return (uintptr_t)made;
}

uintptr_t devrt_clone(uintptr_t of) {
  handle* source = (handle*)of;
  return (uintptr_t)make_handle(source->storage, 0);
}

/* Holds the memory for a view that outlives buffer and client; released as a handle is. */
uintptr_t devrt_hold(uintptr_t of) {
  storage* held = ((handle*)of)->storage;
  const PJRT_Api* api = held->core->api;
  handle* made = make_handle(held, 1);
  if (made != NULL && DEVRT_HAS(api, PJRT_Buffer_IncreaseExternalReferenceCount)) {
    ARGS(Buffer_IncreaseExternalReferenceCount, buffer, args, .buffer = held->buffer);
    PJRT_Error* error = api->PJRT_Buffer_IncreaseExternalReferenceCount(&args);
    if (error != NULL) {
      destroy_error(api, error);
      made->is_view = 2; /* nothing to take back */
    }
  }
  return (uintptr_t)made;
}

static void release_view(handle* view) {
  storage* held = view->storage;
  const PJRT_Api* api = held->core->api;
  if (view->is_view == 1 && DEVRT_HAS(api, PJRT_Buffer_DecreaseExternalReferenceCount)) {
    ARGS(Buffer_DecreaseExternalReferenceCount, buffer, args, .buffer = held->buffer);
    destroy_error(api, api->PJRT_Buffer_DecreaseExternalReferenceCount(&args));
  }
  atomic_fetch_sub(&held->views, 1);
}

void devrt_delete(uintptr_t of) {
  handle* deleted = (handle*)of;
  if (core_is_forked(deleted->storage->core)) return;
  if (atomic_exchange(&deleted->is_deleted, 1)) return;
  atomic_fetch_sub(&deleted->storage->open, 1);
  free_memory(deleted->storage);
}

void devrt_release(uintptr_t of) {
  handle* released = (handle*)of;
  storage* held = released->storage;
  if (core_is_forked(held->core)) return;
  if (released->is_view) {
    release_view(released);
  } else if (!atomic_load(&released->is_deleted)) {
    atomic_fetch_sub(&held->open, 1);
  }
  /* With the last share the buffer itself goes, and its memory with it. */
  if (atomic_load(&held->shares) > 1) free_memory(held);
  drop_storage(held);
  free(released);
}

int devrt_is_deleted(uintptr_t of) {
  const handle* viewed = (const handle*)of;
  return atomic_load(&viewed->is_deleted) || atomic_load(&viewed->storage->is_gone);
}

/* Pins go up before the flags are read and deletes set flags before they read pins: whichever is
 * second sees the other. */
int pin(devrt_core* core, handle* h) {
  storage* held = h->storage;
  if (held->core != core) return DEVRT_STALE;
  atomic_fetch_add(&held->pins, 1);
  if (!atomic_load(&h->is_deleted) && !atomic_load(&held->is_gone)) return DEVRT_OK;
  unpin(h);
  return DEVRT_DELETED;
}

void unpin(handle* h) {
  if (atomic_fetch_sub(&h->storage->pins, 1) == 1 && atomic_load(&h->storage->open) == 0) {
    free_memory(h->storage);
  }
}

int devrt_pin(devrt_core* core, uintptr_t of, PJRT_Buffer** buffer) {
  int status = devrt_core_enter(core);
  if (status != DEVRT_OK) return status;
  status = pin(core, (handle*)of);
  if (status != DEVRT_OK) {
    devrt_core_leave(core);
    return status;
  }
  *buffer = ((handle*)of)->storage->buffer;
  return DEVRT_OK;
}

void devrt_unpin(devrt_core* core, uintptr_t of) {
  unpin((handle*)of);
  devrt_core_leave(core);
}

static int finish_put(devrt_core* core, PJRT_Client_BufferFromHostBuffer_Args* args, int64_t token,
                      devrt_result* result) {
  result->error = core->api->PJRT_Client_BufferFromHostBuffer(args);
  if (result->error != NULL) return DEVRT_FAILED;
  result->handle = devrt_adopt(core, args->buffer);
  result->kept = 0;
  if (args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall) {
    destroy_event(core->api, args->done_with_host_buffer);
  } else if (args->done_with_host_buffer != NULL) {
    PJRT_Error* error = NULL;
    devrt_watch* watch =
        devrt_watch_make(core->api, args->done_with_host_buffer, core, token, &error);
    destroy_error(core->api, error);
    if (watch != NULL) devrt_watch_release(watch);
    result->kept = 1; /* for good where the event cannot be watched */
  }
  return result->handle != 0 ? DEVRT_OK : DEVRT_NO_MEMORY;
}

int devrt_put(devrt_core* core, PJRT_Client_BufferFromHostBuffer_Args* args, int64_t token,
              devrt_result* result) {
  int status = devrt_core_enter(core);
  if (status != DEVRT_OK) return status;
  args->client = core->client;
  status = finish_put(core, args, token, result);
  devrt_core_leave(core);
  return status;
}

int devrt_put_dense(devrt_core* core, const void* data, int type, const int64_t* dims,
                    size_t num_dims, int semantics, PJRT_Device* device, PJRT_Memory* memory,
                    int64_t token, devrt_result* result) {
  PJRT_Client_BufferFromHostBuffer_Args args = {
      .struct_size = DEVRT_SIZE(PJRT_Client_BufferFromHostBuffer_Args, buffer),
      .data = data,
      .type = (PJRT_Buffer_Type)type,
      .dims = dims,
      .num_dims = num_dims,
      .host_buffer_semantics = (PJRT_HostBufferSemantics)semantics,
      .device = device,
      .memory = memory,
  };
  return devrt_put(core, &args, token, result);
}

typedef struct lent {
  outbox* box;
  int64_t token;
} lent;

static void give_back(void* data, void* user_arg) {
  (void)data;
  lent* what = user_arg;
  outbox_put(what->box, what->token);
  outbox_release(what->box);
  free(what);
}

int devrt_view(devrt_core* core, const devrt_view_spec* spec, devrt_result* result) {
  int status = devrt_core_enter(core);
  if (status != DEVRT_OK) return status;
  lent* what = malloc(sizeof(*what));
  if (what == NULL) {
    devrt_core_leave(core);
    return DEVRT_NO_MEMORY;
  }
  what->box = outbox_share(core);
  what->token = spec->token;
  PJRT_Client_CreateViewOfDeviceBuffer_Args args = {
      .struct_size = DEVRT_SIZE(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory),
      .client = core->client,
      .device_buffer_ptr = spec->data,
      .dims = spec->dims,
      .num_dims = spec->num_dims,
      .element_type = spec->type,
      .device = spec->device,
      .on_delete_callback = give_back,
      .on_delete_callback_arg = what,
      .stream = spec->stream,
      .memory = spec->memory,
  };
  result->error = core->api->PJRT_Client_CreateViewOfDeviceBuffer(&args);
  if (result->error != NULL) {
    outbox_release(what->box);
    free(what);
    status = DEVRT_FAILED;
  } else {
    result->handle = devrt_adopt(core, args.buffer);
    result->kept = 1;
    status = result->handle != 0 ? DEVRT_OK : DEVRT_NO_MEMORY;
  }
  devrt_core_leave(core);
  return status;
}

static PJRT_Error* ready_event(storage* of, PJRT_Event** event) {
  ARGS(Buffer_ReadyEvent, event, args, .buffer = of->buffer);
  PJRT_Error* error = of->core->api->PJRT_Buffer_ReadyEvent(&args);
  *event = args.event;
  return error;
}

/* Returns whether an event is ready, and then its error; an error of asking counts as ready. */
static int ask_event(const PJRT_Api* api, PJRT_Event* event, PJRT_Error** error) {
  ARGS(Event_IsReady, is_ready, ready, .event = event);
  *error = api->PJRT_Event_IsReady(&ready);
  if (*error != NULL) return 1;
  if (!ready.is_ready) return 0;
  ARGS(Event_Error, event, args, .event = event);
  *error = api->PJRT_Event_Error(&args);
  return 1;
}

/* Returns the one watch of a storage, or null where the event was ready at once. */
static devrt_watch* watch_of(storage* of, PJRT_Error** error) {
  devrt_watch* known = atomic_load(&of->watch);
  if (known != NULL) return known;
  PJRT_Event* event = NULL;
  *error = ready_event(of, &event);
  if (*error != NULL) return NULL;
  if (ask_event(of->core->api, event, error)) {
    destroy_event(of->core->api, event);
    return NULL;
  }
  devrt_watch* made = devrt_watch_make(of->core->api, event, NULL, 0, error);
  if (made == NULL) return NULL;
  if (!atomic_compare_exchange_strong(&of->watch, &known, made)) {
    devrt_watch_release(made);
    return known;
  }
  return made;
}

/* An error of `result` is the caller's if `kept` is 0, and the storage's otherwise. */
int wait_for(storage* of, int timeout_ms, devrt_result* result) {
  result->error = NULL;
  result->kept = 0;
  if (atomic_load_explicit(&of->is_ready, memory_order_acquire)) return DEVRT_OK;
  devrt_watch* watch = watch_of(of, &result->error);
  int status = result->error == NULL ? DEVRT_OK : DEVRT_FAILED;
  if (watch != NULL) {
    status = devrt_watch_wait(watch, timeout_ms, &result->error);
    result->kept = 1;
  }
  if (status == DEVRT_OK) atomic_store_explicit(&of->is_ready, 1, memory_order_release);
  return status;
}

int devrt_wait(devrt_core* core, uintptr_t of, int timeout_ms, devrt_result* result) {
  PJRT_Buffer* buffer;
  int status = devrt_pin(core, of, &buffer);
  if (status != DEVRT_OK) return status;
  status = wait_for(((handle*)of)->storage, timeout_ms, result);
  devrt_unpin(core, of);
  return status;
}

static int address_of(storage* of, devrt_result* result) {
  ARGS(Buffer_UnsafePointer, buffer_pointer, args, .buffer = of->buffer);
  result->error = of->core->api->PJRT_Buffer_UnsafePointer(&args);
  result->handle = args.buffer_pointer;
  return result->error == NULL ? DEVRT_OK : DEVRT_FAILED;
}

/* Copies host-visible memory once it is ready; with no target it only tells the address. */
int devrt_read(devrt_core* core, uintptr_t of, void* target, size_t size, devrt_result* result) {
  PJRT_Buffer* buffer;
  int status = devrt_pin(core, of, &buffer);
  if (status != DEVRT_OK) return status;
  storage* source = ((handle*)of)->storage;
  status = wait_for(source, 0, result);
  if (status == DEVRT_OK) {
    status = address_of(source, result);
    if (status == DEVRT_OK && target != NULL) memcpy(target, (const void*)result->handle, size);
  }
  devrt_unpin(core, of);
  return status;
}
