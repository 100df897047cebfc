// Intrusive reference counts: `Ref<T>` owns a share, and a copy is spelled `share()`.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace devrt {

/// Base of objects that are counted inside themselves; starts with the creator's share.
template <class Derived>
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  /// Adds a share; the caller must already hold one.
  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

  /// Adds a share unless the last one is already gone.
  bool try_retain() const noexcept {
    std::uint32_t seen = count_.load(std::memory_order_relaxed);
    while (seen != 0) {
      if (count_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  /// Returns whether there is one share only, which then is the caller's.
  bool is_unique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

  /// Returns how many shares there are now; others may come and go meanwhile.
  std::uint32_t use_count() const noexcept { return count_.load(std::memory_order_acquire); }

  /// Gives a share back; the last one deletes the object.
  void release() const noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete static_cast<const Derived*>(this);
    }
  }

 protected:
  RefCounted() noexcept = default;
  ~RefCounted() = default;

 private:
  mutable std::atomic<std::uint32_t> count_{1};
};

/// Owner of one share of a `RefCounted` object; may be empty.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    Ref(std::move(other)).swap(*this);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() {
    if (object_) object_->release();
  }

  /// Takes over a share that the caller holds.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Adds a share to an object that the caller knows to be alive.
  static Ref share_of(T* object) noexcept {
    if (object) object->retain();
    return adopt(object);
  }

  /// Returns another share: one atomic increment.
  Ref share() const noexcept { return share_of(object_); }
  void reset() noexcept { Ref().swap(*this); }
  /// Gives the share up without counting it back: the object is never freed.
  void leak() noexcept { object_ = nullptr; }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }

  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace devrt
