/* What devrt_pjrt's native module offers to its Python half beside the PJRT C API itself.
 *
 * Plain C declarations, as cffi reads them too. Every call of the hot path is one function here,
 * and each runs without the GIL. Nothing in this folder ever takes the GIL on a plugin's thread.
 *
 * A core is one PJRT client and counts who uses it: the client is destroyed when the last share of
 * the core is gone, so a buffer, a view or an event may outlive it being closed. A handle is one
 * Python buffer's share of a storage; a storage is one PJRT_Buffer.
 */
#ifndef DEVRT_PJRT_SHIM_H_
#define DEVRT_PJRT_SHIM_H_

#include "devrt/pjrt/c_api/pjrt_c_api.h"

/* How a call ended; DEVRT_FAILED comes with an error of the plugin. */
enum {
  DEVRT_OK = 0,
  DEVRT_FAILED = 1,
  DEVRT_CLOSED = 2,
  DEVRT_FORKED = 3,
  DEVRT_DELETED = 4,
  DEVRT_WAITING = 5,
  DEVRT_NO_MEMORY = 6,
  DEVRT_STALE = 7,
  DEVRT_PROMISED = 8,
  DEVRT_BUSY = 9,
};

typedef struct devrt_core devrt_core;
typedef struct devrt_watch devrt_watch;

/* What a call gives back. `kept`: the source must live until its token is finished. */
typedef struct devrt_result {
  uintptr_t handle;
  PJRT_Error* error;
  size_t index;
  int kept;
} devrt_result;

/* Memory that a buffer is made of; its token is finished when the buffer is gone. */
typedef struct devrt_view_spec {
  void* data;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_Type type;
  PJRT_Device* device;
  PJRT_Memory* memory;
  intptr_t stream;
  int64_t token;
} devrt_view_spec;

typedef struct devrt_execution {
  PJRT_LoadedExecutable* executable;
  size_t num_devices;
  size_t num_args;
  size_t num_outputs;
  PJRT_Device** devices; /* null: the executable's own */
  const int64_t* donated;
  size_t num_donated;
  int one_by_one;    /* a single-device call for each device */
  int needs_arrived; /* all arguments must be there: their devices may wait for each other */
  int is_collective; /* they do for certain */
  int launch_id;
  devrt_watch** watches; /* gets one for each device's end; null: nobody asks */
} devrt_execution;

/* What a plugin asks of the cluster's key-value store, and what Python answers: a value that the
 * plugin frees, or a code other than 0 and its message. */
enum { DEVRT_GET = 0, DEVRT_TRY_GET = 1, DEVRT_PUT = 2 };

typedef struct devrt_question {
  int what;
  intptr_t store;
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  int timeout_ms;
} devrt_question;

typedef struct devrt_answer {
  int code;
  char* data;
  size_t size;
} devrt_answer;

/* ending.c */
void devrt_busy(int change); /* how many more calls nobody may be waiting for */
void devrt_end_on_demand(void);
void devrt_watch_interrupts(int is_new); /* counts them, from 0 on if `is_new` */
void devrt_note_interrupt(void);         /* one ended a wait */
int devrt_is_pressed_again(void);        /* whether another one came */
uintptr_t devrt_finish_address(void);    /* for Py_AtExit */

/* callbacks.c */
int devrt_is_inside(void); /* whether a plugin has called this thread */
void devrt_set_store(PJRT_Client_Create_Args* args, intptr_t store);
int devrt_gate_shut(int timeout_ms);
char* devrt_bytes(size_t size); /* malloc, and one byte more for a zero */

/* A device's or a memory's description. Where a call fails, its name and perhaps an error. */
typedef struct devrt_description {
  int id;
  int process_index;
  const char* kind;
  size_t kind_size;
  const char* text;
  size_t text_size;
  const char* debug;
  size_t debug_size;
  const PJRT_NamedValue* attributes;
  size_t num_attributes;
  const char* function_name;
  PJRT_Error* error;
} devrt_description;

/* snapshot.c: DEVRT_STALE where the plugin's table does not have the function */
int devrt_describe_device(const PJRT_Api* api, PJRT_DeviceDescription* device,
                          devrt_description* row);

/* All that a plugin says of a client, in memory of its own that outlives the client. Memories are
 * named by their place among the client's, and SIZE_MAX is one that is not there. */
typedef struct devrt_memory_row {
  PJRT_Memory* pointer;
  devrt_description about;
} devrt_memory_row;

typedef struct devrt_device_row {
  PJRT_Device* pointer;
  devrt_description about;
  int is_addressable;
  int hardware_id;
  size_t default_memory;
  size_t num_memories;
  size_t* memories;
} devrt_device_row;

