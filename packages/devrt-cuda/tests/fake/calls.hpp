// Custom calls of the fake plugin's programs: handlers by name, and the attributes in their text.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "devrt/pjrt/c_api/ffi.h"
#include "objects.hpp"

struct XLA_FFI_Error {
  std::string message;
};
/// What a handler may ask of an execution: the stream, and the user's data by the type's number.
struct XLA_FFI_ExecutionContext {
  Handle stream = nullptr;
  std::map<std::int64_t, void*>* user_data = nullptr;
};
struct PJRT_ExecuteContext {
  std::map<std::int64_t, void*> user_data;
};

inline std::map<std::string, XLA_FFI_Handler>& handlers() {
  static std::map<std::string, XLA_FFI_Handler> known;
  return known;
}

inline const XLA_FFI_Api& ffi_api() {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api made{};
    made.struct_size = sizeof made;
    made.api_version.minor_version = 1;
    made.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) {
      return new XLA_FFI_Error{args->message};
    };
    made.XLA_FFI_Error_GetMessage = [](XLA_FFI_Error_GetMessage_Args* args) {
      args->message = args->error->message.c_str();
    };
    made.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) { delete args->error; };
    made.XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args* args) -> XLA_FFI_Error* {
      args->stream = args->ctx->stream;
      return nullptr;
    };
    made.XLA_FFI_ExecutionContext_Get =
        [](XLA_FFI_ExecutionContext_Get_Args* args) -> XLA_FFI_Error* {
      const auto* known = args->ctx->user_data;
      if (!known || !known->contains(args->type_id->type_id)) return new XLA_FFI_Error{"none"};
      args->data = known->at(args->type_id->type_id);
      return nullptr;
    };
    return made;
  }();
  return api;
}

