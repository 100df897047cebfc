#include "devrt/memory/arena_allocator.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

constexpr std::size_t kKiB = 1024;

struct Fixture {
  explicit Fixture(std::size_t region, std::size_t keep = std::size_t{1} << 40)
      : arena(source, ArenaOptions{region, 4 * kKiB, keep}) {}

  char* get(std::size_t bytes, std::size_t alignment = kAlignment) {
    void* data = arena.allocate(bytes, alignment);
    CHECK(data && reinterpret_cast<std::uintptr_t>(data) % alignment == 0);
    return static_cast<char*>(data);
  }

  std::shared_ptr<CountingAllocator> source = std::make_shared<CountingAllocator>();
  ArenaAllocator arena;
};

using Blocks = std::map<char*, std::size_t>;

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Returns what blocks leave of the regions that they lie in.
Blocks stretches(const Blocks& regions, const Blocks& blocks) {
  Blocks free;
  for (const auto& [start, size] : regions) {
    char* at = start;
    for (auto block = blocks.lower_bound(start);
         block != blocks.end() && block->first < start + size; ++block) {
      if (at < block->first) free[at] = static_cast<std::size_t>(block->first - at);
      at = block->first + rounded(block->second);
    }
    if (at < start + size) free[at] = static_cast<std::size_t>(start + size - at);
  }
  return free;
}

std::size_t largest_of(const Blocks& blocks) {
  std::size_t found = 0;
  for (const auto& [start, size] : blocks) found = std::max(found, size);
  return found;
}

}  // namespace

TEST_CASE(arena_agrees_with_a_model_on_random_operations) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    Fixture f(256 * kKiB);
    Blocks regions;
    Blocks out;
    std::size_t in_use = 0;
    for (int i = 0; i < 1500; ++i) {
      if (out.empty() || random() % 5 < 3) {
        const std::size_t spread = std::size_t{1} << (random() % 17);
        const std::size_t bytes = 1 + random() % spread;
        Blocks free = stretches(regions, out);
        std::size_t expected = 0;  // the smallest stretch that it fits in
        for (const auto& [start, size] : free) {
          if (size >= rounded(bytes) && (!expected || size < expected)) expected = size;
        }
        char* data = f.get(bytes);
        if (expected == 0) {  // it grew: the block starts the new region
          CHECK(f.source->out % (4 * kKiB) == 0);
          std::size_t known = 0;
          for (const auto& [start, size] : regions) known += size;
          const std::size_t added = f.source->out - known;
          CHECK(added >= 256 * kKiB);
          regions[data] = added;
          free[data] = expected = added;
        }
        const auto [start, size] = *std::prev(free.upper_bound(data));
        CHECK(size == expected && data + rounded(bytes) <= start + size);  // best fit
        std::memset(data, static_cast<int>(bytes % 251), bytes);
        out[data] = bytes;
        in_use += rounded(bytes);
      } else {
        auto at = std::next(out.begin(), static_cast<long>(random() % out.size()));
        const auto [data, bytes] = *at;
        const auto* chars = reinterpret_cast<unsigned char*>(data);
        CHECK(std::all_of(chars, chars + bytes, [&](unsigned char c) { return c == bytes % 251; }));
        f.arena.deallocate(data, bytes);
        in_use -= rounded(bytes);
        out.erase(at);
      }
      const ArenaUsage usage = f.arena.usage();
      CHECK(usage.in_use_bytes == in_use && usage.regions == regions.size());
      CHECK(usage.held_bytes == f.source->out &&
            usage.largest_free_bytes == largest_of(stretches(regions, out)));
    }
    for (const auto& [data, bytes] : out) f.arena.deallocate(data, bytes);
    CHECK(f.arena.usage().in_use_bytes == 0);
    CHECK(f.arena.usage().largest_free_bytes == largest_of(regions));
    f.arena.trim();
    CHECK(f.source->out == 0 && f.arena.usage().regions == 0);
  }
}

TEST_CASE(arena_aligns_beyond_its_unit_and_merges_what_is_before) {
  Fixture f(64 * kKiB);
  char* first = f.get(100);
  char* page = f.get(4096, 4096);
  CHECK(page != first);
  char* between = f.get(64);
  CHECK(between > first && between < page);  // what was split off in front is used
  f.arena.deallocate(page, 4096);
  f.arena.deallocate(between, 64);
  f.arena.deallocate(first, 100);
  CHECK(f.arena.usage().largest_free_bytes == f.arena.usage().held_bytes);
}

TEST_CASE(arena_takes_a_small_region_where_memory_does_not_allow_a_large_one) {
  Fixture f(64 * kKiB);
  f.source->capacity = 20 * kKiB;
  char* data = f.get(10 * kKiB);
  CHECK(f.source->out == 12 * kKiB);
  CHECK(f.arena.allocate(12 * kKiB, kAlignment) == nullptr);
  CHECK(f.arena.allocate(std::numeric_limits<std::size_t>::max() - 5, kAlignment) == nullptr);
  f.arena.deallocate(data, 10 * kKiB);
}

TEST_CASE(arena_gives_back_empty_regions_beyond_what_it_keeps) {
  Fixture f(64 * kKiB, 64 * kKiB);
  std::vector<char*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(f.get(64 * kKiB));
  CHECK(f.source->out == 3 * 64 * kKiB);
  for (char* block : blocks) f.arena.deallocate(block, 64 * kKiB);
  CHECK(f.source->out == 64 * kKiB && f.arena.usage().regions == 1);
}

TEST_CASE(arena_adds_up_under_threads) {
  Fixture f(64 * kKiB, 128 * kKiB);
  in_threads(4, [&](std::size_t t) {
    std::mt19937 random(static_cast<unsigned>(t));
    std::vector<std::pair<char*, std::size_t>> mine;
    for (int i = 0; i < 400; ++i) {
      const std::size_t bytes = 1 + random() % 9000;
      mine.emplace_back(f.get(bytes), bytes);
      std::memset(mine.back().first, static_cast<int>(t), bytes);
      if (mine.size() < 8) continue;
      std::swap(mine[random() % mine.size()], mine.back());
      const auto [data, size] = mine.back();
      CHECK(data[0] == static_cast<char>(t) && data[size - 1] == static_cast<char>(t));
      f.arena.deallocate(data, size);
      mine.pop_back();
    }
    for (const auto& [data, size] : mine) f.arena.deallocate(data, size);
  });
  CHECK(f.arena.usage().in_use_bytes == 0);
  f.arena.trim();
  CHECK(f.source->out == 0);
}

TEST_CASE(arena_finds_a_freed_chunk_of_just_the_size_at_any_alignment) {
  constexpr std::size_t kLarge = 256;  // what drivers align to
  Fixture f(64 * kKiB);
  f.source->capacity = 64 * kKiB;
  std::vector<char*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(f.get(4 * kKiB, kLarge));
  CHECK(f.arena.allocate(4 * kKiB, kLarge) == nullptr);
  f.arena.deallocate(blocks[7], 4 * kKiB);
  CHECK(f.get(4 * kKiB, kLarge) == blocks[7]);
  f.arena.deallocate(blocks[3], 4 * kKiB);
  char* small = f.get(64);  // leaves a chunk that is large enough and begins between multiples
  CHECK(f.arena.allocate(4 * kKiB - 64, kLarge) == nullptr);
  blocks[3] = f.get(4 * kKiB - kLarge, kLarge);
  CHECK(blocks[3] == small + kLarge);
  f.arena.deallocate(small, 64);
  for (char* block : blocks) f.arena.deallocate(block, 0);
  CHECK(f.arena.usage().in_use_bytes == 0);
}
