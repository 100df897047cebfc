// Collectives: what is checked before one, and the order that it has with what fills its arguments.
#include "client/collectives.hpp"

#include <algorithm>
#include <array>

#include "client/device_work.hpp"

namespace devrt::native {

namespace {

constexpr std::array<const char*, kCollectiveKinds> kCollectiveNames{
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "permute"};

/// What libraries reduce as it is; all of them have these types.
constexpr std::array kReduced{ElementType::kInt8,    ElementType::kUint8,   ElementType::kInt32,
                              ElementType::kUint32,  ElementType::kInt64,   ElementType::kUint64,
                              ElementType::kFloat16, ElementType::kFloat32, ElementType::kFloat64,
                              ElementType::kBfloat16};

/// A collective that may have to wait.
struct CollectiveWork {
  std::shared_ptr<Communicator> communicator;
  Collective collective;
  std::vector<Ref<Storage>> from = {};  // of each rank; empty where it gives nothing
  std::vector<Ref<Storage>> to = {};
  std::vector<std::vector<ReadyEvent>> after = {};

  std::vector<RankMemory> ranks(bool waits) const {
    std::vector<RankMemory> made(to.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (from[i]) made[i].from = from[i]->data();
      made[i].to = to[i]->data();
      if (waits) made[i].after = after[i];
    }
    return made;
  }

  /// Has the storages live until the ranks have ended.
  void keep(const std::vector<ReadyEvent>& ended) const {
    try {
      for (std::size_t i = 0; i < ended.size(); ++i) {
        if (from[i]) from[i]->used_until(ended[i]);
        to[i]->used_until(ended[i]);
      }
    } catch (...) {
      for (const ReadyEvent& event : ended) (void)event.wait();  // no memory to keep them longer
      throw;
    }
  }

  /// Returns an event that has failed already, or one that is ready.
  ReadyEvent failed() const {
    for (const auto& events : after) {
      for (const ReadyEvent& event : events) {
        if (const auto ended = event.query(); ended && !ended->ok()) return event;
      }
    }
    return {};
  }
};

[[noreturn]] void refuse(CollectiveKind kind, const std::string& why,
                         const std::string& device = {}) {
  throw StatusError(
      Status(StatusCode::kInvalidArgument, std::string(collective_name(kind)) + " failed: " + why)
          .during(collective_name(kind))
          .on(device));
}

std::string shape_of(const Buffer& buffer) {
  std::string text;
  for (const std::int64_t size : buffer.shape().span()) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return std::string(info(buffer.type()).name) + "[" + text + "]";
}

void check_argument(CollectiveKind kind, std::size_t rank, const Device& device,
                    const Buffer& buffer, const Buffer& first) {
  const std::string which = "the argument of rank " + std::to_string(rank);
  const Memory& memory = *buffer.memory();
  if (&memory.device() != &device || memory.is_host_visible()) {
    refuse(kind,
           which + " lies in " + memory.kind() + " of " + memory.device().name() +
               ", and its rank is the device memory of " + device.name() + ". Put it there first.",
           device.name());
  }
  if (buffer.type() != first.type() ||
      !std::ranges::equal(buffer.shape().span(), first.shape().span())) {
    refuse(kind,
           which + " is " + shape_of(buffer) + ", and that of another rank " + shape_of(first) +
               ". All ranks must give arrays of one shape and dtype.",
           device.name());
  }
  if (!buffer.order().empty()) {
    refuse(kind, which + " does not lie row-major. Put it with the default layout.", device.name());
  }
}

/// Says as what the elements of a type are reduced: complex ones are pairs of real ones, and truth
/// values are 0 and 1.
void set_reduced(Collective& what, ElementType type) {
  const bool is_sum = what.reduction == Reduction::kSum || what.reduction == Reduction::kAverage;
  const bool is_extreme = what.reduction == Reduction::kMax || what.reduction == Reduction::kMin;
  what.type = type;
  if (is_sum && (type == ElementType::kComplex64 || type == ElementType::kComplex128)) {
    what.type = type == ElementType::kComplex64 ? ElementType::kFloat32 : ElementType::kFloat64;
    what.count *= 2;
  }
  if (is_extreme && type == ElementType::kBool) what.type = ElementType::kUint8;
  if (std::ranges::find(kReduced, what.type) != kReduced.end()) return;
  std::string known;
  for (const ElementType each : kReduced) known += std::string(info(each).name) + ", ";
  refuse(what.kind, "elements of type " + std::string(info(type).name) +
                        " cannot be reduced so. Those that can: " + known +
                        "sums of complex64 and complex128, max and min of bool.");
}

[[noreturn]] void throw_no_collectives(const std::string& platform) {
  throw StatusError(
      Status(StatusCode::kUnimplemented, "The " + platform + " backend has no collectives.")
          .during("collectives"));
}

bool is_reduced(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

/// Returns the argument that the others must be like.
const Buffer& first_of(CollectiveKind kind, std::span<const Buffer* const> buffers) {
  const auto found = std::ranges::find_if(buffers, [](const Buffer* each) { return each; });
  if (found == buffers.end()) refuse(kind, "no rank gives an array.");
  return **found;
}

void check_arguments(std::span<const std::shared_ptr<Device>> devices, const Collective& what,
                     std::span<const Buffer* const> buffers) {
  if (buffers.size() != devices.size()) {
    refuse(what.kind, std::to_string(buffers.size()) + " arguments are given, and the group has " +
                          std::to_string(devices.size()) + " ranks. Give one for each.");
  }
  const Buffer& first = first_of(what.kind, buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i]) check_argument(what.kind, i, *devices[i], *buffers[i], first);
  }
}

/// Arguments that are given up: what they held comes back unless the collective was started.
class Donated {
 public:
  Donated() = default;
  Donated(const Donated&) = delete;
  Donated& operator=(const Donated&) = delete;
  ~Donated() {
    for (auto& [buffer, contents] : taken_) buffer->put_back(std::move(contents));
  }

