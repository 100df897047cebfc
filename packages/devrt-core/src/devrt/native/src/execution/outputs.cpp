#include "execution/outputs.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace devrt::native {

namespace {

/// Keeps memory for a storage that shows it, and counts it as in use where nobody else does.
struct Adopted {
  Adopted(Ref<pjrt::Buffer> from, std::shared_ptr<MemoryStats> counted, std::size_t size) noexcept
      : buffer(std::move(from)),
        stats(std::move(counted)),
        // Given memory is still counted by the allocator that it came from.
        bytes(buffer->memory() == pjrt::Buffer::Memory::kOwn ? static_cast<std::int64_t>(size)
                                                             : 0) {
    if (bytes) stats->record_allocate(bytes);
  }
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;
  ~Adopted() {
    if (bytes) stats->record_deallocate(bytes);
  }

  Ref<pjrt::Buffer> buffer;
  std::shared_ptr<MemoryStats> stats;
  std::int64_t bytes;
};

ExternalOwner own(Ref<pjrt::Buffer> buffer, const Memory& memory, std::size_t bytes) {
  return {new Adopted(std::move(buffer), memory.shared_stats(), bytes),
          [](void* context) noexcept { delete static_cast<Adopted*>(context); }};
}

/// Returns the argument whose memory an output takes; null where it has memory of its own.
pjrt::Buffer* donor_of(const pjrt::Tensor& output, const OutputTargets& targets) noexcept {
  const bool has_donor =
      output.donor >= 0 && std::ranges::find(targets.kept, output.donor) == targets.kept.end();
  return has_donor ? targets.arguments[static_cast<std::size_t>(output.donor)].get() : nullptr;
}

/// Returns whether an output counts among the bytes that its device reserves for a call.
bool is_reserved(std::size_t i, const OutputTargets& targets) {
  return targets.tensors()[i].is_plain && !donor_of(targets.tensors()[i], targets) &&
         targets.memories[i]->budget() == targets.owner.default_memory().budget();
}

/// Takes over an output, with its bytes of the budget: the argument's whose memory it took, or
/// some of those that the call has reserved.
Ref<pjrt::Buffer> own_output(PJRT_Buffer* raw, std::size_t i, const OutputTargets& targets,
                             BudgetShare& reserved) {
  using enum pjrt::Buffer::Memory;
  pjrt::Buffer* const donor = donor_of(targets.tensors()[i], targets);
  const auto memory = donor && donor->memory() == kGiven ? kGiven : kOwn;
  Ref<pjrt::Buffer> output = pjrt::Buffer::own(targets.engine.client(), raw, memory);
  if (donor) {
    output->reserve(donor->take_reserved());
  } else if (reserved && is_reserved(i, targets)) {
    output->reserve(reserved.split(targets.tensors()[i].bytes));
  }
  return output;
}

/// Returns where the engine's memory lies. Requested when somebody reads it, since asking costs
/// about as much as a small program; a result that only goes into the next call is never queried.
std::byte* find(void* context) noexcept {
  try {
    return static_cast<Adopted*>(context)->buffer->data();
  } catch (const StatusError&) {
    return nullptr;  // failed, or gone to an output: nobody reads it
  }
}

/// What the engine made, and the storage that shows it.
struct Output {
  Ref<pjrt::Buffer> engine;
  Ref<Storage> storage;
};
using Outputs = SmallArray<Output, kFew>;

/// Makes the storage of an output: it shows the engine's memory, or memory for a copy in devrt's
/// layout.
Ref<Storage> make_storage(const Ref<pjrt::Buffer>& engine, std::size_t i,
                          const OutputTargets& targets, bool is_ready) {
  const pjrt::Tensor& tensor = targets.tensors()[i];
  const Memory& memory = *targets.memories[i];
  if (tensor.is_plain) {
    const auto adopt = is_ready ? &Storage::lend_lazily : &Storage::expect;
    return adopt(tensor.bytes, own(engine.share(), memory, tensor.bytes), &find);
  }
  Ref<Storage> storage = memory.allocate_at_once(tensor.bytes);
  targets.engine.counters().copies.fetch_add(1, std::memory_order_relaxed);
  targets.engine.counters().bytes_copied.fetch_add(static_cast<std::int64_t>(tensor.bytes),
                                                   std::memory_order_relaxed);
  return storage;
}

/// Makes the buffer of an output. `holds_errors` says that the engine does not know how the call
/// ended, and so must not go on with the result.
void make_buffer(Output output, std::size_t i, const OutputTargets& targets,
                 const ReadyEvent& ready, bool holds_errors) {
  const pjrt::Tensor& tensor = targets.tensors()[i];
  Ref<Attachment> known;
  if (!holds_errors) {
    known = Ref<Attachment>::adopt(output.engine.get());
    output.engine.leak();
  }
  targets.results[i] = Buffer::make(targets.memories[i]->shared(), tensor.type, tensor.dims.copy(),
                                    std::move(output.storage), ready, nullptr, std::move(known));
}

/// Sets a promise once every part of its work is done; the first error counts.
class Countdown {
 public:
  explicit Countdown(std::size_t parts) : left_(parts) {}

