#include <cstring>
#include <limits>
#include <memory>

#include "devrt/memory/huge_page_allocator.hpp"
#include "devrt/memory/lent_allocator.hpp"
#include "devrt/memory/limit_allocator.hpp"
#include "devrt/memory/recycling_allocator.hpp"
#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

std::int64_t fact(const HostAllocator& allocator, const std::string& name) {
  for (const AllocatorFact& fact : allocator.facts()) {
    if (fact.name == name) return fact.value;
  }
  return -1;
}

}  // namespace

TEST_CASE(limit_is_exact_and_never_overdrawn_by_threads) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  LimitAllocator allocator(std::make_shared<AlignedAllocator>(), budget);
  void* all = allocator.allocate(1000, kAlignment);
  CHECK(all && !allocator.allocate(1, kAlignment) && allocator.free_bytes() == 0);
  allocator.deallocate(all, 1000);
  CHECK(!allocator.allocate(std::numeric_limits<std::size_t>::max(), kAlignment));
  in_threads(4, [&](std::size_t) {
    for (int i = 0; i < 2000; ++i) {
      void* data = allocator.allocate(300, kAlignment);
      CHECK(budget->used() <= 1000);
      if (data) allocator.deallocate(data, 300);
    }
  });
  CHECK(budget->used() == 0 && budget->left() == 1000);
}

TEST_CASE(limit_gives_back_what_the_wrapped_allocator_refused) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  const auto failing = std::make_shared<CountingAllocator>();
  failing->capacity = 0;
  LimitAllocator allocator(failing, budget);
  CHECK(!allocator.allocate(10, kAlignment) && budget->used() == 0);
}

TEST_CASE(limit_inside_recycling_bounds_what_is_held) {
  constexpr std::size_t kBlock = std::size_t{64} << 10;
  const auto cache = std::make_shared<BlockCache>(10 * kBlock);
  const auto budget = std::make_shared<ByteBudget>(2 * kBlock);
  RecyclingAllocator allocator(
      std::make_shared<LimitAllocator>(std::make_shared<AlignedAllocator>(), budget), cache,
      std::make_shared<ReservedBytes>(), 1);
  void* first = allocator.allocate(kBlock, kAlignment);
  allocator.deallocate(first, kBlock);
  CHECK(budget->used() == kBlock && cache->kept_bytes() == kBlock);
  void* large = allocator.allocate(2 * kBlock, kAlignment);  // the kept block is freed
  CHECK(large && cache->kept_bytes() == 0 && budget->used() == 2 * kBlock);
  allocator.deallocate(large, 2 * kBlock);
}

TEST_CASE(recycling_trims_to_a_size_oldest_first) {
  const auto cache = std::make_shared<BlockCache>(std::size_t{1} << 20);
  RecyclingAllocator allocator(std::make_shared<AlignedAllocator>(), cache,
                               std::make_shared<ReservedBytes>(), 1);
  void* a = allocator.allocate(4096, kAlignment);
  void* b = allocator.allocate(8192, kAlignment);
  allocator.deallocate(a, 4096);
  allocator.deallocate(b, 8192);
  cache->trim_to(12288);
  CHECK(cache->kept_bytes() == 12288);
  cache->trim_to(9000);
  CHECK(cache->kept_bytes() == 8192);
  cache->trim_to(0);
  CHECK(cache->kept_bytes() == 0);
}

TEST_CASE(lent_allocator_crosses_the_border_of_c) {
  const auto budget = std::make_shared<ByteBudget>(100);
  const LentAllocator lent(std::make_shared<CountingAllocator>(
      std::make_shared<LimitAllocator>(std::make_shared<AlignedAllocator>(), budget), 2));
  ForeignAllocator allocator(&lent.table(), {});
  void* data = allocator.allocate(60, kAlignment);
  CHECK(data && budget->used() == 60);
  CHECK(!allocator.allocate(1, kAlignment) && fact(allocator, "failures") == 1);
  CHECK(!allocator.allocate(60, kAlignment));
  allocator.deallocate(data, 60);
  CHECK(budget->used() == 0);
}

TEST_CASE(lent_allocator_may_end_after_its_first_fields) {
  devrt_host_allocator table{};
  table.struct_size = DEVRT_HOST_ALLOCATOR_MIN_SIZE;
  table.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  table.deallocate = [](void*, void*, size_t) {};
  table.facts = [](void*, devrt_allocator_fact*, size_t) -> size_t { std::abort(); };
  table.trim = [](void*) { std::abort(); };
  ForeignAllocator allocator(&table, {});
  CHECK(allocator.facts().empty());
  allocator.trim();
  table.struct_size = sizeof table;
  table.facts = nullptr;
  table.trim = nullptr;
  CHECK(allocator.facts().empty());
  allocator.trim();
}

TEST_CASE(huge_pages_are_whole_and_counted) {
  HugePageAllocator allocator;
  const std::size_t bytes = 3 * HugePageAllocator::kHugePage - 5;
  void* data = allocator.allocate(bytes, kAlignment);
  CHECK(data && reinterpret_cast<std::uintptr_t>(data) % HugePageAllocator::kHugePage == 0);
  std::memset(data, 1, bytes);
  const HugePageAllocator::Grant grant = allocator.grant();
  CHECK(grant.mapped_bytes == 3 * HugePageAllocator::kHugePage);
  CHECK(grant.reserved_bytes + grant.transparent_bytes <= grant.mapped_bytes);
  allocator.deallocate(data, bytes);
  CHECK(allocator.grant().mapped_bytes == 0);
  CHECK(!allocator.allocate(std::numeric_limits<std::size_t>::max() - 8, kAlignment));
}
