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
  explicit SmallArray(std::size_t size) : size_(size) {
    if (size > Inline) heap_ = std::make_unique<T[]>(size);
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  std::size_t size() const noexcept { return size_; }
  T* data() noexcept { return heap_ ? heap_.get() : inline_; }
  const T* data() const noexcept { return heap_ ? heap_.get() : inline_; }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  std::span<T> span() noexcept { return {data(), size_}; }

 private:
  std::size_t size_;
  T inline_[Inline]{};
  std::unique_ptr<T[]> heap_;
};

}  // namespace devrt
