/* A PJRT library for tests: another one, with one fault.
 *
 *   MUTANT_OF  the path of the library that it stands for
 *   MUTANT     the fault: a name of the table at the end; none, or "none", for a faithful one
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devrt/pjrt/c_api/pjrt_c_api.h"

static const PJRT_Api* real;
static PJRT_Api table;

/* A function with a fault: what is done before the real one is called, and after it. */
#define FAULT(name, function, before, ...)                 \
  static PJRT_Error* name(PJRT_##function##_Args* args) {  \
    before;                                                \
    PJRT_Error* const error = real->PJRT_##function(args); \
    if (error == NULL) {                                   \
      __VA_ARGS__;                                         \
    }                                                      \
    return error;                                          \
  }
#define INSTEAD(name, function, ...)                      \
  static PJRT_Error* name(PJRT_##function##_Args* args) { \
    __VA_ARGS__;                                          \
    return NULL;                                          \
  }

static void empty_message(PJRT_Error_Message_Args* args) {
  real->PJRT_Error_Message(args);
  args->message_size = 0;
}
INSTEAD(no_code, Error_GetCode, args->code = PJRT_Error_Code_OK)

typedef struct {
  PJRT_Event_OnReadyCallback callback;
  void* arg;
} Twice;
static void call_twice(PJRT_Error* error, void* arg) {
  Twice* const twice = arg;
  twice->callback(error, twice->arg);
  twice->callback(NULL, twice->arg);
}
static PJRT_Error* callback_twice(PJRT_Event_OnReady_Args* args) {
  PJRT_Event_OnReady_Args changed = *args;
  Twice* const twice = malloc(sizeof(*twice));
  twice->callback = args->callback;
  twice->arg = args->user_arg;
  changed.callback = call_twice;
  changed.user_arg = twice;
  return real->PJRT_Event_OnReady(&changed);
}
INSTEAD(never_ready, Event_IsReady, args->is_ready = false)
INSTEAD(await_nothing, Event_Await, (void)args)

static PJRT_NamedValue nameless[1] = {{.type = PJRT_NamedValue_kInt64, .value_size = 1}};
INSTEAD(nameless_attribute, Plugin_Attributes, args->attributes = nameless;
        args->num_attributes = 1)
FAULT(size_unchecked, Client_PlatformName, args->struct_size = sizeof(*args), )
static PJRT_Error* newer_refused(PJRT_Plugin_Attributes_Args* args) {
  if (args->struct_size > sizeof(*args)) args->struct_size = 0;
  return real->PJRT_Plugin_Attributes(args);
}

FAULT(process_1, Client_ProcessIndex, , args->process_index = 1)
FAULT(any_id, Client_LookupDevice, if (args->id != 1) args->id = 0, )
INSTEAD(one_id, DeviceDescription_Id, args->id = 0)
FAULT(no_kind, Memory_Kind, , args->kind_size = 0)
FAULT(far_devices, Device_IsAddressable, , args->is_addressable = false)
FAULT(assignment_overflows, Client_DefaultDeviceAssignment,
      args->default_assignment_size = (size_t)(args->num_replicas * args->num_partitions), )

FAULT(strides_ignored, Client_BufferFromHostBuffer, args->num_byte_strides = 0;
      args->byte_strides = NULL, )
FAULT(no_done_event, Client_BufferFromHostBuffer, , args->done_with_host_buffer = NULL)
static const void* source_of_the_last;
static PJRT_Error* source_read_later(PJRT_Client_BufferFromHostBuffer_Args* args) {
  if (args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall) {
    /* The bytes are looked at once more where the buffer is read: see `late_bytes`. */
    source_of_the_last = args->data;
  }
  return real->PJRT_Client_BufferFromHostBuffer(args);
}
static PJRT_Error* late_bytes(PJRT_Buffer_ToHostBuffer_Args* args) {
  PJRT_Error* const error = real->PJRT_Buffer_ToHostBuffer(args);
  if (error == NULL && args->dst != NULL && source_of_the_last != NULL) {
    PJRT_Event_Await_Args wait = {.struct_size = sizeof(wait), .event = args->event};
    real->PJRT_Event_Await(&wait);
    memcpy(args->dst, source_of_the_last, args->dst_size);
  }
  return error;
}
FAULT(one_byte_more, Buffer_ToHostBuffer, , {
  if (args->dst != NULL) {
    PJRT_Event_Await_Args wait = {.struct_size = sizeof(wait), .event = args->event};
    real->PJRT_Event_Await(&wait);
    ((char*)args->dst)[args->dst_size] = 1;
  }
})
FAULT(no_size, Buffer_ToHostBuffer, , if (args->dst == NULL) args->dst_size = 0)
FAULT(wrong_dimensions, Buffer_Dimensions, , {
  static const int64_t dims[] = {3, 2};
  args->dims = dims;
})
FAULT(pointer_beside, Buffer_UnsafePointer, , args->buffer_pointer += 4)
INSTEAD(never_deleted, Buffer_IsDeleted, args->is_deleted = false)
INSTEAD(delete_nothing, Buffer_Delete, (void)args)
FAULT(offset_ignored, Buffer_CopyRawToHost, args->offset = 0, )
static PJRT_Error* copy_aborts(PJRT_Buffer_CopyRawToHost_Args* args) {
  if (args->offset + args->transfer_size > 16) abort();
  return real->PJRT_Buffer_CopyRawToHost(args);
}
static void (*given_back)(void*, void*);
static void give_back_twice(void* pointer, void* arg) {
  given_back(pointer, arg);
  given_back(pointer, arg);
}
static PJRT_Error* view_twice(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  given_back = args->on_delete_callback;
  if (given_back != NULL) args->on_delete_callback = give_back_twice;
  return real->PJRT_Client_CreateViewOfDeviceBuffer(args);
}

