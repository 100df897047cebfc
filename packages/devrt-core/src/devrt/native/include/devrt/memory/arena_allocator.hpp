// Carves allocations out of large regions: best fit, with splitting and merging.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devrt/base/fork_guard.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/arena_bins.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace devrt {

namespace detail {

struct ArenaRegion {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  ArenaChunk* first = nullptr;

  bool is_empty() const noexcept { return first->is_free && first->bytes == bytes; }
};

// A use of freed memory must not go unseen because the region is kept.
inline void hide_free([[maybe_unused]] const ArenaChunk& chunk) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(chunk.data, chunk.bytes);
#endif
}
inline void show_free([[maybe_unused]] const ArenaChunk& chunk) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(chunk.data, chunk.bytes);
#endif
}

}  // namespace detail

/// What an arena takes from the allocator that it wraps.
struct ArenaOptions {
  /// Least size of a region.
  std::size_t region_bytes = std::size_t{32} << 20;
  /// What a region's size is a multiple of: a power of two, at least 64.
  std::size_t granule = std::size_t{4} << 10;
  /// How many free bytes to keep; a region that falls empty beyond that is given back.
  std::size_t keep_bytes = std::numeric_limits<std::size_t>::max();
};

/// What an arena holds at a moment.
struct ArenaUsage {
  std::size_t regions = 0;
  std::size_t held_bytes = 0;    ///< in regions
  std::size_t in_use_bytes = 0;  ///< in chunks that are out, rounding included
  std::size_t largest_free_bytes = 0;
};

