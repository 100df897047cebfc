/* Running a loaded executable on one device or several. */
#include "internal.h"

enum { kOnStack = 64 };

static size_t pin_all(devrt_core* core, const uintptr_t* handles, size_t count, int* status) {
  size_t done = 0;
  *status = DEVRT_OK;
  for (; done < count; ++done) {
    *status = pin(core, (handle*)handles[done]);
    if (*status != DEVRT_OK) break;
  }
  return done;
}

static void unpin_all(const uintptr_t* handles, size_t count) {
  for (size_t i = 0; i < count; ++i) unpin((handle*)handles[i]);
}

int devrt_is_shared(uintptr_t of) {
  const storage* it = ((const handle*)of)->storage;
  return atomic_load(&it->open) > 1 || atomic_load(&it->views) > 0 || atomic_load(&it->pins) > 1;
}

/* An argument that another handle or a view shares must not be written to. */
static size_t find_shared(const devrt_execution* run, const uintptr_t* arguments, int64_t* shared) {
  size_t count = 0;
  for (size_t i = 0; i < run->num_donated; ++i) {
    int found = 0;
    for (size_t device = 0; device < run->num_devices && !found; ++device) {
      const uintptr_t of = arguments[device * run->num_args + (size_t)run->donated[i]];
      found = devrt_is_shared(of);
    }
    if (found) shared[count++] = run->donated[i];
  }
  return count;
}

/* Marks the arguments that the plugin took over. */
static void mark_donated(devrt_core* core, const devrt_execution* run, const uintptr_t* arguments) {
  for (size_t i = 0; i < run->num_donated; ++i) {
    for (size_t device = 0; device < run->num_devices; ++device) {
      storage* of = ((handle*)arguments[device * run->num_args + (size_t)run->donated[i]])->storage;
      ARGS(Buffer_IsDeleted, is_deleted, args, .buffer = of->buffer);
      PJRT_Error* error = core->api->PJRT_Buffer_IsDeleted(&args);
      if (error == NULL && args.is_deleted) {
        atomic_store(&of->is_taken, 1);
        atomic_store(&of->is_gone, 1);
      }
      destroy_error(core->api, error);
    }
  }
}

static PJRT_Error* call(devrt_core* core, const devrt_execution* run, PJRT_ExecuteOptions* options,
                        PJRT_Buffer* const* const* arguments, PJRT_Buffer** const* outputs,
                        PJRT_Event** events) {
  PJRT_LoadedExecutable_Execute_Args args = {
      .struct_size = DEVRT_SIZE(PJRT_LoadedExecutable_Execute_Args, execute_device),
      .executable = run->executable,
      .options = options,
      .argument_lists = arguments,
      .num_devices = run->num_devices,
      .num_args = run->num_args,
      .output_lists = outputs,
      .device_complete_events = events,
  };
  if (run->devices == NULL) return core->api->PJRT_LoadedExecutable_Execute(&args);
  if (!run->one_by_one) {
    args.execute_device = run->devices[0];
    return core->api->PJRT_LoadedExecutable_Execute(&args);
  }
  PJRT_Error* error = NULL;
  args.num_devices = 1;
  for (size_t i = 0; i < run->num_devices && error == NULL; ++i) {
    args.argument_lists = arguments + i;
    args.output_lists = outputs + i;
    args.device_complete_events = events == NULL ? NULL : events + i;
    args.execute_device = run->devices[i];
    error = core->api->PJRT_LoadedExecutable_Execute(&args);
  }
  return error;
}

/* Looks whether the arguments are there without an error. One that is not leaves the other devices
 * waiting in a collective for ever, and the client with them. */
