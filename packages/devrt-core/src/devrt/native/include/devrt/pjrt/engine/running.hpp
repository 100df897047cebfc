// Which programs the engines of this process run, by name, for the waiters' messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "devrt/pjrt/engine/signature.hpp"

namespace devrt::pjrt {

/// The executions in flight, oldest first. Those that take no time are not in it. Thread-safe.
class Running {
  struct Entry {
    std::shared_ptr<const Signature> program;
    std::string device;
    std::uint64_t number;
  };
  using Entries = std::list<Entry>;

 public:
  /// One execution on one device, while it lives.
  class Note {
   public:
    Note() noexcept = default;
    Note(Note&& other) noexcept : of_(std::exchange(other.of_, nullptr)), entry_(other.entry_) {}
    Note& operator=(Note&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Note() {
      if (of_) of_->remove(entry_);
    }

   private:
    friend class Running;
    Note(Running& of, Entries::iterator entry) noexcept : of_(&of), entry_(entry) {}

    Running* of_ = nullptr;
    Entries::iterator entry_;
  };

  /// Returns those of all clients. Never destroyed: work may end while the process exits.
  static Running& of_process() {
    static auto* const all = new Running;
    return *all;
  }

  /// Notes an execution; `device` is the name that users know.
  Note add(std::shared_ptr<const Signature> program, std::string device) {
    Entries made;
    made.push_back({std::move(program), std::move(device), 0});
    std::lock_guard lock(mutex_);
    made.back().number = ++newest_;
    entries_.splice(entries_.end(), made);
    return {*this, std::prev(entries_.end())};
  }

  bool is_empty() const {
    std::lock_guard lock(mutex_);
    return entries_.empty();
  }

  /// Returns the number of the execution that was noted last; they are counted from 1.
  std::uint64_t newest() const {
    std::lock_guard lock(mutex_);
    return newest_;
  }

  /// Returns whether an execution up to this number is in flight.
  bool has_up_to(std::uint64_t number) const {
    std::lock_guard lock(mutex_);
    return !entries_.empty() && entries_.front().number <= number;
  }

  /// Returns the oldest and how many there are beside it; empty where nothing runs.
  std::string describe() const {
    std::lock_guard lock(mutex_);
    if (entries_.empty()) return {};
    const Entry& oldest = entries_.front();
    std::string text = "program '" + oldest.program->name + "' on " + oldest.device;
    if (entries_.size() > 1) text += " and " + std::to_string(entries_.size() - 1) + " more";
    return text;
  }

 private:
  void remove(Entries::iterator entry) noexcept {
    Entries ended;  // freed without the lock
    std::lock_guard lock(mutex_);
    ended.splice(ended.begin(), entries_, entry);
  }

  mutable std::mutex mutex_;
  Entries entries_;
  std::uint64_t newest_ = 0;
};

}  // namespace devrt::pjrt
