// How blocks are put together from pieces of buffers, read from its packed form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/client.hpp"

namespace devrt::native {

/// A box of a source buffer and its position in a block, in elements.
struct Piece {
  std::size_t source = 0;
  std::span<const std::int64_t> source_start;
  std::span<const std::int64_t> block_start;
  std::span<const std::int64_t> extent;
};

/// Views of a packed `devrt.contract.Assembly`, whose numbers must outlive it.
struct Assembly {
  /// Throws INVALID_ARGUMENT unless the numbers are one whole assembly.
  static Assembly read(std::span<const std::int64_t> numbers);

  std::span<const std::int64_t> shape;
  std::size_t num_sources = 0;
  std::span<const std::int64_t> block_of;
  std::vector<std::vector<Piece>> blocks;
};

}  // namespace devrt::native