  ReadyEvent event() const { return promise_.event(); }
  void arrive(Status status) {
    {
      std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
      if (--left_ > 0) return;
    }
    promise_.set(status_);
  }

 private:
  std::mutex mutex_;
  std::size_t left_;
  Status status_;
  ReadyPromise promise_;
};

/// Returns how a call ended: with the error of its custom calls, or as the plugin says.
Status outcome(const Status& reported, const Ref<pjrt::ffi::HoldingContext>& context) {
  Status known = context ? context->status() : Status();
  return known.ok() ? pjrt::with_known_code(reported) : known;
}

/// Whose program it is that ended, for its error.
class Origin {
 public:
  explicit Origin(const OutputTargets& targets)
      : client_(targets.owner.client().unowned()),
        device_(targets.owner),
        program_(targets.program) {}

  /// Adds to an error of the plugin's where it comes from, and to one of memory what the program
  /// takes and what lives on the device.
  Status explain(const Status& status, const Ref<pjrt::ffi::HoldingContext>& context) const noexcept
      try {
    if (status.ok() || !status.operation().empty()) return status;
    std::shared_ptr<Client> client = client_.lock();
    if (!client) return status;  // nobody is there to read it
    const bool is_of_call = context && !context->status().ok();
    Status explained = describe(status, is_of_call);
    // It may be the last share by now, and a client does not end in the engine's thread.
    std::thread([last = std::move(client)] {}).detach();
    return explained;
  } catch (const std::exception&) {
    return status;
  }

 private:
  Status describe(const Status& status, bool is_of_call) const {
    if (status.code() == StatusCode::kResourceExhausted && !is_of_call) {
      return device_.default_memory().describe_end(needs_with_outputs(*program_, 1), status);
    }
    const Status error = Status(status.code(), status.message())
                             .because(status.reason())
                             .during("execute")
                             .on(device_.name());
    if (is_of_call) return error;
    // What the plugin reports late may be due to a device that an argument came from.
    std::vector<const Device*> devices{&device_};
    for (const auto& device : device_.client().local_devices()) devices.push_back(device.get());
    return describe_loss(error, devices);
  }

