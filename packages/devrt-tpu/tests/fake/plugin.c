/* A PJRT plugin for tests: one device, host memory, and failures on request.
 *
 * The environment says how it behaves when it is opened:
 *   FAKE_MAJOR, FAKE_MINOR   the version that it claims
 *   FAKE_STRUCT_SIZE         the size that its table claims (an old plugin's)
 *   FAKE_NO_TABLE            GetPjrtApi returns null
 *   FAKE_FAIL                a function's name that fails with code 13
 *   FAKE_CODE                that failure's code
 *   FAKE_NEVER               buffers are never ready
 *   FAKE_SLOW                buffers are ready after so many milliseconds
 *   FAKE_LOG                 what it writes to standard error (noise.h)
 *   FAKE_KV                  what is done with the key-value store (keyvalue.h)
 *   FAKE_LAYOUTS             what is done with layouts (layouts.h)
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devrt/pjrt/c_api/pjrt_c_api.h"

struct PJRT_Error {
  PJRT_Error_Code code;
  char message[200];
};
struct PJRT_Event {
  int is_ready;
  PJRT_Event_OnReadyCallback callback;
  void* arg;
};
struct PJRT_Buffer {
  PJRT_Buffer_Type type;
  int64_t dims[8], order[8];
  size_t num_dims;
  size_t bytes;
  char* data;
  int is_deleted;
};
struct PJRT_Client {
  int unused;
};
struct PJRT_Device {
  int unused;
};
struct PJRT_Memory {
  int unused;
};
struct PJRT_DeviceDescription {
  int unused;
};

static PJRT_Device device;
static PJRT_Memory memory;
static PJRT_DeviceDescription description;
static PJRT_Device* devices[] = {&device};
static PJRT_Memory* memories[] = {&memory};
static int live_buffers, live_events, live_clients, live_errors, destroyed_twice;

static PJRT_Error* fail(PJRT_Error_Code code, const char* what) {
  PJRT_Error* error = calloc(1, sizeof(*error));
  error->code = code;
  snprintf(error->message, sizeof(error->message), "fake failure of %s", what);
  __atomic_add_fetch(&live_errors, 1, __ATOMIC_SEQ_CST);
  return error;
}

static PJRT_Error* requested_to_fail(const char* name) {
  const char* wanted = getenv("FAKE_FAIL");
  if (wanted == NULL || strcmp(wanted, name) != 0) return NULL;
  const char* code = getenv("FAKE_CODE");
  return fail(code != NULL ? (PJRT_Error_Code)atoi(code) : PJRT_Error_Code_INTERNAL, name);
}

#define BEGIN(name)                               \
  PJRT_Error* failure = requested_to_fail(#name); \
  if (failure != NULL) return failure

/* A function that succeeds once it has given its answers. */
#define GIVE(function, ...)                                   \
  static PJRT_Error* function(PJRT_##function##_Args* args) { \
    __VA_ARGS__;                                              \
    return NULL;                                              \
  }

static void Error_Destroy(PJRT_Error_Destroy_Args* args) {
  if (args->error == NULL) return;
  __atomic_sub_fetch(&live_errors, 1, __ATOMIC_SEQ_CST);
  free(args->error);
}
static void Error_Message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message;
  args->message_size = strlen(args->error->message);
}
GIVE(Error_GetCode, args->code = args->error->code)
GIVE(Error_ForEachPayload, args->visitor("fake/url", 8, "data", 4, args->user_arg))
#include "layouts.h"
#include "noise.h"

GIVE(Plugin_Initialize, (void)args; change_process(); BEGIN(Plugin_Initialize))
static PJRT_Error* Plugin_Attributes(PJRT_Plugin_Attributes_Args* args) {
  BEGIN(Plugin_Attributes);
  static int64_t numbers[] = {1, 2, 3};
#define VALUE(text, kind, size, ...) \
  {.name = text,                     \
   .name_size = sizeof(text) - 1,    \
   .type = PJRT_NamedValue_k##kind,  \
   .value_size = size,               \
   __VA_ARGS__}
  static PJRT_NamedValue values[5] = {
      VALUE("text", String, 5, .string_value = "hello"),
      VALUE("number", Int64, 1, .int64_value = -7),
      VALUE("list", Int64List, 3, .int64_array_value = numbers),
      VALUE("real", Float, 1, .float_value = 1.5f),
      VALUE("flag", Bool, 1, .bool_value = true),
  };
  args->attributes = values;
  args->num_attributes = 5;
  return NULL;
}

