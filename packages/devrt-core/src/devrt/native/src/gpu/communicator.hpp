// Groups of GPUs that a vendor's library connects, and what becomes of their collectives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/collectives.hpp"
#include "devrt/async/work_queue.hpp"
#include "gpu/collective_library.hpp"
#include "gpu/device.hpp"

namespace devrt::gpu {

class Communicators;

/// How a collective ends on all its ranks. One that is broken off ends as if all were well, so what
/// uses a result queries this.
class CollectiveOutcome final : public Dependency {
 public:
  /// Which one it is: they end in order, and with one all later ones of its connection fail.
  struct Number {
    const void* group;
    std::uint64_t connection;
    std::uint64_t started;
  };

  explicit CollectiveOutcome(const Number& number) noexcept : number_(number) {}

  /// Notes that it was broken off; before the library breaks it off.
  void fail(Status why) {
    why_ = std::move(why);
    state_.store(State::kFailed, std::memory_order_release);
  }
  /// Notes that all ranks have ended well.
  void settle() noexcept { state_.store(State::kGood, std::memory_order_release); }

  bool is_open() const noexcept override {
    return state_.load(std::memory_order_acquire) == State::kOpen;
  }
  Status status() const override {
    return state_.load(std::memory_order_acquire) == State::kFailed ? why_ : Status();
  }
  bool covers(const Dependency& other) const noexcept override {
    const auto* before = dynamic_cast<const CollectiveOutcome*>(&other);
    return before && before->is_of(number_.group) &&
           before->number_.connection == number_.connection &&
           before->number_.started < number_.started;
  }
  bool is_of(const void* group) const noexcept { return number_.group == group; }

 private:
  enum class State { kOpen, kGood, kFailed };
  const Number number_;
  std::atomic<State> state_{State::kOpen};
  Status why_;
};

/// Has the thread's context as it was, which libraries change.
class KeepCurrent {
 public:
  explicit KeepCurrent(const Driver& driver) noexcept : driver_(driver) {
    (void)driver_.get_current(&before_);
  }
  KeepCurrent(const KeepCurrent&) = delete;
  KeepCurrent& operator=(const KeepCurrent&) = delete;
  ~KeepCurrent() {
    if (before_ != 0) (void)driver_.set_current(before_);
  }

 private:
  const Driver& driver_;
  Context before_ = 0;
};

/// One group. It connects at its first collective, and anew after one was broken off. One that
/// spans processes connects when it is made, and is of no more use after one was broken off.
class GpuCommunicator final : public native::Communicator,
                              public std::enable_shared_from_this<GpuCommunicator> {
 public:
  GpuCommunicator(Communicators& all, const CollectiveLibrary& library,
                  std::vector<std::shared_ptr<GpuDevice>> devices,
                  std::optional<native::GroupSpan> span = std::nullopt)
      : all_(all), library_(library), devices_(std::move(devices)), span_(std::move(span)) {}

  std::string version() const override { return library_.version_text(); }
  std::optional<std::vector<ReadyEvent>> start(const native::Collective& collective,
                                               std::span<const native::RankMemory> ranks) override;
  bool spans_processes() const override { return span_.has_value(); }
  std::optional<std::chrono::steady_clock::time_point> busy_since() const override;
  void break_off(const Status& why) override;
  /// Connects with the other processes of the group, and waits for them.
  void join();
  /// Disconnects; nothing may be under way.
  void close() noexcept;

 private:
  /// A collective that has not ended on all ranks, or has not been seen to.
  struct Running {
    std::shared_ptr<CollectiveOutcome> outcome;
    std::vector<ReadyEvent> ends;  // of each rank
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  };

  static Stream& stream_of(GpuDevice& device) {
    return device.stream(native::Lane::kCollective, 0);
  }
  std::size_t size() const { return span_ ? span_->size : devices_.size(); }
  /// Returns the rank of the i-th device.
  std::size_t rank_of(std::size_t i) const { return span_ ? span_->ranks[i] : i; }
  // Under the lock of all groups.
  std::optional<Running> give(const native::Collective& what,
                              std::span<const native::RankMemory> ranks);
  void connect(const char* operation);
  /// Has the streams wait for the arguments, and returns what these depend on; nothing where the
  /// host must wait for one.
  std::optional<Dependencies> order(std::span<const native::RankMemory> ranks) const;
  /// Returns whether arguments may fail late of what the other processes do not learn.
  bool may_fail_here(const Dependencies& dependencies) const noexcept;
  void enqueue(const native::Collective& what, std::span<const native::RankMemory> ranks);
  Result enqueue_rank(const native::Collective& what, std::size_t i,
                      const native::RankMemory& memory) const;
  Result exchange(const native::Collective& what, std::size_t i,
                  const native::RankMemory& memory) const;
  void clear_unsent(const native::Collective& what,
                    std::span<const native::RankMemory> ranks) const;
  Running record(const Dependencies& dependencies);
  /// Returns the loss of a device of the group, where that is why the library failed; else its
  /// error.
  Status cause_of(const Status& failed) const;
  void abort(const Status& why) noexcept;
  void drain() const noexcept;

  /// Waits until a collective has ended on all ranks, or has to be broken off. In a thread.
  void watch(const Running& running);
  Status async_error() const;
  /// Whether a failure is due to another process, and who that is may still be found out.
  bool waits_for_names(const Status& failed);
  void settle(const Running& running);

  Communicators& all_;
  const CollectiveLibrary& library_;
  const std::vector<std::shared_ptr<GpuDevice>> devices_;
  const std::optional<native::GroupSpan> span_;  // nothing where all ranks are of this process
  std::vector<RankHandle*> ranks_;               // of the devices; empty while it is not connected
  std::vector<Running> running_;
  std::uint64_t connection_ = 0;  // how many before this one were broken off
  std::uint64_t started_ = 0;
  Status ended_;  // why a group that spans processes is of no more use
  std::optional<std::chrono::steady_clock::time_point> failed_at_;
};

/// The groups of a client.
class Communicators {
 public:
  Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  std::shared_ptr<native::Communicator> find(std::vector<std::shared_ptr<GpuDevice>> devices,
                                             const native::CollectiveSource& source);
  /// Connects devices with those of other processes, and waits for these.
  std::shared_ptr<native::Communicator> join(std::vector<std::shared_ptr<GpuDevice>> devices,
                                             const native::CollectiveSource& source,
                                             const native::GroupSpan& span);
  /// Waits until what was started is seen to have ended.
  void drain() noexcept { watcher_.drain(); }
  /// Disconnects all groups.
  void close() noexcept;

 private:
  friend class GpuCommunicator;

  // Held while all ranks of a collective are given it, so that devices which are in several groups
  // come to their collectives in one order: else two groups could wait for each other.
  std::mutex mutex_;
  WorkQueue watcher_;
  std::map<std::vector<const GpuDevice*>, std::shared_ptr<GpuCommunicator>> groups_;
  std::vector<std::shared_ptr<GpuCommunicator>> joined_;
};

}  // namespace devrt::gpu
