// Programs that a plugin compiled: their signature, their analyses, and calls of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "devrt/pjrt/engine/client.hpp"
#include "devrt/pjrt/engine/signature.hpp"

namespace devrt::pjrt {

/// A figure of the cost analysis.
struct CostItem {
  std::string name;
  std::variant<double, std::int64_t, bool, std::string> value;
};

/// Arguments and outputs of one device in a call.
struct ShardCall {
  std::span<PJRT_Buffer* const> arguments;
  std::span<PJRT_Buffer*> outputs;
  /// Indices of donated parameters whose memory must not be taken this time.
  std::span<const std::int64_t> kept;
};

/// What an executable was loaded from: the compiler's bytes, and the options in place of theirs.
struct Serialized {
  std::string code;
  std::string options;  // empty where the bytes' own hold
};

/// A loaded executable. Unloaded with its last share, when nothing in flight uses it.
class Executable final : public RefCounted<Executable> {
 public:
  /// Compiles a program. `options` is a serialised CompileOptionsProto. Throws INVALID_ARGUMENT
  /// with the plugin's words if the program is wrong, else the plugin's own error.
  static Ref<Executable> compile(Client& client, std::string_view program, std::string_view format,
                                 std::string_view options) {
    auto code = make_args<PJRT_Program>();
    code.code = const_cast<char*>(program.data());
    code.code_size = program.size();
    code.format = format.data();
    code.format_size = format.size();
    auto args = make_args<PJRT_Client_Compile_Args>();
    args.client = client.get();
    args.program = &code;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    client.api().check<&PJRT_Api::PJRT_Client_Compile>(args);
    Ref<Executable> made = adopt(client, args.executable, packs_parameters(options));
    made->options_ = options;
    return made;
  }

  /// Loads what `serialize` gave, of this or another process.
  static Ref<Executable> deserialize(Client& client, std::string_view serialized,
                                     std::string_view options) {
    auto args = make_args<PJRT_Executable_DeserializeAndLoad_Args>();
    args.client = client.get();
    args.serialized_executable = serialized.data();
    args.serialized_executable_size = serialized.size();
    if (!options.empty()) {
      args.overridden_serialized_compile_options = options.data();
      args.overridden_serialized_compile_options_size = options.size();
    }
    client.api().check<&PJRT_Api::PJRT_Executable_DeserializeAndLoad>(args);
    Ref<Executable> made = adopt(client, args.loaded_executable, true);
    made->loaded_from_ = {std::string(serialized), std::string(options)};
    made->options_ = options;
    return made;
  }

  ~Executable() {
    if (client_->is_forked()) {
      client_.leak();
      return;
    }
    auto executable = make_args<PJRT_Executable_Destroy_Args>();
    executable.executable = executable_;
    if (executable_) api().dispose<&PJRT_Api::PJRT_Executable_Destroy>(executable);
    auto loaded = make_args<PJRT_LoadedExecutable_Destroy_Args>();
    loaded.executable = loaded_;
    api().dispose<&PJRT_Api::PJRT_LoadedExecutable_Destroy>(loaded);
  }

  /// Returns what it takes and gives; outlives the executable.
  const std::shared_ptr<const Signature>& signature() const noexcept { return signature_; }
  Client& client() const noexcept { return *client_; }
  PJRT_LoadedExecutable* get() const noexcept { return loaded_; }
  /// Returns the devices of this process that it runs on, in the order of argument lists, as
  /// indices into the client's.
  std::span<const std::size_t> devices() const noexcept { return devices_; }

  /// Starts the program on one of its devices. Does not wait. Never call it for a program whose
  /// shards talk to each other, but on its only device.
  Event execute_one(std::size_t position, const ShardCall& call,
                    PJRT_ExecuteContext* context = nullptr) const {
    PJRT_Buffer* const* arguments = call.arguments.data();
    PJRT_Buffer** outputs = call.outputs.data();
    PJRT_Event* done = nullptr;
    auto options = make_args<PJRT_ExecuteOptions>();
    options.non_donatable_input_indices = call.kept.data();
    options.num_non_donatable_input_indices = call.kept.size();
    options.context = context;
    auto args = make_args<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = loaded_;
    args.options = &options;
    args.argument_lists = &arguments;
    args.num_devices = 1;
    args.num_args = call.arguments.size();
    args.output_lists = &outputs;
    args.device_complete_events = &done;
    if (devices_.size() > 1) args.execute_device = client_->devices()[devices_[position]];
    api().check<&PJRT_Api::PJRT_LoadedExecutable_Execute>(args);
    return {api(), done};
  }