/// The attributes of one call, read from the text of a program: strings, integers, arrays of them.
class CallAttributes {
 public:
  explicit CallAttributes(const std::string& text) {
    static const std::regex attribute(
        R"re((\w+) = (?:"([^"]*)"|array<(i8|i64): ([^>]*)>|(-?\d+) : i64))re");
    const std::size_t begin = text.find("backend_config = {");
    const std::string within = text.substr(begin, text.find('}', begin) - begin);
    std::map<std::string, std::smatch> sorted;
    std::sregex_iterator next(within.begin(), within.end(), attribute);
    for (; next != std::sregex_iterator(); ++next) sorted[(*next)[1]] = *next;
    for (const auto& [name, found] : sorted) add(name, found);
  }

  XLA_FFI_Attrs get() {
    return {sizeof(XLA_FFI_Attrs), nullptr,       static_cast<int64_t>(types_.size()),
            types_.data(),         names_.data(), values_.data()};
  }

 private:
  void add(const std::string& name, const std::smatch& found) {
    names_.push_back(&span(name));
    if (found[2].matched) {
      types_.push_back(XLA_FFI_AttrType_STRING);
      values_.push_back(&span(found[2]));
    } else if (found[4].matched) {
      types_.push_back(XLA_FFI_AttrType_ARRAY);
      values_.push_back(&arrays_.emplace_back(array(found[3] == "i8", found[4])));
    } else {
      types_.push_back(XLA_FFI_AttrType_SCALAR);
      integers_.push_back({std::stoll(found[5])});
      scalars_.push_back({XLA_FFI_DataType_S64, integers_.back().data()});
      values_.push_back(&scalars_.back());
    }
  }

  XLA_FFI_ByteSpan& span(const std::string& text) {
    texts_.push_back(text);
    return spans_.emplace_back(XLA_FFI_ByteSpan{texts_.back().data(), texts_.back().size()});
  }

  XLA_FFI_Array array(bool is_bytes, const std::string& text) {
    std::istringstream from(text);
    std::vector<std::int64_t>& numbers = integers_.emplace_back();
    for (std::string each; std::getline(from, each, ',');) numbers.push_back(std::stoll(each));
    if (!is_bytes) return {XLA_FFI_DataType_S64, numbers.size(), numbers.data()};
    texts_.emplace_back(numbers.begin(), numbers.end());
    return {XLA_FFI_DataType_S8, numbers.size(), texts_.back().data()};
  }

  std::deque<std::string> texts_;
  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<std::vector<std::int64_t>> integers_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<XLA_FFI_ByteSpan*> names_;
  std::vector<void*> values_;
};

/// Calls a handler with vectors of floats. Returns the message of its error, or nothing.
inline std::string call_handler(const std::string& name, const std::string& text, Handle stream,
                                std::map<std::int64_t, void*>* user_data,
                                const std::vector<std::uintptr_t>& arguments, std::uintptr_t result,
                                std::int64_t count) {
  std::deque<XLA_FFI_Buffer> buffers;
  const auto buffer = [&](std::uintptr_t address) -> void* {
    return &buffers.emplace_back(XLA_FFI_Buffer{sizeof(XLA_FFI_Buffer), nullptr,
                                                XLA_FFI_DataType_F32,
                                                reinterpret_cast<void*>(address), 1, &count});
  };
  std::vector<void*> given;
  for (const std::uintptr_t address : arguments) given.push_back(buffer(address));
  std::vector<XLA_FFI_ArgType> types(given.size(), XLA_FFI_ArgType_BUFFER);
  void* made[] = {buffer(result)};
  XLA_FFI_RetType made_types[] = {XLA_FFI_RetType_BUFFER};
  XLA_FFI_ExecutionContext context{stream, user_data};
  CallAttributes attributes(text);
  XLA_FFI_CallFrame frame{};
  frame.struct_size = sizeof frame;
  frame.api = &ffi_api();
  frame.ctx = &context;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {sizeof frame.args, nullptr, static_cast<int64_t>(given.size()), types.data(),
                given.data()};
  frame.rets = {sizeof frame.rets, nullptr, 1, made_types, made};
  frame.attrs = attributes.get();
  const std::unique_ptr<XLA_FFI_Error> error(handlers().at(name)(&frame));
  return error ? error->message : "";
}

inline PJRT_Error* register_handler(PJRT_FFI_Register_Handler_Args* args) {
  if (std::string(args->platform_name, args->platform_name_size) != "CUDA") {
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the handler is for another platform");
  }
  const auto handler = reinterpret_cast<XLA_FFI_Handler>(args->handler);
  XLA_FFI_Metadata metadata{};
  XLA_FFI_Metadata_Extension question{};
  question.extension_base.type = XLA_FFI_Extension_Metadata;
  question.metadata = &metadata;
  XLA_FFI_CallFrame frame{};
  frame.extension_start = &question.extension_base;
  frame.api = &ffi_api();
  handler(&frame);
  if (metadata.api_version.minor_version != ffi_api().api_version.minor_version) {
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the handler is of another version");
  }
  handlers()[std::string(args->target_name, args->target_name_size)] = handler;
  return nullptr;
}

inline PJRT_Error* add_user_data(PJRT_FFI_UserData_Add_Args* args) {
  args->context->user_data[args->user_data.type_id] = args->user_data.data;
  return nullptr;
}

/// Fills the extension by which handlers are registered, and what executions tell them by.
inline void fill_calls(PJRT_FFI_Extension& calls, PJRT_Api& table) {
  calls.base.struct_size = sizeof calls;
  calls.base.type = PJRT_Extension_Type_FFI;
  calls.register_handler = &register_handler;
  calls.type_register = [](PJRT_FFI_Type_Register_Args* args) -> PJRT_Error* {
    args->type_id = 7;
    return nullptr;
  };
  calls.user_data_add = &add_user_data;
  table.PJRT_ExecuteContext_Create = [](PJRT_ExecuteContext_Create_Args* args) -> PJRT_Error* {
    args->context = new PJRT_ExecuteContext;
    return nullptr;
  };
  table.PJRT_ExecuteContext_Destroy = [](PJRT_ExecuteContext_Destroy_Args* args) -> PJRT_Error* {
    delete args->context;
    return nullptr;
  };
}
