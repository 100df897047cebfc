#include "devrt/memory/recycling_allocator.hpp"

#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

constexpr std::size_t kKiB = 1024;

/// One allocator over one cache, as a client makes them.
struct Fixture {
  explicit Fixture(std::size_t limit) : cache(std::make_shared<BlockCache>(limit)) {}

  std::size_t held() const { return static_cast<std::size_t>(reserved->bytes()); }
  void* get(std::size_t bytes) {
    void* data = allocator.allocate(bytes, kAlignment);
    CHECK(data && reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0);
    std::memset(data, 1, bytes);
    return data;
  }
  void give(void* data, std::size_t bytes) { allocator.deallocate(data, bytes); }

  std::shared_ptr<CountingAllocator> source = std::make_shared<CountingAllocator>();
  std::shared_ptr<BlockCache> cache;
  std::shared_ptr<ReservedBytes> reserved = std::make_shared<ReservedBytes>();
  RecyclingAllocator allocator{source, cache, reserved, 64 * kKiB};
};

}  // namespace

TEST_CASE(recycling_size_classes_are_ordered_and_close) {
  std::size_t last = 0;
  for (std::size_t bytes = 1; bytes < std::size_t{40} << 20; bytes += 1 + bytes / 61) {
    const SizeClass size = SizeClass::of(bytes);
    CHECK(size.bytes >= bytes && size.bytes % 4096 == 0 && size.index >= last);
    CHECK(size.bytes - bytes < std::max<std::size_t>(4096, bytes / 8 + 1));
    CHECK(SizeClass::of(size.bytes).index == size.index);
    CHECK(SizeClass::of(size.bytes + 1).index == size.index + 1);
    last = size.index;
  }
  CHECK(SizeClass::of(64 * kKiB).bytes == 64 * kKiB);
  CHECK(SizeClass::of(64 * kKiB + 1).bytes == 72 * kKiB);
  CHECK(SizeClass::of(SizeClass::kLimit).index == SizeClass::kCount - 1);
}

TEST_CASE(recycling_gives_the_last_freed_block_of_the_class) {
  Fixture f(10 << 20);
  void* a = f.get(100 * kKiB);
  void* b = f.get(104 * kKiB);
  f.give(a, 100 * kKiB);
  f.give(b, 104 * kKiB);
  CHECK(f.cache->kept_bytes() == 2 * 104 * kKiB);
  CHECK(f.get(99 * kKiB) == b && f.get(97 * kKiB) == a);
  CHECK(f.source->calls == 2 && f.cache->kept_bytes() == 0);
  CHECK(f.held() == 2 * 104 * kKiB);
  f.give(a, 97 * kKiB);
  f.give(b, 99 * kKiB);
  f.cache->trim();
  CHECK(f.held() == 0 && f.source->out == 0 && f.cache->kept_bytes() == 0);
  CHECK(f.reserved->peak() == 2 * 104 * kKiB);
}

TEST_CASE(recycling_leaves_small_blocks_alone) {
  Fixture f(10 << 20);
  void* data = f.get(1000);
  CHECK(f.held() == 1000);
  f.give(data, 1000);
  CHECK(f.held() == 0 && f.source->out == 0);
}

TEST_CASE(recycling_gives_the_oldest_back_at_the_limit) {
  Fixture f(300 * kKiB);
  void* blocks[] = {f.get(80 * kKiB), f.get(96 * kKiB), f.get(128 * kKiB)};
  f.give(blocks[0], 80 * kKiB);
  f.give(blocks[1], 96 * kKiB);
  f.give(blocks[2], 128 * kKiB);  // 304 KiB: the first must go
  CHECK(f.cache->kept_bytes() == 224 * kKiB && f.held() == 224 * kKiB);
  void* kept = f.get(96 * kKiB);
  CHECK(kept == blocks[1] && f.source->calls == 3);
  f.give(kept, 96 * kKiB);
  void* large = f.get(400 * kKiB);
  f.give(large, 400 * kKiB);  // above the limit alone: kept not at all
  CHECK(f.cache->kept_bytes() == 224 * kKiB);
}

TEST_CASE(recycling_keeps_nothing_once_closed) {
  Fixture f(1 << 20);
  void* out = f.get(100 * kKiB);
  f.give(f.get(100 * kKiB), 100 * kKiB);
  f.cache->close();
  CHECK(f.source->out == 104 * kKiB);
  f.give(out, 100 * kKiB);
  CHECK(f.held() == 0 && f.source->out == 0);
}

