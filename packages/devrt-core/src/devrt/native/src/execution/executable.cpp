// Executables: making them, what they take, and their end. Calls are in execute.cpp.
#include "execution/executable.hpp"

#include <algorithm>
#include <utility>

#include "client/ending.hpp"

namespace devrt::native {

namespace {

/// Returns the code for what the compiler reported: its own codes tell little.
StatusCode compile_code(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kUnknown:  // does not parse
    case StatusCode::kInternal:
      return StatusCode::kInvalidArgument;
    case StatusCode::kNotFound:  // a custom call that nobody registered
      return StatusCode::kUnimplemented;
    default:
      return code;
  }
}

template <class Make>
Ref<pjrt::Executable> make_checked(const char* operation, const Make& make) {
  try {
    return make();
  } catch (const StatusError& error) {
    const Status& status = error.status();
    throw StatusError(
        Status(compile_code(status.code()), std::string(operation) + " failed: " + status.message())
            .during(operation));
  }
}

/// Throws where the host would have to lay out anew what it cannot reach.
void check_unpacked(const pjrt::Tensor& output, const Memory& memory) {
  if (output.is_plain || memory.is_host_visible()) return;
  throw StatusError(Status(StatusCode::kUnimplemented,
                           "compile_and_load failed: the program has an output of a type below a "
                           "byte, or of a layout of its own, on memory of kind '" +
                               memory.kind() +
                               "', where buffers are row-major with a byte or more for each "
                               "element. Convert it within the program, as to int8.")
                        .during("compile_and_load")
                        .on(memory.device().name()));
}

std::string describe(ElementType type, std::span<const std::int64_t> dims) {
  std::string text(info(type).name);
  text += "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += (i ? "," : "") + std::to_string(dims[i]);
  }
  return text + "]";
}

}  // namespace

Ref<Executable> Executable::compile(Client& client, const std::string& library,
                                    const ProgramText& program) {
  const Compiling scope;
  std::shared_ptr<Engine> engine = client.engine(library);
  Ref<pjrt::Executable> loaded = make_checked("compile_and_load", [&] {
    return pjrt::Executable::compile(engine->client(), program.code, program.format,
                                     program.options);
  });
  return adopt(client, std::move(engine), std::move(loaded));
}

Ref<Executable> Executable::deserialize(Client& client, const std::string& library,
                                        std::string_view serialized, std::string_view options) {
  const Compiling scope;
  std::shared_ptr<Engine> engine = client.engine(library);
  Ref<pjrt::Executable> loaded = make_checked("deserialize_executable", [&] {
    return pjrt::Executable::deserialize(engine->client(), serialized, options);
  });
  return adopt(client, std::move(engine), std::move(loaded));
}

Ref<Executable> Executable::adopt(Client& client, std::shared_ptr<Engine> engine,
                                  Ref<pjrt::Executable> loaded) {
  auto made = Ref<Executable>::adopt(new Executable(client, std::move(engine), std::move(loaded)));
  if (!made->engine_->executables().add(*made)) client.check_open("compile_and_load");
  return made;
}

Executable::Executable(Client& client, std::shared_ptr<Engine> engine, Ref<pjrt::Executable> loaded)
    : client_(client.shared()),
      engine_(std::move(engine)),
      signature_(loaded->signature()),
      loaded_(std::move(loaded)) {
  const auto local = client.local_devices();
  for (const std::size_t index : loaded_->devices()) {
    devices_.push_back(local[engine_->local_of(index)].get());
    device_numbers_.push_back(static_cast<int>(index));
  }
  for (Device* device : devices_) {
    for (const pjrt::Tensor& output : signature_->outputs) {
      output_memories_.push_back(&output_memory(*device, output.memory_kind));
      check_unpacked(output, *output_memories_.back());
    }
    if (signature_->temp_bytes) count_temporaries(device->default_memory());
  }
  const auto is_limited = [](const Memory* memory) { return memory->budget() != nullptr; };
  reserves_ = !temporaries_.empty() || std::ranges::any_of(output_memories_, is_limited);
  is_simple_ = finds_simple();
  is_of_job_ = spans_processes() && engine_->client().all_numbers().size() ==
                                        signature_->num_replicas * signature_->num_partitions;
}

bool Executable::finds_simple() const noexcept {
  const auto is_plain = [](const pjrt::Tensor& output) { return output.is_plain; };
  return is_short() && devices_.size() == 1 && !reserves_ && !signature_->has_donation &&
         signature_->custom_calls.empty() && std::ranges::all_of(signature_->outputs, is_plain);
}

