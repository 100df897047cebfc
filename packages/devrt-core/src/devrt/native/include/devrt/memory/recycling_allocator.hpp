// Keeps freed blocks for the next allocation of their size: their pages are there already.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "devrt/base/fork_guard.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/memory_stats.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace devrt {

/// The size that a block is rounded up to, and its index among all of them.
struct SizeClass {
  static constexpr std::size_t kLimit = std::size_t{1} << 46;
  static constexpr std::size_t kCount = 8 + 8 * (46 - 15);

  std::size_t bytes;
  std::size_t index;

  /// Rounds 0 < `bytes` <= kLimit up to whole pages, then by an eighth of a power of two.
  static constexpr SizeClass of(std::size_t bytes) noexcept {
    constexpr std::size_t kPageBits = 12;
    if (bytes <= std::size_t{8} << kPageBits) {
      const std::size_t pages = (bytes + (std::size_t{1} << kPageBits) - 1) >> kPageBits;
      return {pages << kPageBits, pages - 1};
    }
    const auto octave = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
    const std::size_t eighths = ((bytes - 1) >> (octave - 3)) + 1;  // 9 to 16
    return {eighths << (octave - 3), 8 * (octave - 15) + eighths - 1};
  }
};

namespace detail {

class Shelf;

/// What a kept block holds at its start.
struct KeptBlock {
  std::shared_ptr<Shelf> shelf;
  SizeClass size;
  KeptBlock* newer = nullptr;  // of all kept blocks
  KeptBlock* older = nullptr;
  KeptBlock* above = nullptr;  // of the same shelf and size
  KeptBlock* below = nullptr;
};

/// One allocator's kept blocks, and where they go in the end. Outlives the blocks kept of it.
class Shelf {
 public:
  Shelf(std::shared_ptr<HostAllocator> source, std::shared_ptr<ReservedBytes> reserved)
      : upstream(std::move(source)), reserved_(std::move(reserved)) {}

  void* allocate(std::size_t bytes, std::size_t alignment) {
    void* data = upstream->allocate(bytes, alignment);
    if (data) reserved_->add(static_cast<std::int64_t>(bytes));
    return data;
  }
  void deallocate(void* data, std::size_t bytes) noexcept {
    upstream->deallocate(data, bytes);
    reserved_->remove(static_cast<std::int64_t>(bytes));
  }
  bool deallocate_after(void* data, std::size_t bytes, std::span<const ReadyEvent> uses) noexcept {
    if (!upstream->deallocate_after(data, bytes, uses)) return false;
    reserved_->remove(static_cast<std::int64_t>(bytes));
    return true;
  }

  const std::shared_ptr<HostAllocator> upstream;
  std::array<KeptBlock*, SizeClass::kCount> tops{};  // under the cache's lock

 private:
  const std::shared_ptr<ReservedBytes> reserved_;
};

// A use of freed memory must not go unseen because the block is kept.
inline void hide_from_use([[maybe_unused]] KeptBlock* block) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(block + 1, block->size.bytes - sizeof(KeptBlock));
#endif
}
inline void show_for_use([[maybe_unused]] KeptBlock* block) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(block + 1, block->size.bytes - sizeof(KeptBlock));
#endif
}

}  // namespace detail

/// The freed blocks of one or more `RecyclingAllocator`s, bounded together. Thread-safe.
class BlockCache {
 public:
  /// Keeps at most `limit` bytes; the blocks freed longest ago are given back first.
  explicit BlockCache(std::size_t limit) noexcept : limit_(limit) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache() = default;  // every allocator took its blocks out

  std::size_t limit() const noexcept { return limit_; }

  /// Returns the bytes that are kept and not in use.
  std::size_t kept_bytes() const {
    std::lock_guard lock(mutex_);
    return kept_;
  }

  /// Gives every kept block back.
  void trim() noexcept { trim_if(nullptr); }

  /// Gives blocks back, those freed longest ago first, until at most `bytes` are kept.
  void trim_to(std::size_t bytes) noexcept {
    if (fork_.is_child()) return;
    Block* given_back = nullptr;
    {
      std::lock_guard lock(mutex_);
      while (kept_ > bytes) move_to(given_back, oldest_);
    }
    give_back(given_back);
  }

  /// Gives every kept block back, and keeps none from now on.
  void close() noexcept {
    if (fork_.is_child()) return;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    trim();
  }

 private:
  friend class RecyclingAllocator;
  using Block = detail::KeptBlock;
  using Shelf = detail::Shelf;

  bool is_child() const noexcept { return fork_.is_child(); }

  /// Returns the block of that size that was freed last, or null.
  void* take(Shelf& shelf, SizeClass size, std::size_t alignment) noexcept {
    Block* block = nullptr;
    {
      std::lock_guard lock(mutex_);
      block = shelf.tops[size.index];
      if (!block || reinterpret_cast<std::uintptr_t>(block) % alignment != 0) return nullptr;
      unlink(block);
    }
    return open(block);
  }

