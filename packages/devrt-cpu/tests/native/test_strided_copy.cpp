#include <cstring>
#include <random>
#include <vector>

#include "devrt/buffers/strided_copy.hpp"
#include "harness.hpp"

using namespace devrt;

namespace {

/// The definition, one element after another.
std::vector<std::byte> model(const StridedView& view) {
  std::vector<std::byte> out;
  std::vector<std::int64_t> index(view.shape.size(), 0);
  std::size_t count = 1;
  for (const std::int64_t extent : view.shape) count *= static_cast<std::size_t>(extent);
  out.reserve(count * view.itemsize);
  for (std::size_t n = 0; n < count; ++n) {
    const std::byte* from = view.data;
    for (std::size_t d = 0; d < index.size(); ++d) from += index[d] * view.strides[d];
    out.insert(out.end(), from, from + view.itemsize);
    const auto item = out.end() - static_cast<std::ptrdiff_t>(view.itemsize);
    for (std::size_t i = 0; i < view.itemsize && view.swap > 1; i += view.swap) {
      std::reverse(item + static_cast<std::ptrdiff_t>(i),
                   item + static_cast<std::ptrdiff_t>(i + view.swap));
    }
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < view.shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

void check_copy(const StridedView& view, unsigned threads) {
  ThreadPool workers("test", threads);
  ThreadPool* pool = threads > 1 ? &workers : nullptr;
  const std::vector<std::byte> expected = model(view);
  std::vector<std::byte> got(expected.size() + 1, std::byte{0x5a});
  copy_to_dense(view, got.data(), pool);
  CHECK(got.back() == std::byte{0x5a});
  CHECK(expected.empty() || std::memcmp(got.data(), expected.data(), expected.size()) == 0);
}

}  // namespace

TEST_CASE(strided_copy_equals_its_definition) {
  std::mt19937 random(3);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::vector<std::byte> source(1 << 16);
  for (std::byte& b : source) b = static_cast<std::byte>(random());
  for (int round = 0; round < 2000; ++round) {
    Dims shape(static_cast<std::size_t>(pick(0, 4)));
    Dims strides(shape.size());
    const std::size_t itemsize = std::size_t{1} << pick(0, 4);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      shape[d] = pick(round % 10 ? 1 : 0, 6);
      strides[d] = pick(-40, 40) * static_cast<std::int64_t>(itemsize);
    }
    if (round % 3 == 0) strides = dense_strides(shape.span(), itemsize);
    const std::size_t swap = itemsize > 1 && round % 2 ? itemsize : 1;
    check_copy({source.data() + (1 << 15), shape.span(), strides.span(), itemsize, swap}, 1);
  }
}

TEST_CASE(strided_copy_large_is_shared_among_threads) {
  std::vector<std::byte> source(std::size_t{6} << 20);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 >> 3);
  const Dims dense{1 << 10, 3 << 9, 4};
  check_copy({source.data(), dense.span(), dense_strides(dense.span(), 1).span(), 1, 1}, 3);
  const Dims shape{3 << 8, 1 << 10};
  const Dims transposed{8, 8 * (3 << 8)};
  check_copy({source.data(), shape.span(), transposed.span(), 8, 8}, 2);
  const Dims rows{512, 1024};
  const Dims backwards{-8192, 8};
  check_copy({source.data() + 8192 * 511, rows.span(), backwards.span(), 8, 1}, 4);
}

TEST_CASE(shapes_are_checked) {
  CHECK(checked_bytes(Dims{2, 3}.span(), 4) == 24);
  CHECK(checked_bytes(Dims{}.span(), 4) == 4);
  CHECK(checked_bytes(Dims{1ll << 40, 0, 1ll << 40}.span(), 8) == 0);
  CHECK(harness::status_of([] { (void)checked_bytes(Dims{-1}.span(), 1); }).code() ==
        StatusCode::kInvalidArgument);
  CHECK(harness::status_of([] {
          (void)checked_bytes(Dims{1ll << 40, 1ll << 40}.span(), 1);
        }).code() == StatusCode::kInvalidArgument);
  CHECK(harness::status_of([] { Dims dims(65); }).code() == StatusCode::kInvalidArgument);
  Dims many(7);
  many[6] = 5;
  const Dims moved = std::move(many);
  const Dims copied = moved.copy();
  CHECK(copied.size() == 7 && copied.data()[6] == 5);
}
