// The live objects of a client, oldest first, linked through themselves.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "devrt/base/ref.hpp"
#include "devrt/base/status.hpp"

namespace devrt {

/// The link that a registered object carries; only the registry touches it.
struct LiveLink {
  LiveLink* previous = nullptr;
  LiveLink* next = nullptr;
};

/// Intrusive list of `RefCounted` objects derived from `LiveLink`. Thread-safe, O(1) but for
/// reading.
template <class T>
class LiveRegistry {
 public:
  LiveRegistry() noexcept { head_.previous = head_.next = &head_; }
  LiveRegistry(const LiveRegistry&) = delete;
  LiveRegistry& operator=(const LiveRegistry&) = delete;

  /// Links an object at the end; returns false once the registry is closed.
  [[nodiscard]] bool add(T& object) {
    LiveLink& link = object;
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    link.previous = head_.previous;
    link.next = &head_;
    head_.previous->next = &link;
    head_.previous = &link;
    ++size_;
    return true;
  }

  /// Unlinks an object; nothing if it is not linked. An object calls it before it dies.
  void remove(T& object) noexcept {
    LiveLink& link = object;
    std::lock_guard lock(mutex_);
    if (!link.next) return;
    link.previous->next = link.next;
    link.next->previous = link.previous;
    link.previous = link.next = nullptr;
    --size_;
  }

  /// Returns shares of the live objects, oldest first; skips those whose last share is gone.
  std::vector<Ref<T>> snapshot() const {
    std::vector<Ref<T>> found;
    std::lock_guard lock(mutex_);
    found.reserve(size_);
    for (LiveLink* link = head_.next; link != &head_; link = link->next) {
      T* object = static_cast<T*>(link);
      // A dying object waits for this lock in remove(), so the pointer is good here.
      if (object->try_retain()) found.push_back(Ref<T>::adopt(object));
    }
    return found;
  }

  /// Takes no more objects from now on.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return size_;
  }

 private:
  mutable std::mutex mutex_;
  LiveLink head_;
  std::size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace devrt