static int find_missing(const devrt_execution* run, const uintptr_t* arguments,
                        devrt_result* result) {
  for (size_t i = 0; i < run->num_devices * run->num_args; ++i) {
    storage* of = ((handle*)arguments[i])->storage;
    devrt_result found;
    const int status = wait_for(of, 0, &found);
    if (status == DEVRT_OK) continue;
    if (found.error != NULL && !found.kept) destroy_error(of->core->api, found.error);
    result->index = i;
    return status == DEVRT_WAITING && of->is_promised ? DEVRT_PROMISED : DEVRT_WAITING;
  }
  return DEVRT_OK;
}

/* Whether the results depend on data that the program has yet to send. */
static int is_promised(const devrt_execution* run, const uintptr_t* arguments) {
  for (size_t i = 0; i < run->num_devices * run->num_args; ++i) {
    const storage* of = ((handle*)arguments[i])->storage;
    if (of->is_promised && !atomic_load(&of->is_ready)) return 1;
  }
  return 0;
}

static void destroy_outputs(devrt_core* core, PJRT_Buffer** made, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (made[i] != NULL) destroy_buffer(core->api, made[i]);
  }
}

static int adopt_outputs(devrt_core* core, PJRT_Buffer** made, size_t count, int promised,
                         uintptr_t* outputs) {
  int status = DEVRT_OK;
  for (size_t i = 0; i < count; ++i) {
    outputs[i] = (promised ? devrt_adopt_promised : devrt_adopt)(core, made[i]);
    if (outputs[i] == 0) status = DEVRT_NO_MEMORY;
  }
  return status;
}

typedef struct lists {
  PJRT_Buffer** buffers; /* all arguments, by device */
  PJRT_Buffer** made;    /* all outputs, by device */
  PJRT_Buffer* const** by_device;
  PJRT_Buffer*** made_by_device;
  int64_t* shared;
  PJRT_Event** events; /* null: nobody asks when it ends */
} lists;

static int run_pinned(devrt_core* core, const devrt_execution* run, const uintptr_t* arguments,
                      uintptr_t* outputs, lists* of, devrt_result* result) {
  for (size_t i = 0; i < run->num_devices * run->num_args; ++i) {
    of->buffers[i] = ((handle*)arguments[i])->storage->buffer;
  }
  for (size_t i = 0; i < run->num_devices; ++i) {
    of->by_device[i] = of->buffers + i * run->num_args;
    of->made_by_device[i] = of->made + i * run->num_outputs;
  }
  PJRT_ExecuteOptions options = {
      .struct_size = DEVRT_SIZE(PJRT_ExecuteOptions, num_hlo_output_callbacks),
      .launch_id = run->launch_id,
      .non_donatable_input_indices = of->shared,
      .num_non_donatable_input_indices = find_shared(run, arguments, of->shared),
      .context = core->context,
  };
  const size_t count = run->num_devices * run->num_outputs;
  const int promised = is_promised(run, arguments);
  result->error = call(core, run, &options, of->by_device,
                       (PJRT_Buffer * * const*)of->made_by_device, of->events);
  if (run->num_donated > 0) mark_donated(core, run, arguments);
  if (result->error == NULL) return adopt_outputs(core, of->made, count, promised, outputs);
  if (run->one_by_one) destroy_outputs(core, of->made, count);
  return DEVRT_FAILED;
}

/* Lets the caller wait for each device's end. The events are taken over. */
static void watch_all(devrt_core* core, const devrt_execution* run, PJRT_Event** events) {
  for (size_t i = 0; i < run->num_devices; ++i) {
    PJRT_Error* error = NULL;
    if (events[i] != NULL) {
      run->watches[i] = devrt_watch_make(core->api, events[i], NULL, 0, &error);
    }
    destroy_error(core->api, error);
  }
}

static int run_watched(devrt_core* core, const devrt_execution* run, const uintptr_t* arguments,
                       uintptr_t* outputs, lists* of, devrt_result* result) {
  const int status = run_pinned(core, run, arguments, outputs, of, result);
  if (of->events == NULL) return status;
  if (status == DEVRT_OK) {
    watch_all(core, run, of->events);
  } else {
    for (size_t i = 0; i < run->num_devices; ++i) destroy_event(core->api, of->events[i]);
  }
  return status;
}