static PJRT_Event* make_event(int is_ready) {
  PJRT_Event* event = calloc(1, sizeof(*event));
  event->is_ready = is_ready;
  __atomic_add_fetch(&live_events, 1, __ATOMIC_SEQ_CST);
  return event;
}
static PJRT_Error* Event_Destroy(PJRT_Event_Destroy_Args* args) {
  __atomic_sub_fetch(&live_events, 1, __ATOMIC_SEQ_CST);
  free(args->event);
  return NULL;
}
GIVE(Event_IsReady, args->is_ready = args->event->is_ready)
GIVE(Event_Error, (void)args; BEGIN(Event))
static void* later(void* arg) {
  PJRT_Event* event = arg;
  usleep(1000 * (unsigned)atoi(getenv("FAKE_SLOW")));
  PJRT_Event_OnReadyCallback callback = event->callback;
  callback(requested_to_fail("Event"), event->arg);
  return NULL;
}
static PJRT_Error* Event_OnReady(PJRT_Event_OnReady_Args* args) {
  BEGIN(Event_OnReady);
  if (args->event->is_ready) {
    args->callback(requested_to_fail("Event"), args->user_arg);
    return NULL;
  }
  args->event->callback = args->callback;
  args->event->arg = args->user_arg;
  if (getenv("FAKE_SLOW") != NULL) {
    pthread_t thread;
    pthread_create(&thread, NULL, later, args->event);
    pthread_detach(thread);
  }
  return NULL;
}

#include "keyvalue.h"

static PJRT_Error* Client_Create(PJRT_Client_Create_Args* args) {
  make_noise();
  BEGIN(Client_Create);
  PJRT_Error* refused = use_store(args);
  if (refused != NULL) return refused;
  args->client = calloc(1, sizeof(*args->client));
  ++live_clients;
  return NULL;
}
static PJRT_Error* Client_Destroy(PJRT_Client_Destroy_Args* args) {
  if (live_clients <= 0) ++destroyed_twice;
  --live_clients;
  free(args->client);
  return NULL;
}
GIVE(Client_PlatformName, BEGIN(Client_PlatformName); args->platform_name = "fake";
     args->platform_name_size = 4)
GIVE(Client_PlatformVersion, args->platform_version = "fake 1"; args->platform_version_size = 6)
GIVE(Client_ProcessIndex, args->process_index = 0)
GIVE(Client_Devices, BEGIN(Client_Devices); args->devices = devices;
     args->num_devices = getenv("FAKE_NO_DEVICES") == NULL)
GIVE(Client_AddressableMemories, args->addressable_memories = memories;
     args->num_addressable_memories = 1)
static PJRT_Error* Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* args) {
  BEGIN(Client_BufferFromHostBuffer);
  if (args->num_byte_strides > 0) return fail(PJRT_Error_Code_UNIMPLEMENTED, "strides");
  PJRT_Buffer* made = calloc(1, sizeof(*made));
  made->type = args->type;
  made->num_dims = args->num_dims;
  made->bytes = 4;
  for (size_t i = 0; i < args->num_dims; ++i) {
    made->dims[i] = args->dims[i];
    made->bytes *= (size_t)args->dims[i];
  }
  made->data = malloc(made->bytes + 1);
  memcpy(made->data, args->data, made->bytes);
  lay_out(made, args->device_layout);
  args->buffer = made;
  args->done_with_host_buffer = make_event(1);
  __atomic_add_fetch(&live_buffers, 1, __ATOMIC_SEQ_CST);
  return NULL;
}
GIVE(DeviceDescription_Id, args->id = 0)
GIVE(DeviceDescription_ProcessIndex, args->process_index = 0)
GIVE(DeviceDescription_Attributes, args->num_attributes = 0)
GIVE(DeviceDescription_Kind, args->device_kind = "fake kind"; args->device_kind_size = 9)
GIVE(DeviceDescription_DebugString, args->debug_string = "fake"; args->debug_string_size = 4)
GIVE(DeviceDescription_ToString, args->to_string = "fake"; args->to_string_size = 4)
GIVE(Device_GetDescription, args->device_description = &description)
GIVE(Device_IsAddressable, args->is_addressable = true)
GIVE(Device_LocalHardwareId, args->local_hardware_id = 0)
GIVE(Device_AddressableMemories, args->memories = memories; args->num_memories = 1)
GIVE(Device_DefaultMemory, args->memory = &memory)
static PJRT_Error* Device_MemoryStats(PJRT_Device_MemoryStats_Args* args) {
  BEGIN(Device_MemoryStats);
  args->bytes_in_use = 42;
  args->bytes_limit = 100;
  args->bytes_limit_is_set = true;
  return NULL;
}
GIVE(Memory_Id, args->id = 0)
GIVE(Memory_Kind, args->kind = "device"; args->kind_size = 6)
GIVE(Memory_ToString, args->to_string = "fake memory"; args->to_string_size = 11)
static PJRT_Error* Buffer_Destroy(PJRT_Buffer_Destroy_Args* args) {
  if (__atomic_sub_fetch(&live_buffers, 1, __ATOMIC_SEQ_CST) < 0) ++destroyed_twice;
  free(args->buffer->data);
  free(args->buffer);
  return NULL;
}
GIVE(Buffer_Delete, args->buffer->is_deleted = 1)
GIVE(Buffer_IsDeleted, args->is_deleted = args->buffer->is_deleted)
GIVE(Buffer_IsOnCpu, args->is_on_cpu = getenv("FAKE_OFF_HOST") == NULL)
GIVE(Buffer_UnsafePointer, BEGIN(Buffer_UnsafePointer);
     args->buffer_pointer = (uintptr_t)args->buffer->data)
