// Arguments that a call donates.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "execution/shard.hpp"

namespace devrt::native {

/// What a call has taken for copies of arguments.
class CopiedBytes {
 public:
  void add(const ByteBudget* budget, std::size_t bytes) { taken_.emplace_back(budget, bytes); }
  /// Returns how many bytes of a budget it has taken.
  std::size_t of(const ByteBudget& budget) const noexcept {
    std::size_t sum = 0;
    for (const auto& [taken_of, bytes] : taken_) sum += taken_of == &budget ? bytes : 0;
    return sum;
  }

 private:
  std::vector<std::pair<const ByteBudget*, std::size_t>> taken_;
};

/// Buffers that a call takes the memory of; given back unless the call is made.
class Donations {
 public:
  Donations(Engine& engine, CopiedBytes& copied) noexcept : engine_(engine), copied_(copied) {}
  Donations(const Donations&) = delete;
  Donations& operator=(const Donations&) = delete;
  ~Donations();

  /// Deletes the arguments that a program donates. Returns the parameters whose memory somebody
  /// else still sees.
  std::vector<std::int64_t> claim_all(const pjrt::Signature& signature,
                                      std::span<const std::span<Buffer* const>> arguments,
                                      std::span<Shard> shards);
  /// Releases what was given, now or once the program has ended.
  void commit() noexcept;

 private:
  struct Claim {
    Ref<Buffer> buffer;
    Buffer::Contents contents;
    const Shard* shard = nullptr;
    std::size_t index = 0;
  };

  /// Deletes a buffer that is the argument `i` of a shard. Returns whether an output may take its
  /// memory, which nobody else can see then.
  bool claim(Shard& shard, std::size_t i, Buffer& buffer, bool is_must);
  /// Withholds memory that somebody else still sees; an engine that must have it gets a copy.
  bool keep(Shard& shard, std::size_t i, const Buffer& buffer, const Buffer::Contents& contents,
            bool is_must);
  /// Returns whether the engine has it, as it has what it was given before another shard failed.
  static bool is_taken(const Claim& claim) noexcept;
  static const Ref<pjrt::Buffer>& view_of(const Claim& claim) noexcept {
    return (*claim.shard->views)[claim.index];
  }

  Engine& engine_;
  CopiedBytes& copied_;
  std::vector<Claim> claims_;
};

}  // namespace devrt::native
