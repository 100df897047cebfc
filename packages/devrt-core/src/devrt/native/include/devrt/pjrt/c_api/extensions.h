/* The PJRT C API: extensions that devrt calls. */
#ifndef DEVRT_PJRT_EXTENSIONS_H_
#define DEVRT_PJRT_EXTENSIONS_H_

#include "devrt/pjrt/c_api/api.h"

typedef struct PJRT_Layouts_MemoryLayout PJRT_Layouts_MemoryLayout;
typedef struct PJRT_Layouts_SerializedLayout PJRT_Layouts_SerializedLayout;
typedef struct PJRT_MemoryDescription PJRT_MemoryDescription;

/* Extension 3: streams of GPUs, by the driver's handles. `get_stream` gives the one that is to wait
 * for what a view shows; `wait_stream` has any stream wait for a buffer. */

typedef struct PJRT_Get_Stream_For_External_Ready_Events_Args {
  size_t struct_size;
  PJRT_Device* device;
  intptr_t stream;
} PJRT_Get_Stream_For_External_Ready_Events_Args;

typedef struct PJRT_Wait_Until_Buffer_Ready_On_Stream_Args {
  size_t struct_size;
  intptr_t stream;
  PJRT_Buffer* buffer;
} PJRT_Wait_Until_Buffer_Ready_On_Stream_Args;

typedef struct PJRT_Stream_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*get_stream)(PJRT_Get_Stream_For_External_Ready_Events_Args* args);
  PJRT_Error* (*wait_stream)(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args* args);
} PJRT_Stream_Extension;

/* Extension 4: layouts as serialized text. The caller destroys each layout. */

typedef struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Layouts_MemoryLayout* layout;
} PJRT_Layouts_MemoryLayout_Destroy_Args;

typedef struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Layouts_MemoryLayout* layout;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_Layouts_SerializedLayout* serialized_layout;
  void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout* s_layout);
} PJRT_Layouts_MemoryLayout_Serialize_Args;

typedef struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Layouts_MemoryLayout* layout;
} PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args;

typedef struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
} PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args;

typedef struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology_description;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
} PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args;

typedef struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;
  PJRT_Layouts_MemoryLayout** layouts;
} PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args;

typedef struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_parameters;
  PJRT_Layouts_MemoryLayout** layouts;
} PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args;

typedef struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Destroy)(PJRT_Layouts_MemoryLayout_Destroy_Args* args);
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Serialize)(
      PJRT_Layouts_MemoryLayout_Serialize_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Client_GetDefaultLayout)(
      PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Buffer_MemoryLayout)(
      PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Topology_GetDefaultLayout)(
      PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetOutputLayouts)(
      PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetParameterLayouts)(
      PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args* args);
} PJRT_Layouts_Extension;

/* Extension 6: memories of devices that are only described. */

typedef struct PJRT_DeviceDescription_MemoryDescriptions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  const PJRT_MemoryDescription* const* memory_descriptions;
  size_t num_memory_descriptions;
  size_t default_memory_index;
} PJRT_DeviceDescription_MemoryDescriptions_Args;

typedef struct PJRT_MemoryDescription_Kind_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_MemoryDescription* memory_description;
  const char* kind;
  size_t kind_size;
  int kind_id;
} PJRT_MemoryDescription_Kind_Args;

typedef struct PJRT_MemoryDescriptions_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_DeviceDescription_MemoryDescriptions)(
      PJRT_DeviceDescription_MemoryDescriptions_Args* args);
  PJRT_Error* (*PJRT_MemoryDescription_Kind)(PJRT_MemoryDescription_Kind_Args* args);
} PJRT_MemoryDescriptions_Extension;

/* Extension 5: handlers of custom calls. */

typedef struct PJRT_FFI_Type_Info {
  void (*deleter)(void* object);
  void (*serialize)();
  void (*deserialize)();
} PJRT_FFI_Type_Info;

typedef struct PJRT_FFI_UserData {
  int64_t type_id;
  void* data;
} PJRT_FFI_UserData;

typedef enum { PJRT_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1 } PJRT_FFI_Handler_TraitsBits;

typedef struct PJRT_FFI_Type_Register_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* type_name;
  size_t type_name_size;
  int64_t type_id;
  PJRT_FFI_Type_Info* type_info;
} PJRT_FFI_Type_Register_Args;

typedef struct PJRT_FFI_UserData_Add_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;
  PJRT_FFI_UserData user_data;
} PJRT_FFI_UserData_Add_Args;

typedef struct PJRT_FFI_Register_Handler_Args {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  PJRT_FFI_Handler_TraitsBits traits;
} PJRT_FFI_Register_Handler_Args;

typedef struct PJRT_FFI_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*type_register)(PJRT_FFI_Type_Register_Args* args);
  PJRT_Error* (*user_data_add)(PJRT_FFI_UserData_Add_Args* args);
  PJRT_Error* (*register_handler)(PJRT_FFI_Register_Handler_Args* args);
} PJRT_FFI_Extension;

#endif /* DEVRT_PJRT_EXTENSIONS_H_ */
