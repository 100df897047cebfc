#include "client/region_copy.hpp"

#include <cstdint>
#include <vector>

#include "client/assembly.hpp"
#include "fixtures.hpp"

namespace devrt::native {

namespace {

std::int64_t volume(const std::vector<std::int64_t>& shape) {
  std::int64_t total = 1;
  for (const std::int64_t extent : shape) total *= extent;
  return total;
}

/// Row-major position of the element `index` of a box that starts at `start`.
std::size_t position(std::int64_t index, const std::vector<std::int64_t>& extent,
                     const std::vector<std::int64_t>& start,
                     const std::vector<std::int64_t>& shape) {
  std::int64_t at = 0;
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    at += (start[i] + index % extent[i]) * step;
    index /= extent[i];
    step *= shape[i];
  }
  return static_cast<std::size_t>(at);
}

bool copies_right(const std::vector<std::int64_t>& from_shape,
                  const std::vector<std::int64_t>& from_start,
                  const std::vector<std::int64_t>& to_shape,
                  const std::vector<std::int64_t>& to_start,
                  const std::vector<std::int64_t>& extent, ThreadPool& pool) {
  std::vector<std::int32_t> from(static_cast<std::size_t>(volume(from_shape)));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int32_t>(i) + 1;
  std::vector<std::int32_t> to(static_cast<std::size_t>(volume(to_shape)), 0);
  std::vector<std::int32_t> expected = to;
  for (std::int64_t i = 0; i < volume(extent); ++i) {
    expected[position(i, extent, to_start, to_shape)] =
        from[position(i, extent, from_start, from_shape)];
  }
  std::vector<RegionCopy> copies;
  add_region_copy({reinterpret_cast<const std::byte*>(from.data()), from_shape, from_start},
                  {reinterpret_cast<std::byte*>(to.data()), to_shape, to_start}, extent, 4, copies);
  run_region_copies(copies, pool);
  return to == expected;
}

}  // namespace

TEST_CASE(region_copies_of_every_rank) {
  ThreadPool pool("test", 4);
  CHECK(copies_right({}, {}, {}, {}, {}, pool));
  CHECK(copies_right({5}, {1}, {7}, {3}, {4}, pool));
  CHECK(copies_right({5, 6}, {1, 2}, {4, 9}, {0, 5}, {3, 4}, pool));
  CHECK(copies_right({5, 6}, {1, 0}, {4, 6}, {0, 0}, {3, 6}, pool));
  CHECK(copies_right({2, 3, 4}, {0, 1, 0}, {3, 2, 4}, {1, 0, 0}, {2, 2, 4}, pool));
  CHECK(copies_right({2, 2, 2, 2, 2, 2, 2}, {0, 0, 0, 0, 0, 0, 0}, {3, 3, 3, 3, 3, 3, 3},
                     {1, 0, 1, 0, 1, 0, 1}, {2, 2, 2, 2, 2, 2, 2}, pool));
  CHECK(copies_right({3, 0}, {1, 0}, {2, 4}, {0, 0}, {1, 0}, pool));
}

TEST_CASE(large_region_copies_are_shared_among_threads) {
  for (const unsigned width : {1u, 2u, 7u}) {
    ThreadPool pool("test", width);
    CHECK(copies_right({1 << 20}, {3}, {1 << 20}, {1}, {(1 << 20) - 3}, pool));
    CHECK(copies_right({1031, 700}, {0, 5}, {1031, 601}, {0, 1}, {1031, 600}, pool));
  }
}

TEST_CASE(assemblies_wait_for_their_sources_only) {
  ClientOptions options;
  options.num_devices = 2;
  auto client = Client::make(std::move(options));
  Memory& memory = client->devices()[0]->default_memory();
  const Ref<Buffer> ready = harness::put(memory, harness::Floats({1, 2, 3, 4}));
  ReadyPromise promise;
  const Ref<Buffer> late = Buffer::make(memory.shared(), ElementType::kFloat32, Dims{4},
                                        ready->storage(), promise.event());
  // Two blocks of two elements: one of each source.
  const std::vector<std::int64_t> numbers = {1, 2, 2, 2, 2, 0, 1, 1, 0, 1, 0, 2, 1, 1, 2, 0, 2};
  Memory* targets[] = {&memory, &client->devices()[1]->default_memory()};
  const Buffer* sources[] = {ready.get(), late.get()};
  const auto made = client->assemble(sources, Assembly::read(numbers), targets, true);
  CHECK(!made[1]->ready().is_ready());
  promise.set(Status(StatusCode::kInternal, "lost"));
  CHECK(made[0]->ready().wait().ok());
  CHECK(made[1]->ready().wait().code() == StatusCode::kInternal);
  const auto* block = reinterpret_cast<const float*>(made[0]->storage()->data());
  CHECK(block[0] == 2 && block[1] == 3);
}

}  // namespace devrt::native
