/* All that a plugin says of a client, its memories and its devices, read in one call and copied.
 */
#include <stdint.h>

#include "internal.h"

typedef struct block {
  struct block* next;
  _Alignas(16) char data[];
} block;

static void* allocate_in(devrt_snapshot* snapshot, size_t count, size_t size) {
  block* made = calloc(1, sizeof(block) + (count > 0 ? count : 1) * size);
  if (made == NULL) return NULL;
  made->next = snapshot->blocks;
  snapshot->blocks = made;
  return made->data;
}

static int copy(devrt_snapshot* snapshot, const char** text, size_t size) {
  char* made = allocate_in(snapshot, size, 1);
  if (made == NULL) return 0;
  if (size > 0) memcpy(made, *text, size);
  *text = made;
  return 1;
}

static int copy_value(devrt_snapshot* snapshot, PJRT_NamedValue* value) {
  if (!copy(snapshot, &value->name, value->name_size)) return 0;
  if (value->type == PJRT_NamedValue_kString) {
    return copy(snapshot, &value->string_value, value->value_size);
  }
  if (value->type != PJRT_NamedValue_kInt64List) return 1;
  int64_t* made = allocate_in(snapshot, value->value_size, sizeof(*made));
  if (made == NULL) return 0;
  if (value->value_size > 0) {
    memcpy(made, value->int64_array_value, value->value_size * sizeof(*made));
  }
  value->int64_array_value = made;
  return 1;
}

/* Replaces what a row points to by copies. */
static int keep(devrt_snapshot* snapshot, devrt_description* row) {
  PJRT_NamedValue* values = allocate_in(snapshot, row->num_attributes, sizeof(*values));
  if (values == NULL || !copy(snapshot, &row->kind, row->kind_size) ||
      !copy(snapshot, &row->text, row->text_size) ||
      !copy(snapshot, &row->debug, row->debug_size)) {
    return DEVRT_NO_MEMORY;
  }
  for (size_t i = 0; i < row->num_attributes; ++i) {
    values[i] = row->attributes[i];
    if (!copy_value(snapshot, &values[i])) return DEVRT_NO_MEMORY;
  }
  row->attributes = values;
  return DEVRT_OK;
}

/* Notes a text that a plugin gave, with its size. */
#define TEXT(to, from, field) (row->to = (from).field, row->to##_size = (from).field##_size)

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
  TEXT(kind, DeviceDescription_Kind, device_kind);
  TEXT(text, DeviceDescription_ToString, to_string);
  TEXT(debug, DeviceDescription_DebugString, debug_string);
  row->attributes = DeviceDescription_Attributes.attributes;
  row->num_attributes = DeviceDescription_Attributes.num_attributes;
  return DEVRT_OK;
}

static int read_memory(const PJRT_Api* api, PJRT_Memory* memory, devrt_snapshot* snapshot,
                       devrt_description* row) {
  ASK(Memory_Id, memory, memory);
  ASK(Memory_Kind, memory, memory);
  ASK(Memory_ToString, memory, memory);
  row->id = Memory_Id.id;
  TEXT(kind, Memory_Kind, kind);
  TEXT(text, Memory_ToString, to_string);
  return keep(snapshot, row);
}

static int read_memories(const PJRT_Api* api, PJRT_Client* client, devrt_snapshot* snapshot) {
  devrt_description* row = &snapshot->about;
  ASK(Client_AddressableMemories, client, client);
  const size_t count = Client_AddressableMemories.num_addressable_memories;
  snapshot->memories = allocate_in(snapshot, count, sizeof(*snapshot->memories));
  if (snapshot->memories == NULL) return DEVRT_NO_MEMORY;
  snapshot->num_memories = count;
  for (size_t i = 0; i < count; ++i) {
    devrt_memory_row* memory = &snapshot->memories[i];
    memory->pointer = Client_AddressableMemories.addressable_memories[i];
    const int status = read_memory(api, memory->pointer, snapshot, &memory->about);
    if (status != DEVRT_OK) {
      row->function_name = memory->about.function_name;
      row->error = memory->about.error;
      return status;
    }
  }
  return DEVRT_OK;
}