  /// Keeps a block, unless the cache is full; then returns false.
  bool keep(const std::shared_ptr<Shelf>& shelf, SizeClass size, void* data) noexcept {
    if (size.bytes > limit_) return false;
    Block* given_back = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      auto* block = new (data) Block{shelf, size};
      detail::hide_from_use(block);
      link(block);
      while (kept_ > limit_) move_to(given_back, oldest_);
    }
    give_back(given_back);
    return true;
  }

  /// Gives back the blocks of one shelf, or of all.
  void trim_if(const Shelf* shelf) noexcept {
    if (fork_.is_child()) return;
    Block* given_back = nullptr;
    {
      std::lock_guard lock(mutex_);
      for (Block* block = newest_; block;) {
        Block* older = block->older;
        if (!shelf || block->shelf.get() == shelf) move_to(given_back, block);
        block = older;
      }
    }
    give_back(given_back);
  }

  void link(Block* block) noexcept {
    block->older = newest_;
    (newest_ ? newest_->newer : oldest_) = block;
    newest_ = block;
    Block*& top = block->shelf->tops[block->size.index];
    block->below = top;
    if (top) top->above = block;
    top = block;
    kept_ += block->size.bytes;
  }

  void unlink(Block* block) noexcept {
    (block->newer ? block->newer->older : newest_) = block->older;
    (block->older ? block->older->newer : oldest_) = block->newer;
    (block->above ? block->above->below : block->shelf->tops[block->size.index]) = block->below;
    if (block->below) block->below->above = block->above;
    kept_ -= block->size.bytes;
  }

  void move_to(Block*& list, Block* block) noexcept {
    unlink(block);
    block->below = list;
    list = block;
  }

  /// Ends the keeping of a block that is in no list.
  static void* open(Block* block) noexcept {
    detail::show_for_use(block);
    block->~Block();
    return block;
  }

  /// Gives a list back without the lock, as unmapping takes long.
  static void give_back(Block* list) noexcept {
    while (Block* block = list) {
      list = block->below;
      const std::shared_ptr<Shelf> shelf = std::move(block->shelf);
      const std::size_t bytes = block->size.bytes;
      shelf->deallocate(open(block), bytes);
    }
  }

  const std::size_t limit_;
  mutable std::mutex mutex_;
  Block* newest_ = nullptr;
  Block* oldest_ = nullptr;
  std::size_t kept_ = 0;
  bool closed_ = false;
  ForkGuard fork_;
};

/// Takes blocks from the allocator that it wraps and keeps them in a cache when they are freed.
///
/// Also counts what is held from the wrapped allocator, kept blocks included.
class RecyclingAllocator final : public HostAllocator {
 public:
  /// `smallest` for an allocator that only counts.
  static constexpr std::size_t kNever = SizeClass::kLimit + 1;

  /// Blocks below `smallest` bytes go through: neither rounded up nor kept. Kept blocks hold the
  /// list of them, so only memory that the host may write to can be kept.
  RecyclingAllocator(std::shared_ptr<HostAllocator> upstream, std::shared_ptr<BlockCache> cache,
                     std::shared_ptr<ReservedBytes> reserved, std::size_t smallest)
      : shelf_(std::make_shared<detail::Shelf>(std::move(upstream), std::move(reserved))),
        cache_(std::move(cache)),
        smallest_(smallest) {}
  ~RecyclingAllocator() override { cache_->trim_if(shelf_.get()); }

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    if (!is_rounded(bytes)) return shelf_->allocate(bytes, alignment);
    const SizeClass size = SizeClass::of(bytes);
    if (cache_->is_child()) return shelf_->allocate(size.bytes, alignment);
    if (void* kept = cache_->take(*shelf_, size, alignment)) return kept;
    if (shelf_->upstream->free_bytes() < size.bytes) cache_->trim_if(shelf_.get());
    if (void* data = shelf_->allocate(size.bytes, alignment)) [[likely]]
      return data;
    cache_->trim();  // what is kept may be what is missing
    return shelf_->allocate(size.bytes, alignment);
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    if (!is_rounded(bytes)) return shelf_->deallocate(data, bytes);
    const SizeClass size = SizeClass::of(bytes);
    if (cache_->is_child() || !cache_->keep(shelf_, size, data)) {
      shelf_->deallocate(data, size.bytes);
    }
  }

  bool deallocate_after(void* data, std::size_t bytes,
                        std::span<const ReadyEvent> uses) noexcept override {
    return !is_rounded(bytes) && shelf_->deallocate_after(data, bytes, uses);
  }

  std::size_t free_bytes() const noexcept override { return shelf_->upstream->free_bytes(); }
  void trim() noexcept override {
    cache_->trim_if(shelf_.get());
    shelf_->upstream->trim();
  }
  std::vector<AllocatorFact> facts() const override { return shelf_->upstream->facts(); }
  HostAllocator& upstream() const noexcept { return *shelf_->upstream; }

 private:
  bool is_rounded(std::size_t bytes) const noexcept {
    return bytes >= smallest_ && bytes <= SizeClass::kLimit;
  }

  const std::shared_ptr<detail::Shelf> shelf_;
  const std::shared_ptr<BlockCache> cache_;
  const std::size_t smallest_;
};

}  // namespace devrt
