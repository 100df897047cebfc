/* What a plugin says of a device or a memory, asked in one call. */
#include "internal.h"

#define ASK(function, subject, pointer)                     \
  PJRT_##function##_Args function = {                       \
      .struct_size = sizeof(function),                      \
      .subject = pointer,                                   \
  };                                                        \
  row->function_name = "PJRT_" #function;                   \
  if (!DEVRT_HAS(api, PJRT_##function)) return DEVRT_STALE; \
  row->error = api->PJRT_##function(&function);             \
  if (row->error != NULL) return DEVRT_FAILED

int devrt_describe_device(const PJRT_Api* api, PJRT_DeviceDescription* device,
                          devrt_description* row) {
  ASK(DeviceDescription_Id, device_description, device);
  ASK(DeviceDescription_ProcessIndex, device_description, device);
  ASK(DeviceDescription_Kind, device_description, device);
  ASK(DeviceDescription_ToString, device_description, device);
  ASK(DeviceDescription_DebugString, device_description, device);
  ASK(DeviceDescription_Attributes, device_description, device);
  row->id = DeviceDescription_Id.id;
  row->process_index = DeviceDescription_ProcessIndex.process_index;
  row->kind = DeviceDescription_Kind.device_kind;
  row->kind_size = DeviceDescription_Kind.device_kind_size;
  row->text = DeviceDescription_ToString.to_string;
  row->text_size = DeviceDescription_ToString.to_string_size;
  row->debug = DeviceDescription_DebugString.debug_string;
  row->debug_size = DeviceDescription_DebugString.debug_string_size;
  row->attributes = DeviceDescription_Attributes.attributes;
  row->num_attributes = DeviceDescription_Attributes.num_attributes;
  return DEVRT_OK;
}

int devrt_describe_memory(const PJRT_Api* api, PJRT_Memory* memory, devrt_description* row) {
  ASK(Memory_Id, memory, memory);
  ASK(Memory_Kind, memory, memory);
  ASK(Memory_ToString, memory, memory);
  row->id = Memory_Id.id;
  row->kind = Memory_Kind.kind;
  row->kind_size = Memory_Kind.kind_size;
  row->text = Memory_ToString.to_string;
  row->text_size = Memory_ToString.to_string_size;
  return DEVRT_OK;
}
