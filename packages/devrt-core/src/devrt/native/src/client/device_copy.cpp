// Copies that the client has a device make: one side is memory that the host cannot reach.
#include "client/device_copy.hpp"

#include <utility>

#include "client/device_work.hpp"

namespace devrt::native {

namespace {

/// Returns the copy of what fills a whole storage.
RegionCopy whole(const std::byte* from, int from_space, const Storage& to, int to_space) {
  RegionCopy copy;
  copy.from = from;
  copy.to = to.data();
  copy.run = to.bytes();
  copy.from_space = from_space;
  copy.to_space = to_space;
  return copy;
}

std::size_t number_of(const Memory& memory) {
  return static_cast<std::size_t>(memory.device().local_id());
}

}  // namespace

Queue queue_between(const Memory& from, const Memory& to, std::int64_t stream) {
  if (from.is_host_visible()) return {number_of(to), Lane::kToDevice, stream};
  return {number_of(from), to.is_host_visible() ? Lane::kFromDevice : Lane::kWithin, stream};
}

ReadyEvent Client::copy_by_device(DeviceCopies work) {
  Device& device = *local_devices()[work.queue.device];
  ReadyEvent ready = start_in_order(backend_, device, std::move(work));
  if (!options_.asynchronous) (void)ready.wait();
  return ready;
}

Ref<Storage> Client::allocate_staging(std::size_t bytes) const {
  return Storage::allocate(staging_, bytes, backend_->alignment());
}

ReadyEvent Client::put_by_device(const Memory& memory, const StridedView& view, ExternalOwner hold,
                                 const Ref<Storage>& storage, const PutOptions& options) {
  const std::size_t bytes = storage->bytes();
  if (bytes == 0) return {};
  const Queue queue{number_of(memory), Lane::kToDevice, options.stream};
  const bool is_plain = view.swap <= 1 && is_dense(view);
  if (is_plain && bytes <= read_at_once_) {
    raise_if_error(backend_->health(queue.device));
    const RegionCopy copy = whole(view.data, kHostSpace, *storage, memory.space());
    DeviceCopies work{queue};
    work.copies.push_back(copy);
    work.storages.push_back(storage.share());
    ReadyEvent ready = start_now(*backend_, work);
    if (!options_.asynchronous) (void)ready.wait();
    return ready;
  }
  Ref<Storage> source;
  if (hold && is_plain) {
    source = Storage::lend(view.data, bytes, std::move(hold));
  } else {
    source = allocate_staging(bytes);
    copy_to_dense(view, source->data(), &pool_);
  }
  DeviceCopies work{queue};
  work.copies.push_back(whole(source->data(), kHostSpace, *storage, memory.space()));
  work.storages.push_back(std::move(source));
  work.storages.push_back(storage.share());
  return copy_by_device(std::move(work));
}

ReadyEvent Client::move_by_device(const Memory& from, const Ref<Storage>& source, ReadyEvent ready,
                                  const Memory& to, const Ref<Storage>& target,
                                  std::int64_t stream) {
  if (source->bytes() == 0) return ready;
  DeviceCopies work{queue_between(from, to, stream)};
  work.copies.push_back(whole(source->data(), from.space(), *target, to.space()));
  work.storages.push_back(source.share());
  work.storages.push_back(target.share());
  work.after.push_back(std::move(ready));
  return copy_by_device(std::move(work));
}

Client::Fetched Client::fetch(const Memory& memory, Ref<Storage> storage,
                              const ReadyEvent& filled) {
  if (memory.is_host_visible() || storage->bytes() == 0) return {std::move(storage), filled};
  Ref<Storage> copied = allocate_staging(storage->bytes());
  DeviceCopies work{{number_of(memory), Lane::kFromDevice, 0}};
  work.copies.push_back(whole(storage->data(), memory.space(), *copied, kHostSpace));
  work.storages.push_back(std::move(storage));
  work.storages.push_back(copied.share());
  work.after.push_back(filled);
  ReadyEvent ready = copy_by_device(std::move(work));
  return {std::move(copied), std::move(ready)};
}

}  // namespace devrt::native