  /// Takes a buffer's storage, and returns it if it has so many bytes and nobody else uses it.
  Ref<Storage> take(const Buffer& buffer, std::size_t bytes) {
    auto& mutable_buffer = const_cast<Buffer&>(buffer);
    Buffer::Contents contents = mutable_buffer.take();
    contents.attachment = {};  // an engine's view, which would show what is written over it
    Ref<Storage> storage;
    if (contents.storage && contents.storage->bytes() == bytes &&
        contents.storage->is_sole_share()) {
      storage = contents.storage.share();
    }
    taken_.emplace_back(&mutable_buffer, std::move(contents));
    return storage;
  }
  /// Returns a share of what was taken last.
  Ref<Storage> last() const { return taken_.back().second.storage.share(); }
  void give_up() noexcept { taken_.clear(); }

 private:
  std::vector<std::pair<Buffer*, Buffer::Contents>> taken_;
};

/// Starts a collective now. Returns nothing where it must wait in a thread.
std::optional<std::vector<ReadyEvent>> start_at_once(const CollectiveWork& work) {
  auto ended = work.communicator->start(work.collective, work.ranks(true));
  if (ended) work.keep(*ended);
  return ended;
}

/// Waits for all events and starts it. Throws the error of an event that has one.
std::vector<ReadyEvent> start_after_all(const CollectiveWork& work) {
  for (const auto& events : work.after) {
    for (const ReadyEvent& event : events) raise_if_error(event.wait());
  }
  auto ended = work.communicator->start(work.collective, work.ranks(false));
  work.keep(*ended);
  return *std::move(ended);
}

/// Does the same in a thread: the promises are kept once the ranks have ended.
void keep_after_all(const CollectiveWork& work, std::vector<ReadyPromise>& promises) {
  try {
    const std::vector<ReadyEvent> ended = start_after_all(work);
    for (std::size_t i = 0; i < promises.size(); ++i) {
      ended[i].on_ready([promise = std::move(promises[i])](const Status& status) mutable {
        promise.set(status);
      });
    }
  } catch (const StatusError& error) {
    for (ReadyPromise& promise : promises) promise.set(error.status());
  }
}

/// Has the group end for the other processes, who would wait, where this one's part fails.
template <class Start>
auto start_or_break_off(Communicator& communicator, const Start& start) {
  try {
    return start();
  } catch (const StatusError& error) {
    communicator.break_off(error.status());
    throw;
  } catch (...) {
    communicator.break_off(Status(StatusCode::kInternal, "It could not be started."));
    throw;
  }
}

/// Starts a collective of a group that spans processes. It waits for events here: in a thread it
/// would begin after a later one.
std::vector<ReadyEvent> start_across(const CollectiveWork& work) {
  auto ended = start_or_break_off(*work.communicator, [&] { return start_at_once(work); });
  if (ended) return *std::move(ended);
  try {
    return start_or_break_off(*work.communicator, [&] { return start_after_all(work); });
  } catch (const StatusError& error) {
    return std::vector<ReadyEvent>(work.to.size(), ReadyEvent::already(error.status()));
  }
}

std::vector<ReadyEvent> start_in_order(Device& device, CollectiveWork work, std::int64_t stream) {
  const bool spans = work.communicator->spans_processes();
  if (const ReadyEvent failed = work.failed(); !failed.error().ok()) {
    if (spans) work.communicator->break_off(failed.error());  // the others would wait
    return std::vector<ReadyEvent>(work.to.size(), failed);
  }
  if (spans) return start_across(work);
  if (auto ended = start_at_once(work)) return *std::move(ended);
  std::vector<ReadyPromise> promises(work.to.size());
  std::vector<ReadyEvent> events;
  for (const ReadyPromise& promise : promises) events.push_back(promise.event());
  device.queue().enqueue(stream,
                         [work = std::move(work), promises = std::move(promises)]() mutable {
                           keep_after_all(work, promises);
                         });
  return events;
}

/// Fills in the storages and events of the arguments, and takes or allocates those of the results.
CollectiveWork prepare(std::span<const std::shared_ptr<Device>> devices,
                       const CollectiveArguments& arguments, std::size_t bytes, Donated& donated,
                       CollectiveWork work) {
  const char* const operation = collective_name(work.collective.kind);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Buffer* const buffer = arguments.buffers[i];
    work.from.emplace_back();
    work.after.emplace_back();
    if (!buffer) continue;
    work.from.back() = devices[i]->client().storage_of(*buffer, operation);
    work.after.back().push_back(buffer->ready());
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    Ref<Storage> to;
    if (arguments.is_donated && work.from[i]) {
      work.from[i] = {};  // a share more would be somebody else's
      to = donated.take(*arguments.buffers[i], bytes);
      work.from[i] = donated.last();
    }
    work.to.push_back(to ? std::move(to) : devices[i]->default_memory().allocate(bytes));
  }
  return work;
}

}  // namespace