/// Gives out chunks of regions, each the smallest free one that is large enough, split to what is
/// needed; a chunk that comes back merges with its free neighbours. Thread-safe.
///
/// What it knows of a chunk lies outside the memory, which may be of a kind that the host cannot
/// read. It must outlive what it gave out.
class ArenaAllocator final : public HostAllocator {
 public:
  ArenaAllocator(std::shared_ptr<HostAllocator> upstream, ArenaOptions options)
      : upstream_(std::move(upstream)), options_(options) {}
  ~ArenaAllocator() override {
    if (fork_.is_child()) return;
    keep(0);
    trim();
  }

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    if (fork_.is_child()) return nullptr;  // a thread that does not exist may hold the lock
    std::size_t needed = 0;
    if (__builtin_add_overflow(bytes, kUnit - 1, &needed)) return nullptr;
    needed &= ~(kUnit - 1);
    alignment = std::max(alignment, kUnit);
    std::lock_guard lock(mutex_);
    try {
      Chunk* chunk = bins_.best_fit(needed, alignment);
      if (!chunk && !(chunk = grow(needed, alignment))) return nullptr;
      return take(*chunk, needed, alignment);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  void deallocate(void* data, std::size_t) noexcept override {
    if (fork_.is_child()) return;
    std::unique_ptr<Region> empty;
    {
      std::lock_guard lock(mutex_);
      const auto found = used_.find(data);
      Chunk* chunk = found->second;
      used_.erase(found);
      in_use_ -= chunk->bytes;
      detail::hide_free(*chunk);
      chunk = merge(chunk);
      bins_.insert(*chunk);
      if (chunk->region->is_empty() && held_ - in_use_ > options_.keep_bytes) {
        empty = remove(*chunk->region);
      }
    }
    if (empty) upstream_->deallocate(empty->data, empty->bytes);
  }

  std::size_t free_bytes() const noexcept override { return upstream_->free_bytes(); }

  /// Has `trim` leave as many bytes in regions, if there are.
  void keep(std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    kept_ = bytes;
  }

  /// Gives the regions back that nothing is in, but for what is to be kept.
  void trim() noexcept override {
    if (fork_.is_child()) return;
    while (std::unique_ptr<Region> empty = take_empty_region()) {
      upstream_->deallocate(empty->data, empty->bytes);
    }
    upstream_->trim();
  }

  ArenaUsage usage() const {
    if (fork_.is_child()) return {};
    std::lock_guard lock(mutex_);
    return {regions_.size(), held_, in_use_, bins_.largest()};
  }

  std::vector<AllocatorFact> facts() const override {
    std::vector<AllocatorFact> facts = upstream_->facts();
    const ArenaUsage now = usage();
    facts.push_back({"arena_regions", static_cast<std::int64_t>(now.regions)});
    facts.push_back({"arena_bytes_held", static_cast<std::int64_t>(now.held_bytes)});
    facts.push_back({"arena_bytes_in_use", static_cast<std::int64_t>(now.in_use_bytes)});
    facts.push_back(
        {"arena_largest_free_block", static_cast<std::int64_t>(now.largest_free_bytes)});
    return facts;
  }

 private:
  using Chunk = detail::ArenaChunk;
  using Region = detail::ArenaRegion;
  static constexpr std::size_t kUnit = detail::ArenaBins::kUnit;

  /// Takes a region that `needed` bytes fit in; of the usual size if memory allows one.
  Chunk* grow(std::size_t needed, std::size_t alignment) {
    auto region = std::make_unique<Region>();
    auto chunk = std::make_unique<Chunk>();
    regions_.reserve(regions_.size() + 1);
    const std::size_t least = (needed + options_.granule - 1) & ~(options_.granule - 1);
    if (least < needed) return nullptr;
    for (const std::size_t bytes : {std::max(least, options_.region_bytes), least}) {
      region->bytes = bytes;
      region->data = static_cast<std::byte*>(upstream_->allocate(bytes, alignment));
      if (region->data) break;
    }
    if (!region->data) return nullptr;
    held_ += region->bytes;
    chunk->data = region->data;
    chunk->bytes = region->bytes;
    chunk->region = region.get();
    region->first = chunk.get();
    detail::hide_free(*chunk);
    bins_.insert(*chunk);
    regions_.push_back(std::move(region));
    return chunk.release();
  }

  /// Takes a free chunk into use, after splitting off what is not needed on either side.
  void* take(Chunk& chunk, std::size_t bytes, std::size_t alignment) {
    const std::size_t front = chunk.bytes_before(alignment);
    const std::size_t back = chunk.bytes - front - bytes;
    // What can fail comes first.
    auto front_chunk = front > 0 ? std::make_unique<Chunk>() : nullptr;
    auto back_chunk = back > 0 ? std::make_unique<Chunk>() : nullptr;
    used_.emplace(chunk.data + front, &chunk);
    bins_.remove(chunk);
    if (front_chunk) split_front(chunk, front, front_chunk.release());
    if (back_chunk) split_back(chunk, back, back_chunk.release());
    in_use_ += chunk.bytes;
    detail::show_free(chunk);
    return chunk.data;
  }

  void split_front(Chunk& chunk, std::size_t bytes, Chunk* front) noexcept {
    front->data = chunk.data;
    front->bytes = bytes;
    front->region = chunk.region;
    front->before = chunk.before;
    front->after = &chunk;
    (chunk.before ? chunk.before->after : chunk.region->first) = front;
    chunk.before = front;
    chunk.data += bytes;
    chunk.bytes -= bytes;
    bins_.insert(*front);
  }

  void split_back(Chunk& chunk, std::size_t bytes, Chunk* back) noexcept {
    chunk.bytes -= bytes;
    back->data = chunk.data + chunk.bytes;
    back->bytes = bytes;
    back->region = chunk.region;
    back->before = &chunk;
    back->after = chunk.after;
    if (chunk.after) chunk.after->before = back;
    chunk.after = back;
    bins_.insert(*back);
  }

  /// Returns the chunk that this one and its free neighbours become; in no bin yet.
  Chunk* merge(Chunk* chunk) noexcept {
    if (chunk->after && chunk->after->is_free) absorb_next(*chunk);
    if (chunk->before && chunk->before->is_free) {
      chunk = chunk->before;
      bins_.remove(*chunk);
      unite(*chunk);
    }
    return chunk;
  }

  void absorb_next(Chunk& chunk) noexcept {
    bins_.remove(*chunk.after);
    unite(chunk);
  }

  /// Adds the next chunk, which is in no bin, to this one.
  static void unite(Chunk& chunk) noexcept {
    const std::unique_ptr<Chunk> next(chunk.after);
    chunk.bytes += next->bytes;
    chunk.after = next->after;
    if (chunk.after) chunk.after->before = &chunk;
  }

  /// Takes an empty region out of the books; its one chunk ends.
  std::unique_ptr<Region> remove(Region& region) noexcept {
    const std::unique_ptr<Chunk> whole(region.first);
    bins_.remove(*whole);
    detail::show_free(*whole);
    held_ -= region.bytes;
    const auto at = std::find_if(regions_.begin(), regions_.end(),
                                 [&](const auto& other) { return other.get() == &region; });
    std::unique_ptr<Region> removed = std::move(*at);
    regions_.erase(at);
    return removed;
  }

  std::unique_ptr<Region> take_empty_region() noexcept {
    std::lock_guard lock(mutex_);
    for (const auto& region : regions_) {
      if (region->is_empty() && held_ - region->bytes >= kept_) return remove(*region);
    }
    return nullptr;
  }

  const std::shared_ptr<HostAllocator> upstream_;
  const ArenaOptions options_;
  mutable std::mutex mutex_;
  detail::ArenaBins bins_;
  std::unordered_map<void*, Chunk*> used_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::size_t held_ = 0;
  std::size_t in_use_ = 0;
  std::size_t kept_ = 0;
  ForkGuard fork_;
};

}  // namespace devrt
