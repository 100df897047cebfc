/* What the plugin for tests says of its one device; part of plugin.c. */

static PJRT_Error* DeviceDescription_Id(PJRT_DeviceDescription_Id_Args* args) {
  args->id = 0;
  return NULL;
}
static PJRT_Error* DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  args->process_index = 0;
  return NULL;
}
static PJRT_Error* DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args* args) {
  args->num_attributes = 0;
  return NULL;
}
static PJRT_Error* DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "fake kind";
  args->device_kind_size = 9;
  return NULL;
}
static PJRT_Error* DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args* args) {
  args->debug_string = "fake";
  args->debug_string_size = 4;
  return NULL;
}
static PJRT_Error* DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args* args) {
  args->to_string = "fake";
  args->to_string_size = 4;
  return NULL;
}
