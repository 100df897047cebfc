// What several files of tests build: threads, an allocator that fails, arrays, programs.
#pragma once

#include <atomic>
#include <barrier>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "execution/executable.hpp"
#include "harness.hpp"

namespace harness {

/// Calls `body` with 0, 1, 2 ... in threads that start together, and `beside` in the caller;
/// throws what one of them threw once all have ended.
template <class Body, class Beside>
void in_threads(std::size_t count, const Body& body, const Beside& beside) {
  std::barrier start(static_cast<std::ptrdiff_t>(count) + 1);
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      try {
        body(t);
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
  }
  start.arrive_and_wait();
  beside();
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

template <class Body>
void in_threads(std::size_t count, const Body& body) {
  in_threads(count, body, [] {});
}

/// Counts what is out, and fails at a capacity and, on request, each time that a number divides.
class CountingAllocator final : public devrt::HostAllocator {
 public:
  explicit CountingAllocator(
      std::shared_ptr<HostAllocator> upstream = std::make_shared<devrt::AlignedAllocator>(),
      int failing = 0)
      : upstream_(std::move(upstream)), failing_(failing) {}

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    const int call = ++calls;
    if (failing_ && call % failing_ == 0 && ++failures) return nullptr;
    if (out + bytes > capacity) return nullptr;
    void* data = upstream_->allocate(bytes, alignment);
    if (data) out += bytes;
    return data;
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    out -= bytes;
    upstream_->deallocate(data, bytes);
  }
  std::size_t free_bytes() const noexcept override {
    return promised - std::min(promised, out.load());
  }
  std::vector<devrt::AllocatorFact> facts() const override { return {{"failures", failures}}; }

  std::atomic<std::size_t> out{0};
  std::atomic<int> calls{0};
  std::atomic<int> failures{0};
  std::size_t capacity = std::size_t{1} << 40;
  std::size_t promised = std::size_t{1} << 40;

 private:
  const std::shared_ptr<HostAllocator> upstream_;
  const int failing_;
};

/// An owner that counts its releases.
inline devrt::ExternalOwner counted(std::atomic<int>& released) {
  return {&released, [](void* c) noexcept { ++*static_cast<std::atomic<int>*>(c); }};
}

/// Floats of the host in row-major order.
struct Floats {
  explicit Floats(std::vector<float> data, std::vector<std::int64_t> extents = {})
      : values(std::move(data)), shape(std::move(extents)) {
    if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
    strides = devrt::dense_strides(shape, 4);
  }
  devrt::native::HostArray array() const {
    return {{reinterpret_cast<const std::byte*>(values.data()), shape, strides.span(), 4, 1},
            devrt::ElementType::kFloat32};
  }

  std::vector<float> values;
  std::vector<std::int64_t> shape;
  devrt::Dims strides;
};

inline devrt::Ref<devrt::native::Buffer> put(devrt::native::Memory& memory, const Floats& source,
                                             devrt::native::PutOptions options = {},
                                             devrt::ExternalOwner hold = {}) {
  return memory.device().client().put(memory, source.array(), hold, options);
}

/// Puts eight equal floats, as the programs of the fake plugin take them.
inline devrt::Ref<devrt::native::Buffer> put(devrt::native::Client& client, float value,
                                             std::size_t device = 0) {
  return put(client.local_devices()[device]->default_memory(),
             Floats(std::vector<float>(8, value)));
}

/// Returns the first element, once it is there.
inline float first(const devrt::native::Buffer& buffer) {
  raise_if_error(buffer.ready().wait());
  float value = 0;
  std::memcpy(&value, buffer.storage()->data(), sizeof(value));
  return value;
}

/// Compiles a program of the fake plugin, which does what its name says.
inline devrt::Ref<devrt::native::Executable> compile(devrt::native::Client& client,
                                                     const char* kind) {
  return devrt::native::Executable::compile(client, FAKE_PJRT, {kind, "mlir", ""});
}

inline devrt::Ref<devrt::native::Buffer> call(const devrt::native::Executable& executable,
                                              devrt::native::Buffer& argument) {
  devrt::native::Buffer* row[] = {&argument};
  const std::span<devrt::native::Buffer* const> arguments(row);
  (void)executable.check({&arguments, 1}, "execute");
  devrt::Ref<devrt::native::Buffer> result;
  executable.execute({&arguments, 1}, {&result, 1});
  return result;
}

}  // namespace harness
