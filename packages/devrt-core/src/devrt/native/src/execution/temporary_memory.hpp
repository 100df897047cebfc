// The temporary memory of programs: what they hold while they run, beside arguments and outputs.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devrt/memory/memory_report.hpp"
#include "devrt/memory/memory_stats.hpp"

namespace devrt::native {

class ClientTemporaries;

/// What each execution of one program takes on one device, and how many there are.
struct ProgramTemporaries {
  std::shared_ptr<ClientTemporaries> all;
  std::shared_ptr<MemoryStats> stats;
  std::string program;
  std::string device;
  std::string kind;
  std::int64_t bytes = 0;
  std::atomic<std::int64_t> running{0};
};

/// The memory of one execution, in use until its end. May be empty.
class HeldTemporaries {
 public:
  HeldTemporaries() noexcept = default;
  /// `reserved` was taken with `ClientTemporaries::take`, or is empty where there is no limit.
  HeldTemporaries(std::shared_ptr<ProgramTemporaries> use, BudgetShare reserved) noexcept
      : use_(std::move(use)), reserved_(std::move(reserved)) {
    use_->running.fetch_add(1, std::memory_order_relaxed);
    use_->stats->record_allocate(use_->bytes);
  }
  HeldTemporaries(HeldTemporaries&&) noexcept = default;
  HeldTemporaries& operator=(HeldTemporaries&& other) noexcept {
    std::swap(use_, other.use_);
    std::swap(reserved_, other.reserved_);
    return *this;
  }
  ~HeldTemporaries() { end(); }

  inline void end() noexcept;

 private:
  std::shared_ptr<ProgramTemporaries> use_;
  BudgetShare reserved_;
};

/// The programs of a client that take temporary memory. Thread-safe.
class ClientTemporaries {
 public:
  /// Takes bytes of a budget, `temporaries` of which are given back when programs end.
  bool take(ByteBudget& budget, std::size_t bytes, std::size_t temporaries) {
    std::lock_guard lock(mutex_);
    std::size_t& held = held_[&budget];  // first: it may throw
    if (!budget.take(bytes)) return false;
    held += temporaries;
    return true;
  }
  void give(BudgetShare reserved, std::size_t bytes) noexcept {
    {
      std::lock_guard lock(mutex_);
      const auto held = held_.find(reserved.budget());
      if ((held->second -= bytes) == 0) held_.erase(held);
      reserved = BudgetShare();
    }
    given_.notify_all();
  }
  /// Waits until a budget has as many bytes left, or would not have if all programs gave back
  /// theirs. Returns whether it has. Meanwhile `on_slice` is called every now and then, and may
  /// throw.
  template <class OnSlice>
  bool wait(const ByteBudget& budget, std::size_t bytes, const OnSlice& on_slice) {
    using Clock = std::chrono::system_clock;  // gcc 12's TSan misses waits on the steady one
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return !can_help(budget, bytes); };
    while (!given_.wait_until(lock, Clock::now() + std::chrono::milliseconds(100), is_done)) {
      lock.unlock();
      on_slice();
      lock.lock();
    }
    return budget.left() >= bytes;
  }
  /// Returns whether a budget has less than so many bytes left, and would have as many if all
  /// programs gave back theirs.
  bool may_help(const ByteBudget& budget, std::size_t bytes) const {
    std::lock_guard lock(mutex_);
    return can_help(budget, bytes);
  }

  void add(const std::shared_ptr<ProgramTemporaries>& use) {
    std::lock_guard lock(mutex_);
    std::erase_if(uses_, [](const auto& known) { return known.expired(); });
    uses_.push_back(use);
  }

  /// Returns what runs now, by program and device.
  std::vector<LiveGroup> groups() const {
    std::vector<LiveGroup> found;
    std::lock_guard lock(mutex_);
    for (const auto& known : uses_) {
      const std::shared_ptr<ProgramTemporaries> use = known.lock();
      const std::int64_t count = use ? use->running.load(std::memory_order_relaxed) : 0;
      if (count == 0) continue;
      LiveGroup& group = found.emplace_back();
      group.count = count;
      group.bytes = count * use->bytes;
      group.device = use->device;
      group.kind = use->kind;
      group.program = use->program;
    }
    return found;
  }

 private:
  bool can_help(const ByteBudget& budget, std::size_t bytes) const {
    const auto held = held_.find(&budget);
    if (held == held_.end()) return false;
    const std::size_t left = budget.left();
    return left < bytes && left + held->second >= bytes;
  }

  mutable std::mutex mutex_;
  std::condition_variable given_;
  std::map<const ByteBudget*, std::size_t> held_;
  std::vector<std::weak_ptr<ProgramTemporaries>> uses_;
};

void HeldTemporaries::end() noexcept {
  if (!use_) return;
  use_->stats->record_deallocate(use_->bytes);
  use_->running.fetch_sub(1, std::memory_order_relaxed);
  if (reserved_) use_->all->give(std::move(reserved_), static_cast<std::size_t>(use_->bytes));
  use_.reset();
}

}  // namespace devrt::native