  const std::weak_ptr<Client> client_;  // a share could be the last one, in the engine's thread
  const Device& device_;                // the client's
  const std::shared_ptr<const pjrt::Signature> program_;
};

/// A call in flight: keeps what it writes, and says when that is ready.
class Pending {
 public:
  Pending(std::span<Output> outputs, const OutputTargets& targets, Kept kept)
      : client_(Ref<pjrt::Client>::share_of(&targets.engine.client())),
        slot_(kept.slot ? std::move(kept.slot) : client_->in_flight().take(targets.device)),
        note_(std::move(kept.note)),
        temporaries_(std::move(kept.reservation.temporaries)),
        context_(std::move(kept.context)),
        storages_(std::move(kept.storages)),
        has_streams_(pjrt::streams_of(client_->api())),
        device_(static_cast<std::size_t>(targets.owner.local_id())),
        origin_(targets),
        countdown_(std::make_shared<Countdown>(std::max<std::size_t>(outputs.size(), 1))),
        ended_(countdown_->event().with(kept.dependencies)),
        dependencies_(std::move(kept.dependencies)),
        call_(kept.call) {
    call_.is_known_to_engine = dependencies_.empty() && !(context_ && context_->holds_back());
    const bool has_functions = !targets.program->custom_calls.empty();
    if (has_streams_ && (kept.meets_others || has_functions)) {
      end_ = std::make_shared<ProgramEnd>(end_without_dependencies(), call_);
    }
    if (has_streams_ && has_functions) ended_ = ended_.with({end_});
    // A function of the host may need a device whose stream would wait for this program.
    can_be_ordered_ = has_streams_ && !has_functions;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const pjrt::Tensor& tensor = targets.tensors()[i];
      parts_.push_back({{outputs[i].engine.share(), outputs[i].storage.share()},
                        tensor.dims.size(),
                        tensor.is_plain});
    }
  }

  const ReadyEvent& event() const noexcept { return ended_; }

  /// Returns the event of one output: of all, and one that streams can wait for.
  ReadyEvent event_of(std::size_t i) {
    Part& part = parts_[i];
    if (!part.is_plain || !can_be_ordered_) return event();
    part.event = std::make_shared<EngineEvent>(countdown_->event(), part.output.engine.share(),
                                               device_, call_, end_);
    return ReadyEvent::of(part.event, dependencies_);
  }

  /// Called once, in a thread of the engine or of the caller.
  void finish(const Status& reported) noexcept {
    const Status status = origin_.explain(outcome(reported, context_), context_);
    temporaries_.end();  // before anybody learns that it has ended
    storages_.clear();   // the same: what was read may be donated
    for (Part& part : parts_) {
      try {
        finish_part(part, status);
      } catch (const StatusError& error) {
        countdown_->arrive(error.status());
      }
    }
    if (parts_.empty()) countdown_->arrive(status);
  }

 private:
  struct Part {
    Output output;
    std::size_t dims = 0;
    bool is_plain = true;
    std::shared_ptr<EngineEvent> event = {};  // null where no stream can wait for it
  };

  /// Returns the program's end, with the errors of its arguments, as an event that keeps none of
  /// what it depends on: each program of a chain would keep all earlier ones.
  ReadyEvent end_without_dependencies() const {
    if (dependencies_.empty()) return ended_;
    ReadyPromise promise;
    ReadyEvent end = promise.event();
    ended_.on_ready(
        [promise = std::move(promise)](const Status& status) mutable { promise.set(status); });
    return end;
  }

  void finish_part(Part& part, const Status& status) const {
    if (!part.is_plain && status.ok()) return unpack(part);
    part.output.storage->settle();
    if (part.event) part.event->release_output();
    part.output = {};  // before the event: what is ready may be donated
    countdown_->arrive(status);
  }

  /// Copies what the engine lays out in its own way.
  void unpack(Part& part) const {
    const Storage& target = *part.output.storage;
    pjrt::Event copied = part.output.engine->copy_to(target.data(), target.bytes(), part.dims);
    pjrt::when_ready(
        std::move(copied),
        [countdown = countdown_, kept = part.output.storage.share()](Status status) mutable {
          kept.reset();
          countdown->arrive(std::move(status));
        });
  }