  /// Starts the program on all its devices at once. Does not wait. `context`, if there is one, must
  /// live until it has ended.
  ///
  /// After a failure of this call XLA's clients hang in the next one, so it is refused from then
  /// on: check every argument before.
  std::vector<Event> execute_all(std::span<const ShardCall> calls,
                                 PJRT_ExecuteContext* context = nullptr) const {
    client_->check_not_stuck();
    const std::size_t count = calls.size();
    std::vector<PJRT_Buffer* const*> arguments;
    std::vector<PJRT_Buffer**> outputs;
    for (const ShardCall& call : calls) {
      arguments.push_back(call.arguments.data());
      outputs.push_back(call.outputs.data());
    }
    std::vector<PJRT_Event*> done(count);
    auto options = make_args<PJRT_ExecuteOptions>();
    options.non_donatable_input_indices = calls.front().kept.data();
    options.num_non_donatable_input_indices = calls.front().kept.size();
    options.context = context;
    auto args = make_args<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = loaded_;
    args.options = &options;
    args.argument_lists = arguments.data();
    args.num_devices = count;
    args.num_args = calls.front().arguments.size();
    args.output_lists = outputs.data();
    args.device_complete_events = done.data();
    if (Status status = api().call<&PJRT_Api::PJRT_LoadedExecutable_Execute>(args); !status.ok()) {
      if (count > 1) client_->set_stuck();
      throw StatusError(std::move(status));
    }
    std::vector<Event> events;
    for (PJRT_Event* event : done) events.emplace_back(api(), event);
    return events;
  }

  /// Returns the optimised module: an HloModuleProtoWithConfig.
  std::string optimized_program() const {
    auto program = make_args<PJRT_Program>();
    auto args = make_args<PJRT_Executable_OptimizedProgram_Args>();
    args.executable = executable_;
    args.program = &program;
    api().check<&PJRT_Api::PJRT_Executable_OptimizedProgram>(args);
    std::string code(program.code_size, '\0');
    program.code = code.data();
    api().check<&PJRT_Api::PJRT_Executable_OptimizedProgram>(args);
    return code;
  }

  std::string fingerprint() const {
    auto args = make_args<PJRT_Executable_Fingerprint_Args>();
    args.executable = executable_;
    api().check<&PJRT_Api::PJRT_Executable_Fingerprint>(args);
    return {args.executable_fingerprint, args.executable_fingerprint_size};
  }

  /// Returns the options that it was compiled or loaded with; empty for those within its bytes.
  const std::string& options() const noexcept { return options_; }

  /// Returns what `deserialize` takes. Of a loaded executable it is what that was loaded from:
  /// XLA's CPU client serialises a loaded one without its functions, and finds none of them later.
  Serialized serialize() const {
    if (!loaded_from_.code.empty()) return loaded_from_;
    auto args = make_args<PJRT_Executable_Serialize_Args>();
    args.executable = executable_;
    api().check<&PJRT_Api::PJRT_Executable_Serialize>(args);
    const std::unique_ptr<PJRT_SerializedExecutable, decltype(args.serialized_executable_deleter)>
        owner(args.serialized_executable, args.serialized_executable_deleter);
    return {std::string(args.serialized_bytes, args.serialized_bytes_size), {}};
  }

  std::vector<CostItem> cost_analysis() const;

  /// Returns the bytes that the compiler planned, as the plugin numbers them.
  PJRT_Executable_GetCompiledMemoryStats_Args memory_stats() const {
    auto args = make_args<PJRT_Executable_GetCompiledMemoryStats_Args>();
    args.executable = executable_;
    api().check<&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats>(args);
    return args;
  }

  std::int64_t generated_code_bytes() const {
    auto args = make_args<PJRT_Executable_SizeOfGeneratedCodeInBytes_Args>();
    args.executable = executable_;
    api().check<&PJRT_Api::PJRT_Executable_SizeOfGeneratedCodeInBytes>(args);
    return args.size_in_bytes;
  }

 private:
  Executable(Client& client, PJRT_LoadedExecutable* loaded)
      : client_(Ref<Client>::share_of(&client)), loaded_(loaded) {}

  static Ref<Executable> adopt(Client& client, PJRT_LoadedExecutable* loaded,
                               bool packs_parameters) {
    auto made = Ref<Executable>::adopt(new Executable(client, loaded));
    made->read(packs_parameters);
    return made;
  }

