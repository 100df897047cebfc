// Ownership of something outside: a context and the function that releases it.
#pragma once

#include <utility>

namespace devrt {

/// Calls `release(context)` once, when destroyed. The function must not throw nor wait on the GIL.
class ExternalOwner {
 public:
  using Release = void (*)(void* context) noexcept;

  ExternalOwner() noexcept = default;
  ExternalOwner(void* context, Release release) noexcept : context_(context), release_(release) {}
  ExternalOwner(ExternalOwner&& other) noexcept
      : context_(other.context_), release_(std::exchange(other.release_, nullptr)) {}
  ExternalOwner& operator=(ExternalOwner&& other) noexcept {
    reset();
    context_ = other.context_;
    release_ = std::exchange(other.release_, nullptr);
    return *this;
  }
  ExternalOwner(const ExternalOwner&) = delete;
  ExternalOwner& operator=(const ExternalOwner&) = delete;
  ~ExternalOwner() { reset(); }

  void reset() noexcept {
    if (Release release = std::exchange(release_, nullptr)) release(context_);
  }
  void* context() const noexcept { return context_; }
  explicit operator bool() const noexcept { return release_ != nullptr; }

 private:
  void* context_ = nullptr;
  Release release_ = nullptr;
};

}  // namespace devrt
