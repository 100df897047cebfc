/* Handlers of custom calls: functions of C that ask Python. */
#include "internal.h"

/* A call frame does not say which name it was called by, so every name has a function of its own.
 */
enum { kSlots = 256 };

static XLA_FFI_Error* fail(const XLA_FFI_CallFrame* frame, int code, const char* message) {
  XLA_FFI_Error_Create_Args args = {
      .struct_size = DEVRT_SIZE(XLA_FFI_Error_Create_Args, errc),
      .message = message,
      .errc = (XLA_FFI_Error_Code)code,
  };
  return frame->api->XLA_FFI_Error_Create(&args);
}

static const XLA_FFI_Metadata_Extension* metadata_of(const XLA_FFI_CallFrame* frame) {
  const XLA_FFI_Extension_Base* at = frame->extension_start;
  while (at != NULL && at->type != XLA_FFI_Extension_Metadata) at = at->next;
  return (const XLA_FFI_Metadata_Extension*)at;
}

/* Says that it was written for whatever version the plugin has: what is used here is in each. */
static void describe(const XLA_FFI_CallFrame* frame, XLA_FFI_Metadata* metadata) {
  const int is_known = frame->api != NULL;
  metadata->api_version.major_version =
      is_known ? frame->api->api_version.major_version : XLA_FFI_VERSION_MAJOR;
  metadata->api_version.minor_version =
      is_known ? frame->api->api_version.minor_version : XLA_FFI_VERSION_MINOR;
}

static uintptr_t stream_of(const XLA_FFI_CallFrame* frame) {
  const XLA_FFI_Api* api = frame->api;
  XLA_FFI_Stream_Get_Args args = {
      .struct_size = DEVRT_SIZE(XLA_FFI_Stream_Get_Args, stream),
      .ctx = frame->ctx,
  };
  if (api->XLA_FFI_Stream_Get == NULL) return 0;
  XLA_FFI_Error* error = api->XLA_FFI_Stream_Get(&args);
  if (error == NULL) return (uintptr_t)args.stream;
  XLA_FFI_Error_Destroy_Args dropped = {
      .struct_size = DEVRT_SIZE(XLA_FFI_Error_Destroy_Args, error),
      .error = error,
  };
  api->XLA_FFI_Error_Destroy(&dropped);
  return 0;
}

static XLA_FFI_Error* call(int slot, XLA_FFI_CallFrame* frame) {
  const XLA_FFI_Metadata_Extension* metadata = metadata_of(frame);
  if (metadata != NULL) {
    describe(frame, metadata->metadata);
    return NULL;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
  if (!gate_enter()) {
    return fail(frame, XLA_FFI_Error_Code_CANCELLED, "the process's Python interpreter ends");
  }
  devrt_answer answer = {.code = XLA_FFI_Error_Code_INTERNAL};
  const uintptr_t stream = devrt_slot_is_device(slot) ? stream_of(frame) : 0;
  devrt_python_call(slot, frame, stream, &answer);
  gate_leave();
  XLA_FFI_Error* error = NULL;
  if (answer.code != 0) error = fail(frame, answer.code, answer.data != NULL ? answer.data : "");
  free(answer.data);
  return error;
}

#define SLOT(n) \
  static XLA_FFI_Error* slot_##n(XLA_FFI_CallFrame* frame) { return call(n, frame); }
#define NAME(n) slot_##n,
// clang-format off: each run of it would break these lines further.
#define ROW(X, h)                                 \
  X(0x##h##0) X(0x##h##1) X(0x##h##2) X(0x##h##3) \
  X(0x##h##4) X(0x##h##5) X(0x##h##6) X(0x##h##7) \
  X(0x##h##8) X(0x##h##9) X(0x##h##a) X(0x##h##b) \
  X(0x##h##c) X(0x##h##d) X(0x##h##e) X(0x##h##f)
#define ALL(X)                                                                    \
  ROW(X, 0) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6) ROW(X, 7) \
  ROW(X, 8) ROW(X, 9) ROW(X, a) ROW(X, b) ROW(X, c) ROW(X, d) ROW(X, e) ROW(X, f)
// clang-format on

ALL(SLOT)

static const XLA_FFI_Handler slots[kSlots] = {ALL(NAME)};
static int is_device[kSlots];

int devrt_slot_count(void) { return kSlots; }

int devrt_slot_is_device(int slot) { return is_device[slot]; }

uintptr_t devrt_slot(int slot, int on_device) {
  is_device[slot] = on_device;
  return (uintptr_t)slots[slot];
}