  /// Returns whether a CompileOptionsProto has the compiler pack the parameters into a tuple, which
  /// the plugin does with the arguments too.
  static bool packs_parameters(std::string_view options) {
    bool packs = false;
    for_each_field(options, [&](const ProtoField& field) {
      if (field.number == 2) packs = field.value != 0;
    });
    return packs;
  }

  const Api& api() const noexcept { return client_->api(); }

  void read(bool packs_parameters) {
    auto get = make_args<PJRT_LoadedExecutable_GetExecutable_Args>();
    get.loaded_executable = loaded_;
    api().check<&PJRT_Api::PJRT_LoadedExecutable_GetExecutable>(get);
    executable_ = get.executable;
    auto devices = make_args<PJRT_LoadedExecutable_AddressableDevices_Args>();
    devices.executable = loaded_;
    api().check<&PJRT_Api::PJRT_LoadedExecutable_AddressableDevices>(devices);
    for (std::size_t i = 0; i < devices.num_addressable_devices; ++i) {
      devices_.push_back(client_->index_of(devices.addressable_devices[i]));
    }
    const HloModule module = read_hlo_with_config(optimized_program());
    if (module.has_tuple_parameter && !packs_parameters) {
      // XLA ends the process where such a program is called: it would read one argument as all.
      detail::refuse(module.name,
                     "takes a tuple. Export it with the tuple's elements as parameters of their "
                     "own.");
    }
    Signature signature = make_signature(module);
    read_counts(signature);
    read_memory_kinds(signature);
    read_temporaries(signature);
    signature_ = std::make_shared<const Signature>(std::move(signature));
  }

  void read_counts(Signature& signature) const {
    auto replicas = make_args<PJRT_Executable_NumReplicas_Args>();
    replicas.executable = executable_;
    api().check<&PJRT_Api::PJRT_Executable_NumReplicas>(replicas);
    signature.num_replicas = replicas.num_replicas;
    auto partitions = make_args<PJRT_Executable_NumPartitions_Args>();
    partitions.executable = executable_;
    api().check<&PJRT_Api::PJRT_Executable_NumPartitions>(partitions);
    signature.num_partitions = partitions.num_partitions;
  }

  void read_memory_kinds(Signature& signature) const {
    auto args = make_args<PJRT_Executable_OutputMemoryKinds_Args>();
    args.executable = executable_;
    if (!api().call<&PJRT_Api::PJRT_Executable_OutputMemoryKinds>(args).ok()) return;
    const std::size_t known = std::min(args.num_outputs, signature.outputs.size());
    for (std::size_t i = 0; i < known; ++i) {
      signature.outputs[i].memory_kind.assign(args.memory_kinds[i], args.memory_kind_sizes[i]);
    }
  }

  void read_temporaries(Signature& signature) const {
    auto args = make_args<PJRT_Executable_GetCompiledMemoryStats_Args>();
    args.executable = executable_;
    if (!api().call<&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats>(args).ok()) return;
    signature.temp_bytes =
        static_cast<std::size_t>(std::max<std::int64_t>(args.temp_size_in_bytes, 0));
    signature.is_short = signature.is_short && signature.temp_bytes <= kShortBytes;
  }

  Ref<Client> client_;
  PJRT_LoadedExecutable* const loaded_;
  PJRT_Executable* executable_ = nullptr;
  std::vector<std::size_t> devices_;
  std::shared_ptr<const Signature> signature_;
  Serialized loaded_from_;  // empty if it was compiled
  std::string options_;
};

inline std::vector<CostItem> Executable::cost_analysis() const {
  auto args = make_args<PJRT_Executable_GetCostAnalysis_Args>();
  args.executable = executable_;
  api().check<&PJRT_Api::PJRT_Executable_GetCostAnalysis>(args);
  std::vector<CostItem> items;
  for (std::size_t i = 0; i < args.num_properties; ++i) {
    const PJRT_NamedValue& value = args.properties[i];
    CostItem item{std::string(value.name, value.name_size), 0.0};
    switch (value.type) {
      case PJRT_NamedValue_kFloat:
        item.value = static_cast<double>(value.float_value);
        break;
      case PJRT_NamedValue_kInt64:
        item.value = value.int64_value;
        break;
      case PJRT_NamedValue_kBool:
        item.value = value.bool_value;
        break;
      case PJRT_NamedValue_kString:
        item.value = std::string(value.string_value, value.value_size);
        break;
      default:
        continue;
    }
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace devrt::pjrt
