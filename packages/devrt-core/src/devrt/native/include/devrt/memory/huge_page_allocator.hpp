// Memory in pages of 2 MiB: fewer page faults and fewer misses of the TLB.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devrt/base/fork_guard.hpp"
#include "devrt/memory/allocator.hpp"

namespace devrt {

/// Maps whole huge pages: reserved ones (MAP_HUGETLB) where the administrator set some aside, else
/// transparent ones, which are advice to the kernel. What it granted is read from the kernel.
class HugePageAllocator final : public HostAllocator {
 public:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    const std::size_t length = (bytes + kHugePage - 1) & ~(kHugePage - 1);
    if (length < bytes || alignment > kHugePage || fork_.is_child()) return nullptr;
    Mapping mapping = map_reserved(length);
    if (!mapping.start) mapping = map_transparent(length);
    if (!mapping.start) return nullptr;
    try {
      std::lock_guard lock(mutex_);
      mappings_.emplace(mapping.data, mapping);
    } catch (...) {
      munmap(mapping.start, mapping.length);
      return nullptr;
    }
    return mapping.data;
  }

  void deallocate(void* data, std::size_t) noexcept override {
    if (fork_.is_child()) return;  // a thread that does not exist here may hold the lock
    Mapping mapping;
    {
      std::lock_guard lock(mutex_);
      mapping = mappings_.extract(data).mapped();
    }
    munmap(mapping.start, mapping.length);
  }

  /// How much of the memory lies in huge pages, as the kernel says.
  struct Grant {
    std::size_t mapped_bytes = 0;
    std::size_t reserved_bytes = 0;     ///< from the pool of reserved huge pages
    std::size_t transparent_bytes = 0;  ///< in huge pages that the kernel chose to give so far
  };

  /// Reads /proc/self/smaps, which takes milliseconds in a large process.
  Grant grant() const {
    Grant grant;
    if (fork_.is_child()) return grant;
    std::unordered_map<std::uintptr_t, std::size_t> transparent;  // data to length
    {
      std::lock_guard lock(mutex_);
      for (const auto& [data, mapping] : mappings_) {
        grant.mapped_bytes += mapping.bytes;
        if (mapping.is_reserved) {
          grant.reserved_bytes += mapping.bytes;
        } else {
          transparent.emplace(reinterpret_cast<std::uintptr_t>(data), mapping.bytes);
        }
      }
    }
    if (!transparent.empty()) grant.transparent_bytes = count_transparent(transparent);
    return grant;
  }

  std::vector<AllocatorFact> facts() const override {
    const Grant now = grant();
    return {{"bytes_mapped", static_cast<std::int64_t>(now.mapped_bytes)},
            {"bytes_in_reserved_huge_pages", static_cast<std::int64_t>(now.reserved_bytes)},
            {"bytes_in_transparent_huge_pages", static_cast<std::int64_t>(now.transparent_bytes)}};
  }

 private:
  struct Mapping {
    void* start = nullptr;
    std::size_t length = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
    bool is_reserved = false;
  };
  static constexpr std::size_t kGuard = std::size_t{4} << 10;

  static Mapping map_reserved(std::size_t bytes) noexcept {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (data == MAP_FAILED) return {};
    return {data, bytes, data, bytes, true};
  }

  /// Leaves a page without access on either side: a mapping of its own in the kernel's books, so
  /// that what is reported of it there covers nothing else.
  static Mapping map_transparent(std::size_t bytes) noexcept {
    std::size_t length = 0;
    if (__builtin_add_overflow(bytes, kHugePage + 2 * kGuard, &length)) return {};
    void* start = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return {};
    const auto first = reinterpret_cast<std::uintptr_t>(start) + kGuard;
    auto* data = reinterpret_cast<void*>((first + kHugePage - 1) & ~(kHugePage - 1));
    if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) {
      munmap(start, length);
      return {};
    }
    (void)madvise(data, bytes, MADV_HUGEPAGE);  // advice only: else the pages are small ones
    return {start, length, data, bytes, false};
  }

  static std::size_t count_transparent(
      const std::unordered_map<std::uintptr_t, std::size_t>& mappings) {
    const std::unique_ptr<FILE, int (*)(FILE*)> smaps(std::fopen("/proc/self/smaps", "re"),
                                                      &std::fclose);
    std::size_t total = 0;
    bool is_ours = false;
    char line[512];
    while (smaps && std::fgets(line, sizeof line, smaps.get())) {
      std::uintptr_t first = 0;
      std::uintptr_t last = 0;
      std::size_t kib = 0;
      if (std::sscanf(line, "%lx-%lx", &first, &last) == 2) {
        is_ours = mappings.contains(first);
      } else if (is_ours && std::sscanf(line, "AnonHugePages: %zu kB", &kib) == 1) {
        total += kib << 10;
      }
    }
    return total;
  }

  mutable std::mutex mutex_;
  std::unordered_map<void*, Mapping> mappings_;
  ForkGuard fork_;
};

}  // namespace devrt