std::shared_ptr<Communicator> DeviceBackend::connect(std::span<const std::size_t>,
                                                     const CollectiveSource&) {
  throw_no_collectives(platform().name);
}

std::shared_ptr<Communicator> DeviceBackend::connect_across(std::span<const std::size_t>,
                                                            const CollectiveSource&,
                                                            const GroupSpan&) {
  throw_no_collectives(platform().name);
}

std::string DeviceBackend::new_group_id(const CollectiveSource&) {
  throw_no_collectives(platform().name);
}

const char* collective_name(CollectiveKind kind) noexcept {
  return kCollectiveNames[static_cast<std::size_t>(kind)];
}

namespace {

/// Returns the backend's numbers of a group's devices, which are the client's and differ.
std::vector<std::size_t> numbers_of(Client& client, std::span<const Device* const> devices) {
  client.check_open("collectives");
  std::vector<std::size_t> numbers;
  for (const Device* device : devices) {
    (void)device->default_memory();  // throws on another process's
    numbers.push_back(static_cast<std::size_t>(device->local_id()));
  }
  return numbers;
}

}  // namespace

std::shared_ptr<Communicator> connect(Client& client, std::span<const Device* const> devices,
                                      const CollectiveSource& source) {
  return client.backend().connect(numbers_of(client, devices), source);
}

std::shared_ptr<Communicator> connect_across(Client& client, std::span<const Device* const> devices,
                                             const CollectiveSource& source,
                                             const GroupSpan& span) {
  return client.backend().connect_across(numbers_of(client, devices), source, span);
}

std::vector<Ref<Buffer>> start_collective(std::span<const std::shared_ptr<Device>> devices,
                                          const std::shared_ptr<Communicator>& communicator,
                                          Collective collective, CollectiveArguments arguments) {
  Client& client = devices.front()->client();
  client.check_open(collective_name(collective.kind));
  check_arguments(devices, collective, arguments.buffers);
  const Buffer& first = first_of(collective.kind, arguments.buffers);
  const ElementType type = first.type();
  collective.count = first.bytes();
  if (is_reduced(collective.kind)) {
    collective.count /= itemsize(type);
    set_reduced(collective, type);
  }
  const std::size_t bytes = checked_bytes(arguments.result.span(), itemsize(type));
  Donated donated;
  CollectiveWork work =
      prepare(devices, arguments, bytes, donated, {communicator, std::move(collective)});
  std::vector<Ref<Storage>> made;
  for (const Ref<Storage>& each : work.to) made.push_back(each.share());
  std::vector<ReadyEvent> ready(made.size());  // of nothing, there is nothing to wait for
  if (bytes > 0) ready = start_in_order(*devices.front(), std::move(work), arguments.stream);
  donated.give_up();
  std::vector<Ref<Buffer>> results;
  for (std::size_t i = 0; i < made.size(); ++i) {
    results.push_back(Buffer::make(devices[i]->default_memory().shared(), type,
                                   arguments.result.copy(), std::move(made[i]), ready[i]));
  }
  return results;
}

}  // namespace devrt::native
