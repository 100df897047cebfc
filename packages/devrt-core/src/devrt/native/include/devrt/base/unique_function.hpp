// A callable that is moved, never copied, so that it can own what it needs.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace devrt {

template <class Signature>
class UniqueFunction;

/// Owner of one callable of the given signature; empty until one is assigned.
template <class Result, class... Args>
class UniqueFunction<Result(Args...)> {
 public:
  UniqueFunction() noexcept = default;

  template <class Callable>
    requires(!std::is_same_v<std::decay_t<Callable>, UniqueFunction>)
  UniqueFunction(Callable&& callable)
      : target_(
            std::make_unique<Holder<std::decay_t<Callable>>>(std::forward<Callable>(callable))) {}

  Result operator()(Args... args) { return target_->call(std::forward<Args>(args)...); }
  explicit operator bool() const noexcept { return target_ != nullptr; }

 private:
  struct Base {
    Base() = default;
    Base(const Base&) = delete;
    Base& operator=(const Base&) = delete;
    virtual ~Base() = default;
    virtual Result call(Args... args) = 0;
  };
  template <class Callable>
  struct Holder final : Base {
    explicit Holder(Callable callable) : callable_(std::move(callable)) {}
    Result call(Args... args) override { return callable_(std::forward<Args>(args)...); }
    Callable callable_;
  };

  std::unique_ptr<Base> target_;
};

}  // namespace devrt