TEST_CASE(recycling_trims_before_it_gives_up) {
  Fixture f(10 << 20);
  f.source->capacity = 256 * kKiB;
  f.give(f.get(256 * kKiB), 256 * kKiB);
  void* data = f.get(128 * kKiB);  // fits only when the kept block is given back
  CHECK(f.held() == 128 * kKiB);
  CHECK(!f.allocator.allocate(512 * kKiB, kAlignment));
  f.give(data, 128 * kKiB);
  f.source->promised = 160 * kKiB;
  data = f.get(64 * kKiB);  // could be had, but not as promised while the other is kept
  CHECK(f.held() == 64 * kKiB);
  f.give(data, 64 * kKiB);
}

TEST_CASE(recycling_allocators_share_one_limit) {
  auto cache = std::make_shared<BlockCache>(200 * kKiB);
  auto total = std::make_shared<ReservedBytes>();
  const auto make = [&] {
    return std::make_unique<RecyclingAllocator>(std::make_shared<AlignedAllocator>(), cache,
                                                std::make_shared<ReservedBytes>(total), 1);
  };
  auto first = make();
  auto second = make();
  first->deallocate(first->allocate(128 * kKiB, kAlignment), 128 * kKiB);
  second->deallocate(second->allocate(128 * kKiB, kAlignment), 128 * kKiB);
  CHECK(cache->kept_bytes() == 128 * kKiB && total->bytes() == 128 * kKiB);
  first.reset();
  CHECK(cache->kept_bytes() == 128 * kKiB);
  second.reset();  // takes its blocks along
  CHECK(cache->kept_bytes() == 0 && total->bytes() == 0);
}

TEST_CASE(recycling_only_counts_where_it_must_not_keep) {
  auto cache = std::make_shared<BlockCache>(1 << 20);
  auto reserved = std::make_shared<ReservedBytes>();
  RecyclingAllocator allocator(std::make_shared<AlignedAllocator>(), cache, reserved,
                               RecyclingAllocator::kNever);
  void* data = allocator.allocate(100'001, kAlignment);
  CHECK(reserved->bytes() == 100'001);
  allocator.deallocate(data, 100'001);
  CHECK(reserved->bytes() == 0 && cache->kept_bytes() == 0);
}

TEST_CASE(recycling_locked_pages_stay_locked_and_within_the_limit) {
  auto cache = std::make_shared<BlockCache>(1 << 20);
  auto pages = std::make_shared<PageLockedAllocator>();
  RecyclingAllocator allocator(pages, cache, std::make_shared<ReservedBytes>(), 1);
  void* data = allocator.allocate(10, kAlignment);
  const std::size_t locked = pages->locked_bytes();
  allocator.deallocate(data, 10);
  CHECK(allocator.allocate(4096, kAlignment) == data && pages->locked_bytes() == locked);
  allocator.deallocate(data, 4096);
  cache->trim();
  CHECK(pages->locked_bytes() + pages->unlocked_bytes() == 0);
}

TEST_CASE(recycling_adds_up_under_threads) {
  Fixture f(1 << 20);
  auto stats = std::make_shared<MemoryStats>(std::int64_t{1} << 40, nullptr, f.reserved);
  const auto counted = std::make_shared<StatisticsAllocator>(
      std::make_shared<RecyclingAllocator>(f.source, f.cache, f.reserved, 64 * kKiB), stats);
  in_threads(
      4,
      [&](std::size_t t) {
        for (std::size_t i = 0; i < 300; ++i) {
          const std::size_t bytes = 50 * kKiB * (1 + (t + 1) * i % 7);
          const Ref<Storage> storage = Storage::allocate(counted, bytes);
          storage->data()[0] = storage->data()[bytes - 1] = static_cast<std::byte>(t);
          const Ref<Storage> other = Storage::allocate(counted, bytes);
          other->data()[bytes / 2] = std::byte{9};
          CHECK(storage->data()[0] == static_cast<std::byte>(t) &&
                other->data() != storage->data());
        }
      },
      [&] {
        for (int i = 0; i < 50; ++i) f.cache->trim();
      });
  CHECK(f.cache->kept_bytes() <= f.cache->limit());
  CHECK(stats->snapshot().bytes_reserved == static_cast<std::int64_t>(f.cache->kept_bytes()));
  f.cache->trim();
  CHECK(stats->snapshot().bytes_reserved == 0 && stats->bytes_in_use() == 0);
  CHECK(f.source->out == 0);
}
