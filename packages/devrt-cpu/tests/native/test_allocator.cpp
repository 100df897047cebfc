#include <sys/resource.h>

#include <cstring>
#include <limits>
#include <memory>

#include "devrt/buffers/storage.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/lent_allocator.hpp"
#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

void check_blocks(HostAllocator& allocator) {
  for (const std::size_t bytes : {1ul, 63ul, 64ul, 4097ul, std::size_t{5} << 20}) {
    void* data = allocator.allocate(bytes, kAlignment);
    CHECK(data && reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0);
    std::memset(data, 0xab, bytes);
    allocator.deallocate(data, bytes);
  }
  CHECK(!allocator.allocate(std::numeric_limits<std::size_t>::max() - 8, kAlignment));
}

}  // namespace

TEST_CASE(allocator_aligned) {
  AlignedAllocator allocator;
  check_blocks(allocator);
}

TEST_CASE(allocator_page_locked_counts) {
  PageLockedAllocator allocator;
  check_blocks(allocator);
  void* data = allocator.allocate(10, kAlignment);
  CHECK(allocator.locked_bytes() + allocator.unlocked_bytes() == 4096);
  allocator.deallocate(data, 10);
  CHECK(allocator.locked_bytes() == 0 && allocator.unlocked_bytes() == 0);
}

TEST_CASE(allocator_page_locked_works_without_the_right_to_lock) {
  rlimit before{};
  CHECK(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const rlimit none{0, before.rlim_max};
  CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
  PageLockedAllocator allocator;
  void* data = allocator.allocate(5000, kAlignment);
  CHECK(data);
  std::memset(data, 1, 5000);
  CHECK(allocator.locked_bytes() + allocator.unlocked_bytes() == 8192);
  allocator.deallocate(data, 5000);
  CHECK(allocator.unlocked_bytes() == 0);
  CHECK(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
}

TEST_CASE(allocator_statistics_chain_to_the_parent) {
  auto parent = std::make_shared<MemoryStats>(1000);
  auto stats = std::make_shared<MemoryStats>(100, parent);
  StatisticsAllocator allocator(std::make_shared<AlignedAllocator>(), stats);
  void* a = allocator.allocate(40, kAlignment);
  void* b = allocator.allocate(60, kAlignment);
  for (const MemoryStats* counted : {stats.get(), parent.get()}) {
    const MemorySnapshot s = counted->snapshot();
    CHECK(s.num_allocs == 2 && s.bytes_in_use == 100 && s.peak_bytes_in_use == 100);
    CHECK(s.largest_alloc_size == 60);
  }
  const Status status = harness::status_of([&] { (void)allocator.allocate(1, kAlignment); });
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK(status.message().find("bytes_in_use=100") != std::string::npos);
  allocator.deallocate(a, 40);
  allocator.deallocate(b, 60);
  CHECK(stats->bytes_in_use() == 0 && parent->bytes_in_use() == 0);
  CHECK(stats->snapshot().peak_bytes_in_use == 100);
}

TEST_CASE(allocator_statistics_add_up_under_threads) {
  auto stats = std::make_shared<MemoryStats>(physical_memory_bytes());
  auto allocator =
      std::make_shared<StatisticsAllocator>(std::make_shared<PageLockedAllocator>(), stats);
  in_threads(4, [&](std::size_t t) {
    for (std::size_t i = 0; i < 300; ++i) {
      const Ref<Storage> storage = Storage::allocate(allocator, (t + 1) * 100);
      std::memset(storage->data(), 1, storage->bytes());
    }
  });
  CHECK(stats->bytes_in_use() == 0);
  CHECK(stats->snapshot().num_allocs == 1200);
  CHECK(stats->snapshot().peak_bytes_in_use <= 1000);
}

TEST_CASE(allocator_foreign_checks_its_table) {
  std::atomic<int> released{0};
  devrt_host_allocator table{sizeof table,
                             nullptr,
                             [](void*, size_t bytes, size_t alignment) {
                               return std::aligned_alloc(
                                   alignment, (bytes + alignment - 1) / alignment * alignment);
                             },
                             [](void*, void* data, size_t) { std::free(data); },
                             nullptr,
                             nullptr};
  {
    ForeignAllocator allocator(&table, counted(released));
    void* data = allocator.allocate(10, kAlignment);
    CHECK(data);
    allocator.deallocate(data, 10);
  }
  CHECK(released == 1);
  table.struct_size = 8;
  CHECK(harness::status_of([&] { ForeignAllocator(&table, counted(released)); }).code() ==
        StatusCode::kInvalidArgument);
  CHECK(released == 2);
}

TEST_CASE(storage_lends_and_lets_go) {
  std::atomic<int> released{0};
  alignas(64) std::byte data[64] = {};
  Ref<Storage> storage = Storage::lend(data, 64, counted(released));
  Ref<Storage> share = storage.share();
  CHECK(storage->data() == data && storage->is_external());
  storage.reset();
  CHECK(released == 0);
  share.reset();
  CHECK(released == 1);
}

TEST_CASE(storage_of_nothing_allocates_nothing) {
  auto stats = std::make_shared<MemoryStats>(0);
  auto allocator =
      std::make_shared<StatisticsAllocator>(std::make_shared<AlignedAllocator>(), stats);
  const Ref<Storage> storage = Storage::allocate(allocator, 0);
  CHECK(storage->data() && storage->bytes() == 0);
  CHECK(stats->snapshot().num_allocs == 0);
}
