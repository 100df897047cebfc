// A thread whose stack is large enough for a compiler.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

#include "devrt/base/unique_function.hpp"

namespace devrt {

/// As `std::thread`, with a stack of `kLeastStack` at least.
///
/// The C library's default is the soft limit of the main thread's stack, but 2 MiB where that is
/// unlimited (glibc) and less elsewhere (musl). XLA's compiler recurses along a program and ends
/// the process with a segmentation fault where the stack does.
class Thread {
 public:
  static constexpr std::size_t kLeastStack = std::size_t{8} << 20;

  Thread() noexcept = default;
  /// Throws std::system_error where no thread can be started.
  explicit Thread(UniqueFunction<void()> work) {
    auto owned = std::make_unique<UniqueFunction<void()>>(std::move(work));
    Attributes attributes;
    const int code = pthread_create(&handle_, &attributes.value, &Thread::run, owned.get());
    if (code != 0) throw std::system_error(code, std::generic_category());
    (void)owned.release();  // the thread's own
    is_joinable_ = true;
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  Thread(Thread&& other) noexcept { swap(other); }
  Thread& operator=(Thread&& other) noexcept {
    if (is_joinable_) std::terminate();
    swap(other);
    return *this;
  }
  ~Thread() {
    if (is_joinable_) std::terminate();
  }

  void swap(Thread& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(is_joinable_, other.is_joinable_);
  }
  bool joinable() const noexcept { return is_joinable_; }
  bool is_current() const noexcept {
    return is_joinable_ && pthread_equal(handle_, pthread_self()) != 0;
  }
  pthread_t native_handle() const noexcept { return handle_; }
  void join() noexcept {
    is_joinable_ = false;
    pthread_join(handle_, nullptr);
  }
  void detach() noexcept {
    is_joinable_ = false;
    pthread_detach(handle_);
  }

 private:
  struct Attributes {
    pthread_attr_t value;

    Attributes() {
      pthread_attr_init(&value);
      std::size_t stack = 0;
      pthread_attr_getstacksize(&value, &stack);
      pthread_attr_setstacksize(&value, std::max(stack, kLeastStack));
    }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
    ~Attributes() { pthread_attr_destroy(&value); }
  };

  static void* run(void* work) {
    const std::unique_ptr<UniqueFunction<void()>> owned(static_cast<UniqueFunction<void()>*>(work));
    (*owned)();
    return nullptr;
  }

  pthread_t handle_{};
  bool is_joinable_ = false;
};

}  // namespace devrt