static size_t index_of(const devrt_snapshot* snapshot, const PJRT_Memory* memory) {
  for (size_t i = 0; i < snapshot->num_memories; ++i) {
    if (snapshot->memories[i].pointer == memory) return i;
  }
  return SIZE_MAX;
}

static int read_memories_of(const PJRT_Api* api, devrt_snapshot* snapshot, devrt_device_row* device,
                            devrt_description* row) {
  ASK(Device_LocalHardwareId, device, device->pointer);
  ASK(Device_AddressableMemories, device, device->pointer);
  ASK(Device_DefaultMemory, device, device->pointer);
  device->hardware_id = Device_LocalHardwareId.local_hardware_id;
  device->default_memory = index_of(snapshot, Device_DefaultMemory.memory);
  device->num_memories = Device_AddressableMemories.num_memories;
  device->memories = allocate_in(snapshot, device->num_memories, sizeof(size_t));
  if (device->memories == NULL) return DEVRT_NO_MEMORY;
  for (size_t i = 0; i < device->num_memories; ++i) {
    device->memories[i] = index_of(snapshot, Device_AddressableMemories.memories[i]);
  }
  return DEVRT_OK;
}

static int read_device(const PJRT_Api* api, devrt_snapshot* snapshot, devrt_device_row* device,
                       devrt_description* row) {
  ASK(Device_GetDescription, device, device->pointer);
  const int status = devrt_describe_device(api, Device_GetDescription.device_description, row);
  if (status != DEVRT_OK) return status;
  device->about = *row;
  if (keep(snapshot, &device->about) != DEVRT_OK) return DEVRT_NO_MEMORY;
  ASK(Device_IsAddressable, device, device->pointer);
  device->is_addressable = Device_IsAddressable.is_addressable;
  device->hardware_id = -1;
  return device->is_addressable ? read_memories_of(api, snapshot, device, row) : DEVRT_OK;
}

static int read_devices(const PJRT_Api* api, PJRT_Client* client, devrt_snapshot* snapshot,
                        devrt_description* row) {
  ASK(Client_Devices, client, client);
  const size_t count = Client_Devices.num_devices;
  snapshot->devices = allocate_in(snapshot, count, sizeof(*snapshot->devices));
  if (snapshot->devices == NULL) return DEVRT_NO_MEMORY;
  snapshot->num_devices = count;
  for (size_t i = 0; i < count; ++i) {
    snapshot->devices[i].pointer = Client_Devices.devices[i];
    const int status = read_device(api, snapshot, &snapshot->devices[i], row);
    if (status != DEVRT_OK) return status;
  }
  return DEVRT_OK;
}

static int read_client(const PJRT_Api* api, PJRT_Client* client, devrt_snapshot* snapshot) {
  devrt_description* row = &snapshot->about;
  ASK(Client_PlatformName, client, client);
  ASK(Client_PlatformVersion, client, client);
  ASK(Client_ProcessIndex, client, client);
  TEXT(kind, Client_PlatformName, platform_name);
  TEXT(text, Client_PlatformVersion, platform_version);
  row->process_index = Client_ProcessIndex.process_index;
  return keep(snapshot, row);
}

/* A zeroed structure is filled; it is freed by `devrt_snapshot_free` whatever came out. */
int devrt_snapshot_make(const PJRT_Api* api, PJRT_Client* client, devrt_snapshot* snapshot) {
  int status = read_client(api, client, snapshot);
  if (status == DEVRT_OK) status = read_memories(api, client, snapshot);
  if (status != DEVRT_OK) return status;
  devrt_description row = {0};
  status = read_devices(api, client, snapshot, &row);
  snapshot->about.function_name = row.function_name;
  snapshot->about.error = row.error;
  return status;
}

void devrt_snapshot_free(devrt_snapshot* snapshot) {
  for (block* at = snapshot->blocks; at != NULL;) {
    block* next = at->next;
    free(at);
    at = next;
  }
  snapshot->blocks = NULL;
}