/* One after the other: of several at once each may have some of the threads that the plugin has for
 * all devices, and none of them all that it needs. */
static int run_serially(devrt_core* core, const devrt_execution* run, const uintptr_t* arguments,
                        uintptr_t* outputs, lists* of, devrt_result* result) {
  enum { kSlice = 100 };
  int status = find_missing(run, arguments, result);
  if (status != DEVRT_OK) return status;
  if (gate_is_inside()) return run_watched(core, run, arguments, outputs, of, result);
  pthread_mutex_lock(&core->serial);
  status = serial_wait(core, kSlice);
  if (status == DEVRT_OK) {
    status = run_pinned(core, run, arguments, outputs, of, result);
    if (status == DEVRT_OK) serial_take(core, of->events, run);
  } else {
    result->index = run->num_devices * run->num_args; /* none of them */
  }
  pthread_mutex_unlock(&core->serial);
  return status;
}

/* Lets a caller run ahead of its donations by so many programs: the plugin has a bound of its own,
 * at which it waits deaf to signals. */
static int wait_for_donations(devrt_core* core, const devrt_execution* run) {
  enum { kMost = 24, kSlice = 100 };
  if (run->num_donated == 0 || gate_is_inside()) return DEVRT_OK;
  return devrt_core_settle(core, kMost * run->num_donated * run->num_devices, kSlice);
}

int devrt_execute(devrt_core* core, const devrt_execution* run, const uintptr_t* arguments,
                  uintptr_t* outputs, devrt_result* result) {
  if (wait_for_donations(core, run) != DEVRT_OK) return DEVRT_BUSY;
  int status = devrt_core_enter(core);
  if (status != DEVRT_OK) return status;
  const size_t num_in = run->num_devices * run->num_args;
  const size_t num_out = run->num_devices * run->num_outputs;
  const size_t words = num_in + num_out + 3 * run->num_devices + run->num_donated;
  void* on_stack[kOnStack];
  void** memory = words <= kOnStack ? on_stack : malloc(words * sizeof(void*));
  if (memory == NULL) {
    devrt_core_leave(core);
    return DEVRT_NO_MEMORY;
  }
  memset(memory, 0, words * sizeof(void*));
  lists of = {
      .buffers = (PJRT_Buffer**)memory,
      .made = (PJRT_Buffer**)(memory + num_in),
      .by_device = (PJRT_Buffer* const**)(memory + num_in + num_out),
      .made_by_device = (PJRT_Buffer***)(memory + num_in + num_out + run->num_devices),
      .shared = (int64_t*)(memory + num_in + num_out + 2 * run->num_devices),
  };
  const size_t pinned = pin_all(core, arguments, num_in, &status);
  result->index = pinned;
  if (run->watches != NULL || (run->needs_arrived && !gate_is_inside())) {
    of.events = (PJRT_Event**)(memory + num_in + num_out + 2 * run->num_devices + run->num_donated);
  }
  if (status == DEVRT_OK) {
    status = (run->needs_arrived ? run_serially : run_watched)(core, run, arguments, outputs, &of,
                                                               result);
  }
  unpin_all(arguments, pinned);
  if (memory != on_stack) free(memory);
  devrt_core_leave(core);
  return status;
}

/* With one output and no memory for it, it goes into the result. */
int devrt_execute_one(devrt_core* core, PJRT_LoadedExecutable* executable,
                      const uintptr_t* arguments, size_t num_args, uintptr_t* outputs,
                      size_t num_outputs, devrt_result* result) {
  const devrt_execution run = {
      .executable = executable,
      .num_devices = 1,
      .num_args = num_args,
      .num_outputs = num_outputs,
  };
  return devrt_execute(core, &run, arguments, outputs != NULL ? outputs : &result->handle, result);
}