  const Ref<pjrt::Client> client_;
  const pjrt::InFlight::Slot slot_;  // left after all else
  const pjrt::Running::Note note_;
  HeldTemporaries temporaries_;
  const Ref<pjrt::ffi::HoldingContext> context_;
  std::vector<Ref<Storage>> storages_;
  const bool has_streams_;
  bool can_be_ordered_ = false;
  const std::size_t device_;
  const Origin origin_;
  const std::shared_ptr<Countdown> countdown_;
  ReadyEvent ended_;
  const Dependencies dependencies_;
  ProgramCall call_;
  std::shared_ptr<const ProgramEnd> end_ = {};
  std::vector<Part> parts_;
};

/// Takes over the outputs of a call; `done` stays where this throws.
ReadyEvent take(std::span<PJRT_Buffer* const> raw, pjrt::Event& done, const OutputTargets& targets,
                Kept& kept, std::unique_ptr<Pending>& pending) {
  Outputs outputs(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    outputs[i].engine = own_output(raw[i], i, targets, kept.reservation.outputs);
  }
  const auto is_plain = [](const pjrt::Tensor& tensor) { return tensor.is_plain; };
  const bool is_ready = std::ranges::all_of(targets.tensors(), is_plain) && done.is_ready() &&
                        kept.dependencies.empty();
  const bool holds_errors = kept.context && kept.context->holds_back();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    outputs[i].storage = make_storage(outputs[i].engine, i, targets, is_ready);
  }
  ReadyEvent ready;
  if (is_ready) {
    Status status = outcome(done.wait(), kept.context);
    if (!status.ok()) status = Origin(targets).explain(status, kept.context);
    ready = ReadyEvent::already(status);
  } else {
    pending = std::make_unique<Pending>(outputs.span(), targets, std::move(kept));
    ready = pending->event();
  }
  const bool has_streams = pjrt::streams_of(targets.engine.client().api());
  // Moved: a share more would forbid donation.
  for (std::size_t i = 0; i < raw.size(); ++i) {
    // No stream waits for what the host unpacks, so that the host waits for it in the next call.
    const bool is_unpacked = has_streams && !targets.tensors()[i].is_plain;
    make_buffer(std::move(outputs[i]), i, targets, pending ? pending->event_of(i) : ready,
                holds_errors || is_unpacked);
  }
  return ready;
}

void finish_when_ready(pjrt::Event done, std::unique_ptr<Pending> pending) {
  pjrt::when_ready(std::move(done), [work = std::move(pending)](Status status) mutable {
    work->finish(status);
    work.reset();
  });
}

}  // namespace

std::int64_t bytes_of_outputs(const OutputTargets& targets) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < targets.tensors().size(); ++i) {
    if (is_reserved(i, targets)) bytes += static_cast<std::int64_t>(targets.tensors()[i].bytes);
  }
  return bytes;
}

Status describe_loss(const Status& error, std::span<const Device* const> devices) {
  for (const Device* device : devices) {
    const DeviceBackend& backend = device->client().backend();
    const Status health = backend.probe(static_cast<std::size_t>(device->local_id()));
    if (health.ok()) continue;
    const char* const join = error.message().ends_with('.') ? " " : ". ";
    return Status(health.code(), error.message() + join + "The device is lost: " + health.message())
        .because(health.reason())
        .during("execute")
        .on(device->name());
  }
  return error;
}

ReadyEvent take_outputs(std::span<PJRT_Buffer* const> raw, pjrt::Event done,
                        const OutputTargets& targets, Kept kept) {
  std::unique_ptr<Pending> pending;
  ReadyEvent ready;
  try {
    ready = take(raw, done, targets, kept, pending);
  } catch (...) {
    // The program is under way, and uses what is kept: its handlers look into the context.
    if (pending) {
      finish_when_ready(std::move(done), std::move(pending));
    } else {
      pjrt::when_ready(std::move(done), [held = std::move(kept)](const Status&) {});
    }
    throw;
  }
  if (pending) finish_when_ready(std::move(done), std::move(pending));
  return ready;
}

}  // namespace devrt::native