void Executable::count_temporaries(const Memory& memory) {
  const auto use = std::make_shared<ProgramTemporaries>();
  use->all = client_->shared_temporaries();
  use->stats = memory.shared_stats();
  use->program = signature_->name;
  use->device = memory.device().name();
  use->kind = memory.kind();
  use->bytes = static_cast<std::int64_t>(signature_->temp_bytes);
  client_->temporaries().add(use);
  temporaries_.push_back(use);
}

Executable::~Executable() {
  if (client_->is_forked()) {
    loaded_.leak();  // in a child, locks may be held for ever by threads that do not exist
  } else {
    engine_->executables().remove(*this);
  }
}

Memory& Executable::output_memory(Device& device, const std::string& kind) const {
  return kind.empty() ? device.default_memory() : device.memory(kind);
}

Ref<pjrt::Executable> Executable::loaded(const char* operation) const {
  client_->check_open(operation);
  std::lock_guard lock(mutex_);
  if (loaded_) return loaded_.share();
  throw StatusError(Status(StatusCode::kFailedPrecondition,
                           std::string(operation) + " failed: the executable '" + signature_->name +
                               "' was deleted. Compile the program again.")
                        .because(Reason::kDeleted)
                        .during(operation));
}

void Executable::remove() noexcept {
  if (client_->is_forked()) return;
  Ref<pjrt::Executable> dropped;  // unloaded after the lock
  {
    std::lock_guard lock(mutex_);
    dropped.swap(loaded_);
  }
  engine_->executables().remove(*this);
}

bool Executable::is_deleted() const {
  if (client_->is_forked()) return false;
  std::lock_guard lock(mutex_);
  return !loaded_;
}

void Executable::check_one(std::size_t position, std::size_t index, const Buffer& buffer,
                           const char* operation) const {
  const pjrt::Tensor& wanted = signature_->parameters[index];
  const Memory& memory = *buffer.memory();
  const auto fail = [&](const std::string& why) {
    raise_invalid(std::string(operation) + " failed: argument " + std::to_string(index) +
                      " of program '" + signature_->name + "' " + why,
                  operation, devices_[position]->name());
  };
  if (&memory.client() != client_.get()) {
    fail("belongs to another client. Put the data on a device of the executable's own.");
  }
  if (&memory.device() != devices_[position]) {
    fail("lies on " + memory.device().name() + ", and must lie on " + devices_[position]->name() +
         ". Copy it there, or compile the program for that device.");
  }
  const auto dims = buffer.shape().span();
  const auto expected = wanted.dims.span();
  if (buffer.type() != wanted.type ||
      !std::equal(dims.begin(), dims.end(), expected.begin(), expected.end())) {
    fail("is " + describe(buffer.type(), dims) + " and must be " + describe(wanted.type, expected) +
         ".");
  }
  if (!buffer.order().empty()) {
    fail(
        "does not lie in row-major order, as programs take their arguments. Put it without a "
        "layout, or where the program is one of arrays, with its input_formats.");
  }
  if (buffer.is_deleted()) {
    client_->check_open(operation);
    throw StatusError(Status(StatusCode::kFailedPrecondition,
                             std::string(operation) + " failed: argument " + std::to_string(index) +
                                 " of program '" + signature_->name +
                                 "' was deleted or donated. Use what the call that it was donated "
                                 "to returned, or keep a clone().")
                          .because(Reason::kDeleted)
                          .during(operation)
                          .on(memory.device().name()));
  }
}

bool Executable::check(std::span<const std::span<Buffer* const>> arguments,
                       const char* operation) const {
  if (arguments.size() != devices_.size()) {
    raise_invalid(std::string(operation) + " failed: program '" + signature_->name + "' runs on " +
                      std::to_string(devices_.size()) + " devices, and arguments for " +
                      std::to_string(arguments.size()) + " were given.",
                  operation);
  }
  bool is_immediate = true;
  for (std::size_t position = 0; position < arguments.size(); ++position) {
    const std::span<Buffer* const> shard = arguments[position];
    if (shard.size() != signature_->parameters.size()) {
      const std::size_t count = signature_->parameters.size();
      raise_invalid(std::string(operation) + " failed: program '" + signature_->name + "' takes " +
                        std::to_string(count) + (count == 1 ? " argument" : " arguments") +
                        ", and " + std::to_string(shard.size()) +
                        (shard.size() == 1 ? " was given." : " were given."),
                    operation);
    }
    for (std::size_t i = 0; i < shard.size(); ++i) {
      check_one(position, i, *shard[i], operation);
      is_immediate = is_immediate && shard[i]->ready().is_ready();
    }
  }
  return is_immediate;
}

}  // namespace devrt::native
