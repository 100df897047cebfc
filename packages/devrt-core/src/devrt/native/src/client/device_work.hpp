// How the client gives a device work that begins behind events: copies, and kernels.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "client/client.hpp"

namespace devrt::native {

/// Returns the first event that has failed already, or one that is ready.
inline ReadyEvent first_failed(std::span<const ReadyEvent> events) {
  for (const ReadyEvent& event : events) {
    if (event.is_ready() && !event.error().ok()) return event;
  }
  return {};
}

/// Starts work, and has the storages that it uses live until it has ended.
template <class Work>
ReadyEvent start_now(DeviceBackend& backend, const Work& work) {
  ReadyEvent ended = work.start(backend);
  try {
    for (const Ref<Storage>& storage : work.storages) storage->used_until(ended);
  } catch (...) {
    (void)ended.wait();  // no memory to keep them longer than this call
    throw;
  }
  return ended;
}

/// Does the same once all events have come, which the device cannot wait for by itself.
template <class Work>
void start_after_waiting(DeviceBackend& backend, const Work& work, ReadyPromise promise) {
  try {
    for (const ReadyEvent& event : work.after) raise_if_error(event.wait());
    start_now(backend, work).on_ready([promise = std::move(promise)](const Status& status) mutable {
      promise.set(status);
    });
  } catch (const StatusError& error) {
    promise.set(error.status());
  }
}

/// Has a device begin work (a queue, `after`, `storages`, and `start`) behind the events `after`:
/// the device waits for its own, a thread of the queue for others.
template <class Work>
ReadyEvent start_in_order(const std::shared_ptr<DeviceBackend>& backend, Device& device,
                          Work work) {
  raise_if_error(backend->health(work.queue.device));
  if (ReadyEvent failed = first_failed(work.after); !failed.error().ok()) return failed;
  StreamQueues& waiting = device.queue();
  const auto begins_after = [&](const ReadyEvent& event) {
    return event.is_ready() || backend->wait(work.queue, event);
  };
  // What waits in a thread was there before.
  if (waiting.is_idle() && std::ranges::all_of(work.after, begins_after)) {
    return start_now(*backend, work);
  }
  ReadyPromise promise;
  ReadyEvent ready = promise.event();
  const std::int64_t stream = work.queue.stream;
  waiting.enqueue(stream,
                  [backend, work = std::move(work), promise = std::move(promise)]() mutable {
                    start_after_waiting(*backend, work, std::move(promise));
                  });
  return ready;
}

}  // namespace devrt::native