FAULT(one_output_more, Executable_NumOutputs, , ++args->num_outputs)
FAULT(wrong_types, Executable_OutputElementTypes, , {
  static PJRT_Buffer_Type types[] = {PJRT_Buffer_Type_F32, PJRT_Buffer_Type_F32};
  args->output_types = types;
})
INSTEAD(one_fingerprint, Executable_Fingerprint, args->executable_fingerprint = "same";
        args->executable_fingerprint_size = 4)
FAULT(half_serialized, Executable_Serialize, , args->serialized_bytes_size /= 2)
FAULT(no_end_event, LoadedExecutable_Execute, args->device_complete_events = NULL, )
static PJRT_Error* donates_always(PJRT_LoadedExecutable_Execute_Args* args) {
  args->options->num_non_donatable_input_indices = 0;
  return real->PJRT_LoadedExecutable_Execute(args);
}
static PJRT_Error* count_aborts(PJRT_LoadedExecutable_Execute_Args* args) {
  if (args->num_args != 2) abort();
  return real->PJRT_LoadedExecutable_Execute(args);
}
static PJRT_Error* hangs_on_nonsense(PJRT_Client_Compile_Args* args) {
  if (memchr(args->program->code, '{', args->program->code_size) == NULL) {
    for (;;) pause();
  }
  return real->PJRT_Client_Compile(args);
}

static PJRT_Extension_Base tail;
static void close_the_chain(void) {
  tail = (PJRT_Extension_Base){.struct_size = sizeof(tail), .type = 99, .next = &tail};
  table.extension_start = &tail;
}
static void repeat_an_extension(void) {
  tail = *table.extension_start;
  tail.struct_size = sizeof(tail);
  tail.next = table.extension_start;
  table.extension_start = &tail;
}

/* What the table itself gets wrong. */
static void break_table(const char* fault) {
  if (strcmp(fault, "uneven_size") == 0) table.struct_size -= 3;
  if (strcmp(fault, "no_version_size") == 0) table.pjrt_api_version.struct_size = 0;
  if (strcmp(fault, "short_table") == 0) table.struct_size -= 10 * sizeof(void*);
  if (strcmp(fault, "no_ready_event") == 0) table.PJRT_Buffer_ReadyEvent = NULL;
  if (strcmp(fault, "endless_chain") == 0) close_the_chain();
  if (strcmp(fault, "extension_twice") == 0) repeat_an_extension();
}

#define BREAK(fault_name, function) \
  if (strcmp(fault, #fault_name) == 0) table.PJRT_##function = fault_name;

static void break_functions(const char* fault) {
  BREAK(empty_message, Error_Message)
  BREAK(no_code, Error_GetCode)
  BREAK(callback_twice, Event_OnReady)
  BREAK(never_ready, Event_IsReady)
  BREAK(await_nothing, Event_Await)
  BREAK(nameless_attribute, Plugin_Attributes)
  BREAK(size_unchecked, Client_PlatformName)
  BREAK(newer_refused, Plugin_Attributes)
  BREAK(process_1, Client_ProcessIndex)
  BREAK(any_id, Client_LookupDevice)
  BREAK(one_id, DeviceDescription_Id)
  BREAK(no_kind, Memory_Kind)
  BREAK(far_devices, Device_IsAddressable)
  BREAK(assignment_overflows, Client_DefaultDeviceAssignment)
  BREAK(strides_ignored, Client_BufferFromHostBuffer)
  BREAK(no_done_event, Client_BufferFromHostBuffer)
  BREAK(source_read_later, Client_BufferFromHostBuffer)
  if (strcmp(fault, "source_read_later") == 0) table.PJRT_Buffer_ToHostBuffer = late_bytes;
  BREAK(one_byte_more, Buffer_ToHostBuffer)
  BREAK(no_size, Buffer_ToHostBuffer)
  BREAK(wrong_dimensions, Buffer_Dimensions)
  BREAK(pointer_beside, Buffer_UnsafePointer)
  BREAK(never_deleted, Buffer_IsDeleted)
  BREAK(delete_nothing, Buffer_Delete)
  BREAK(offset_ignored, Buffer_CopyRawToHost)
  BREAK(copy_aborts, Buffer_CopyRawToHost)
  BREAK(view_twice, Client_CreateViewOfDeviceBuffer)
  BREAK(one_output_more, Executable_NumOutputs)
  BREAK(wrong_types, Executable_OutputElementTypes)
  BREAK(one_fingerprint, Executable_Fingerprint)
  BREAK(half_serialized, Executable_Serialize)
  BREAK(no_end_event, LoadedExecutable_Execute)
  BREAK(donates_always, LoadedExecutable_Execute)
  BREAK(count_aborts, LoadedExecutable_Execute)
  BREAK(hangs_on_nonsense, Client_Compile)
}

const PJRT_Api* GetPjrtApi(void) {
  const char* const fault = getenv("MUTANT") != NULL ? getenv("MUTANT") : "none";
  if (strcmp(fault, "no_table") == 0) return NULL;
  if (real == NULL) {
    void* const library = dlopen(getenv("MUTANT_OF"), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) return NULL;
    const PJRT_Api* (*const get)(void) = (const PJRT_Api* (*)(void))dlsym(library, "GetPjrtApi");
    real = get();
    memcpy(&table, real, real->struct_size < sizeof(table) ? real->struct_size : sizeof(table));
    break_table(fault);
    break_functions(fault);
  }
  return &table;
}
