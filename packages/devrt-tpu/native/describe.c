/* What a plugin says of a device, read in one call. */
#include "internal.h"

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
