#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "devrt/memory/arena_allocator.hpp"
#include "harness.hpp"

using namespace devrt;

namespace {

constexpr std::size_t kKiB = 1024;

/// Counts what is out, and can be set to run out of memory.
class Source final : public HostAllocator {
 public:
  void* allocate(std::size_t bytes, std::size_t alignment) override {
    if (out + bytes > capacity) return nullptr;
    out += bytes;
    return heap_.allocate(bytes, alignment);
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    out -= bytes;
    heap_.deallocate(data, bytes);
  }

  std::atomic<std::size_t> out{0};
  std::size_t capacity = std::size_t{1} << 40;

 private:
  AlignedAllocator heap_;
};

struct Fixture {
  explicit Fixture(std::size_t region, std::size_t keep = std::size_t{1} << 40)
      : arena(source, ArenaOptions{region, 4 * kKiB, keep}) {}

  char* get(std::size_t bytes, std::size_t alignment = kAlignment) {
    void* data = arena.allocate(bytes, alignment);
    CHECK(data && reinterpret_cast<std::uintptr_t>(data) % alignment == 0);
    return static_cast<char*>(data);
  }

  std::shared_ptr<Source> source = std::make_shared<Source>();
  ArenaAllocator arena;
};

/// What an arena must do, modelled with sorted maps: block to size, and the free stretches of
/// regions.
class Model {
 public:
  void add_region(char* start, std::size_t bytes) { free_[start] = bytes; }

  /// Returns the size of the smallest free stretch that `bytes` fit in; 0 if none does.
  std::size_t best(std::size_t bytes) const {
    std::size_t found = 0;
    for (const auto& [start, size] : free_) {
      if (size >= bytes && (found == 0 || size < found)) found = size;
    }
    return found;
  }
  std::size_t largest() const {
    std::size_t found = 0;
    for (const auto& [start, size] : free_) found = std::max(found, size);
    return found;
  }
  /// Takes a block out of the free stretch that it lies in; returns that one's size before.
  std::size_t take(char* data, std::size_t bytes) {
    auto at = std::prev(free_.upper_bound(data));
    const auto [start, size] = *at;
    CHECK(start <= data && data + bytes <= start + size);
    free_.erase(at);
    if (start < data) free_[start] = static_cast<std::size_t>(data - start);
    if (data + bytes < start + size) {
      free_[data + bytes] = static_cast<std::size_t>(start + size - (data + bytes));
    }
    return size;
  }
  /// Puts a block back; never across the borders of regions, which are kept apart by `edges`.
  void give(char* data, std::size_t bytes, const std::map<char*, std::size_t>& regions) {
    const auto region = std::prev(regions.upper_bound(data));
    char* const end = region->first + region->second;
    const auto after = free_.find(data + bytes);
    if (after != free_.end() && data + bytes < end) {
      bytes += after->second;
      free_.erase(after);
    }
    const auto next = free_.lower_bound(data);
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == data && before->first >= region->first) {
        before->second += bytes;
        return;
      }
    }
    free_[data] = bytes;
  }

 private:
  std::map<char*, std::size_t> free_;
};

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

TEST_CASE(arena_agrees_with_a_model_on_random_operations) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    Fixture f(256 * kKiB);
    Model model;
    std::map<char*, std::size_t> regions;
    std::map<char*, std::size_t> out;
    std::size_t in_use = 0;
    for (int i = 0; i < 1500; ++i) {
      if (out.empty() || random() % 5 < 3) {
        const std::size_t spread = std::size_t{1} << (random() % 17);
        const std::size_t bytes = 1 + random() % spread;
        const std::size_t expected = model.best(rounded(bytes));
        char* data = f.get(bytes);
        if (expected == 0) {  // it grew: the block starts the new region
          CHECK(f.source->out % (4 * kKiB) == 0);
          std::size_t known = 0;
          for (const auto& [start, size] : regions) known += size;
          const std::size_t added = f.source->out - known;
          CHECK(added >= 256 * kKiB);
          regions[data] = added;
          model.add_region(data, added);
        }
        const std::size_t size = model.take(data, rounded(bytes));
        CHECK(expected == 0 || size == expected);  // best fit
        std::memset(data, static_cast<int>(bytes % 251), bytes);
        out[data] = bytes;
        in_use += rounded(bytes);
      } else {
        auto at = std::next(out.begin(), static_cast<long>(random() % out.size()));
        const auto [data, bytes] = *at;
        const auto* chars = reinterpret_cast<unsigned char*>(data);
        CHECK(std::all_of(chars, chars + bytes, [&](unsigned char c) { return c == bytes % 251; }));
        f.arena.deallocate(data, bytes);
        model.give(data, rounded(bytes), regions);
        in_use -= rounded(bytes);
        out.erase(at);
      }
      const ArenaUsage usage = f.arena.usage();
      CHECK(usage.in_use_bytes == in_use && usage.regions == regions.size());
      CHECK(usage.held_bytes == f.source->out && usage.largest_free_bytes == model.largest());
    }
    for (const auto& [data, bytes] : out) f.arena.deallocate(data, bytes);
    std::size_t largest = 0;
    for (const auto& [start, size] : regions) largest = std::max(largest, size);
    CHECK(f.arena.usage().in_use_bytes == 0 && f.arena.usage().largest_free_bytes == largest);
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
  {
    std::barrier start(4);
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        std::vector<std::pair<char*, std::size_t>> mine;
        start.arrive_and_wait();
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
    }
  }
  CHECK(f.arena.usage().in_use_bytes == 0);
  f.arena.trim();
  CHECK(f.source->out == 0);
}
