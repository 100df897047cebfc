// Arrays of a length known when they are made, which seldom need the heap.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace devrt {

/// A fixed-length array of default-made elements; up to `Inline` are stored inside.
template <class T, std::size_t Inline>
class SmallArray {
 public:
  explicit SmallArray(std::size_t size)
      : size_(size),
        heap_(size > Inline ? std::make_unique<T[]>(size) : nullptr),
        data_(heap_ ? heap_.get() : reinterpret_cast<T*>(inside_)) {
    // Only those that there are: all of them would cost a small program's call more than its own.
    if (!heap_) std::uninitialized_value_construct_n(data_, size_);
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;
  ~SmallArray() {
    if (!heap_) std::destroy_n(data_, size_);
  }

  std::size_t size() const noexcept { return size_; }
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  std::span<T> span() noexcept { return {data_, size_}; }

 private:
  const std::size_t size_;
  const std::unique_ptr<T[]> heap_;
  T* const data_;
  alignas(T) std::byte inside_[Inline * sizeof(T)];
};

}  // namespace devrt
