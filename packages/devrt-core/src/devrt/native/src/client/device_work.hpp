// How the client gives a device work that begins behind events: copies, and kernels.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "client/client.hpp"
#include "devrt/pjrt/engine/event.hpp"

namespace devrt::native {

/// Starts work, and has the storages that it uses live until it has ended.
template <class Work>
ReadyEvent start_now(DeviceBackend& backend, const Work& work) {
  Dependencies dependencies;
  for (const ReadyEvent& event : work.after) {
    backend.add_dependencies(work.queue.device, event, dependencies);
  }
  ReadyEvent ended = work.start(backend);
  try {
    ended = ended.with(std::move(dependencies));
    for (const Ref<Storage>& storage : work.storages) storage->used_until(ended, work.after);
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
  StreamQueues& waiting = device.queue();
  // What waits in a thread was there before; but it may wait for the function that calls this.
  bool begins_now = waiting.is_idle() || (work.queue.stream == 0 && pjrt::is_in_callback());
  for (const ReadyEvent& event : work.after) {
    if (backend->is_behind(work.queue, event)) continue;
    // Looked at once: an event that fails after a first look must not count as ready in a second.
    const std::optional<Status> ended = event.query();
    if (ended && !ended->ok()) return event;
    begins_now = begins_now && (ended || backend->wait(work.queue, event));
  }
  if (begins_now) return start_now(*backend, work);
  Dependencies dependencies;
  for (const ReadyEvent& event : work.after) add_dependencies(event.dependencies(), dependencies);
  ReadyPromise promise(std::move(dependencies));
  ReadyEvent ready = promise.event();
  const std::int64_t stream = work.queue.stream;
  waiting.enqueue(stream,
                  [backend, work = std::move(work), promise = std::move(promise)]() mutable {
                    start_after_waiting(*backend, work, std::move(promise));
                  });
  return ready;
}

}  // namespace devrt::native