typedef struct devrt_snapshot {
  devrt_description about; /* kind: the platform's name; text: its version */
  size_t num_memories;
  devrt_memory_row* memories;
  size_t num_devices;
  devrt_device_row* devices;
  void* blocks;
} devrt_snapshot;

/* snapshot.c */
int devrt_snapshot_make(const PJRT_Api* api, PJRT_Client* client, devrt_snapshot* snapshot);
void devrt_snapshot_free(devrt_snapshot* snapshot);

/* custom_call.c */
int devrt_slot_count(void);
int devrt_slot_is_device(int slot);
uintptr_t devrt_slot(int slot, int on_device);

/* library.c */
void* devrt_open(const char* path, int is_global, char* message, size_t size);
const PJRT_Api* devrt_find_api(void* library);
char** devrt_environ(void);
uintptr_t devrt_signal_handler(int number);

/* core.c */
devrt_core* devrt_core_make(const PJRT_Api* api, PJRT_Client* client);
void devrt_core_retire(devrt_core* core);
void devrt_core_drop(devrt_core* core);
void devrt_core_hold(devrt_core* core); /* keeps the client for a call that nobody waits for */
void devrt_core_let_go(devrt_core* core);
int devrt_core_enter(devrt_core* core);
void devrt_core_leave(devrt_core* core);
int devrt_core_close(devrt_core* core, int timeout_ms);
int devrt_core_is_stuck(devrt_core* core, int grace_ms);
size_t devrt_core_finished(devrt_core* core, int64_t* tokens, size_t capacity);
int devrt_was_forked(void);

/* release.c: waits until at most so many donated buffers are to be destroyed, and counts those that
 * were */
int devrt_core_settle(devrt_core* core, size_t most, int timeout_ms);
long devrt_core_settled(devrt_core* core);

/* watch.c */
devrt_watch* devrt_watch_make(const PJRT_Api* api, PJRT_Event* event, devrt_core* core,
                              int64_t token, PJRT_Error** error);
int devrt_watch_wait(devrt_watch* watch, int timeout_ms, PJRT_Error** error);
devrt_watch* devrt_watch_share(devrt_watch* watch);
void devrt_watch_release(devrt_watch* watch);

/* buffer.c */
uintptr_t devrt_adopt(devrt_core* core, PJRT_Buffer* buffer);
uintptr_t devrt_adopt_promised(devrt_core* core, PJRT_Buffer* buffer);
uintptr_t devrt_adopt_copy(devrt_core* core, PJRT_Buffer* buffer, uintptr_t source);
int devrt_put(devrt_core* core, PJRT_Client_BufferFromHostBuffer_Args* args, int64_t token,
              devrt_result* result);
int devrt_put_dense(devrt_core* core, const void* data, int type, const int64_t* dims,
                    size_t num_dims, int semantics, PJRT_Device* device, PJRT_Memory* memory,
                    int64_t token, devrt_result* result);
int devrt_view(devrt_core* core, const devrt_view_spec* spec, devrt_result* result);
uintptr_t devrt_clone(uintptr_t handle);
void devrt_release(uintptr_t handle);
void devrt_delete(uintptr_t handle);
int devrt_is_deleted(uintptr_t handle);
int devrt_is_shared(uintptr_t handle); /* by another handle, a view, or a second call */
int devrt_pin(devrt_core* core, uintptr_t handle, PJRT_Buffer** buffer);
void devrt_unpin(devrt_core* core, uintptr_t handle);
int devrt_wait(devrt_core* core, uintptr_t handle, int timeout_ms, devrt_result* result);
int devrt_read(devrt_core* core, uintptr_t handle, void* target, size_t size, devrt_result* result);
uintptr_t devrt_hold(uintptr_t handle);

/* buffer_protocol.c: 0, or -1 where Python's answer was an error, which is reported as ignored */
int devrt_lend_buffer_protocol(void);

/* execute.c */
int devrt_execute(devrt_core* core, const devrt_execution* execution, const uintptr_t* arguments,
                  uintptr_t* outputs, devrt_result* result);
int devrt_execute_one(devrt_core* core, PJRT_LoadedExecutable* executable,
                      const uintptr_t* arguments, size_t num_args, uintptr_t* outputs,
                      size_t num_outputs, devrt_result* result);

/* dlpack.c */

/* A tensor, as DLPack lays it out. */
typedef struct devrt_dlpack_view {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} devrt_dlpack_view;

void* devrt_dlpack_make(uintptr_t held, void* data, int device_type, int device_id,
                        const int64_t* dims, int num_dims, int code, int bits, int versioned,
                        uint64_t flags);
void* devrt_dlpack_destructor(int versioned);
void devrt_dlpack_free(void* managed, int versioned);
void* devrt_dlpack_tensor(void* managed, int versioned);

#endif /* DEVRT_PJRT_SHIM_H_ */
