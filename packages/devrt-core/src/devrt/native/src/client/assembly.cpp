// Reads the packed form of an assembly.
#include "client/assembly.hpp"

#include <string>

#include "devrt/base/status.hpp"

namespace devrt::native {

namespace {

[[noreturn]] void raise_malformed(const char* what) {
  raise_invalid(std::string("The assembly is malformed: ") + what +
                    ". Pass a devrt.contract.Assembly as it was made.",
                "assemble_buffers");
}

/// Takes numbers off the front of a list; throws when there are too few.
class Reader {
 public:
  explicit Reader(std::span<const std::int64_t> numbers) : rest_(numbers) {}

  std::span<const std::int64_t> take(std::size_t count) {
    if (count > rest_.size()) raise_malformed("it ends early");
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::size_t take_count() {
    const std::int64_t value = take(1)[0];
    if (value < 0) raise_malformed("a count is negative");
    return static_cast<std::size_t>(value);
  }
  bool is_done() const noexcept { return rest_.empty(); }

 private:
  std::span<const std::int64_t> rest_;
};

}  // namespace

Assembly Assembly::read(std::span<const std::int64_t> numbers) {
  Reader reader(numbers);
  Assembly made;
  const std::size_t ndim = reader.take_count();
  if (ndim > kMaxDims) raise_malformed("it has more than 64 dimensions");
  made.num_sources = reader.take_count();
  const std::size_t num_blocks = reader.take_count();
  const std::size_t num_targets = reader.take_count();
  made.shape = reader.take(ndim);
  made.block_of = reader.take(num_targets);
  for (const std::int64_t block : made.block_of) {
    if (block < 0 || static_cast<std::size_t>(block) >= num_blocks) {
      raise_malformed("a target names a block that is not there");
    }
  }
  for (std::size_t i = 0; i < num_blocks; ++i) {
    std::vector<Piece>& pieces = made.blocks.emplace_back();
    for (std::size_t left = reader.take_count(); left > 0; --left) {
      Piece piece;
      piece.source = reader.take_count();
      if (piece.source >= made.num_sources) raise_malformed("a piece names no source");
      piece.source_start = reader.take(ndim);
      piece.block_start = reader.take(ndim);
      piece.extent = reader.take(ndim);
      pieces.push_back(piece);
    }
  }
  if (!reader.is_done()) raise_malformed("it does not end where it should");
  return made;
}

}  // namespace devrt::native