GIVE(Buffer_ReadyEvent, BEGIN(Buffer_ReadyEvent);
     args->event = make_event(getenv("FAKE_NEVER") == NULL && getenv("FAKE_SLOW") == NULL))
#include "copies.h"
GIVE(Buffer_ToHostBuffer, BEGIN(Buffer_ToHostBuffer); ++transfers;
     fetch_laid_out(args->src, args->host_layout, args->dst); args->event = make_event(1))

static PJRT_Api api = {
    .struct_size = sizeof(PJRT_Api),
    .pjrt_api_version = {.struct_size = sizeof(PJRT_Api_Version),
                         .major_version = PJRT_API_MAJOR,
                         .minor_version = PJRT_API_MINOR},
#define SET(name) .PJRT_##name = name
    SET(Error_Destroy),
    SET(Error_Message),
    SET(Error_GetCode),
    SET(Error_ForEachPayload),
    SET(Plugin_Initialize),
    SET(Plugin_Attributes),
    SET(Event_Destroy),
    SET(Event_IsReady),
    SET(Event_Error),
    SET(Event_OnReady),
    SET(Client_Create),
    SET(Client_Destroy),
    SET(Client_PlatformName),
    SET(Client_PlatformVersion),
    SET(Client_ProcessIndex),
    SET(Client_Devices),
    SET(Client_AddressableMemories),
    SET(Client_BufferFromHostBuffer),
    SET(DeviceDescription_Id),
    SET(DeviceDescription_ProcessIndex),
    SET(DeviceDescription_Attributes),
    SET(DeviceDescription_Kind),
    SET(DeviceDescription_DebugString),
    SET(DeviceDescription_ToString),
    SET(Device_GetDescription),
    SET(Device_IsAddressable),
    SET(Device_LocalHardwareId),
    SET(Device_AddressableMemories),
    SET(Device_DefaultMemory),
    SET(Device_MemoryStats),
    SET(Memory_Id),
    SET(Memory_Kind),
    SET(Memory_ToString),
    SET(Buffer_Destroy),
    SET(Buffer_Delete),
    SET(Buffer_IsDeleted),
    SET(Buffer_IsOnCpu),
    SET(Buffer_UnsafePointer),
    SET(Buffer_ReadyEvent),
    SET(Buffer_ToHostBuffer),
    SET(Buffer_CopyToMemory),
    SET(Buffer_Bitcast),
    SET(Buffer_GetMemoryLayout),
};

const PJRT_Api* GetPjrtApi(void) {
  if (getenv("FAKE_NO_TABLE") != NULL) return NULL;
  if (getenv("FAKE_MAJOR") != NULL) api.pjrt_api_version.major_version = atoi(getenv("FAKE_MAJOR"));
  if (getenv("FAKE_MINOR") != NULL) api.pjrt_api_version.minor_version = atoi(getenv("FAKE_MINOR"));
  if (getenv("FAKE_STRUCT_SIZE") != NULL)
    api.struct_size = (size_t)atoi(getenv("FAKE_STRUCT_SIZE"));
  return &api;
}

/* What is alive: the test asks at the end. */
void fake_counts(int* counts) {
  counts[0] = live_clients;
  counts[1] = live_buffers;
  counts[2] = live_events;
  counts[3] = live_errors;
  counts[4] = destroyed_twice;
}
