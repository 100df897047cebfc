// Assembling: blocks made of pieces of other buffers, and buffers gathered into host memory.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "client/assembly.hpp"
#include "client/client.hpp"
#include "client/device_copy.hpp"
#include "client/region_copy.hpp"

namespace devrt::native {

namespace {

constexpr const char* kAssemble = "assemble_buffers";

void check_within(std::span<const std::int64_t> start, std::span<const std::int64_t> extent,
                  std::span<const std::int64_t> shape) {
  if (shape.size() != extent.size()) {
    raise_invalid("The sources and the blocks must have the same number of dimensions.", kAssemble);
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (start[i] < 0 || extent[i] < 0 || extent[i] > shape[i] || start[i] > shape[i] - extent[i]) {
      raise_invalid("A piece of " + std::to_string(extent[i]) + " from " +
                        std::to_string(start[i]) + " does not lie within dimension " +
                        std::to_string(i) + " of size " + std::to_string(shape[i]) + ".",
                    kAssemble);
    }
  }
}

std::int64_t volume(std::span<const std::int64_t> shape) {
  return static_cast<std::int64_t>(checked_bytes(shape, 1));
}

bool overlap(const Piece& a, const Piece& b) {
  for (std::size_t i = 0; i < a.extent.size(); ++i) {
    if (a.block_start[i] >= b.block_start[i] + b.extent[i]) return false;
    if (b.block_start[i] >= a.block_start[i] + a.extent[i]) return false;
  }
  return true;
}

bool is_empty(const Piece& piece) {
  return std::ranges::find(piece.extent, 0) != piece.extent.end();
}

/// Returns the dimension along which the pieces are cut most often; 0 if there is none.
std::size_t most_cut(std::span<const Piece* const> pieces, std::size_t ndim) {
  std::size_t found = 0;
  std::size_t most = 0;
  std::vector<std::int64_t> starts(pieces.size());
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    for (std::size_t i = 0; i < pieces.size(); ++i) starts[i] = pieces[i]->block_start[dim];
    std::ranges::sort(starts);
    const auto repeated = std::ranges::unique(starts);
    const auto distinct = static_cast<std::size_t>(repeated.begin() - starts.begin());
    if (distinct > most) found = dim;
    most = std::max(most, distinct);
  }
  return found;
}

/// Throws if two pieces lie within the block, but on the same elements: as many others would be
/// filled by none. Sweeps along the dimension that is cut most, so a grid needs few comparisons.
void check_apart(const std::vector<Piece>& all, std::size_t ndim) {
  if (all.size() < 2) return;
  std::vector<const Piece*> pieces;
  for (const Piece& piece : all) {
    if (!is_empty(piece)) pieces.push_back(&piece);
  }
  const std::size_t dim = most_cut(pieces, ndim);
  const auto start = [dim](const Piece* piece) { return piece->block_start[dim]; };
  if (ndim > 0) std::ranges::sort(pieces, {}, start);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (std::size_t j = i + 1; j < pieces.size(); ++j) {
      if (ndim > 0 && start(pieces[j]) >= start(pieces[i]) + pieces[i]->extent[dim]) break;
      if (!overlap(*pieces[i], *pieces[j])) continue;
      raise_invalid(
          "Two pieces of a block overlap, so a part of it would be filled by none. Give every "
          "element of a block exactly one piece.",
          kAssemble);
    }
  }
}

/// What a job needs of one source, kept alive until it is done.
struct Source {
  const Memory* memory;
  Ref<Storage> storage;
  ReadyEvent ready;
};

/// One block that is being filled.
struct Filling {
  Ref<Storage> storage;
  std::vector<RegionCopy> copies;
  std::vector<std::size_t> needs;  // sources, by number
  ReadyEvent by_devices;           // the end of what devices fill of it
  ReadyPromise promise;
};

/// Everything that fills the blocks of one call. Movable into a queue.
struct FillJob {
  std::vector<Source> sources;
  std::vector<Filling> fillings;

  bool is_ready() const {
    for (const Source& source : sources) {
      if (!source.ready.is_ready()) return false;
    }
    return std::ranges::all_of(
        fillings, [](const Filling& filling) { return filling.by_devices.is_ready(); });
  }
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const Filling& filling : fillings) total += filling.storage->bytes();
    return total;
  }
  Status wait_for(const Filling& filling) const {
    for (const std::size_t number : filling.needs) {
      Status status = sources[number].ready.wait();
      if (!status.ok()) return status;
    }
    return filling.by_devices.wait();
  }
  /// Fills every block whose sources arrived; the others get the error of theirs.
  void run(ThreadPool& pool) {
    std::vector<Status> outcomes;
    std::vector<RegionCopy> copies;
    for (const Filling& filling : fillings) {
      outcomes.push_back(wait_for(filling));
      if (!outcomes.back().ok()) continue;
      copies.insert(copies.end(), filling.copies.begin(), filling.copies.end());
    }
    run_region_copies(copies, pool);
    sources.clear();
    for (std::size_t i = 0; i < fillings.size(); ++i) {
      fillings[i].storage.reset();
      fillings[i].promise.set(std::move(outcomes[i]));
    }
  }
};

void add_pieces(Filling& filling, const std::vector<Piece>& pieces,
                std::span<const Buffer* const> buffers, const Assembly& assembly,
                const FillJob& job, const Memory& target) {
  const std::size_t size = itemsize(buffers[0]->type());
  std::int64_t covered = 0;
  for (const Piece& piece : pieces) {
    const auto source_shape = buffers[piece.source]->shape().span();
    check_within(piece.source_start, piece.extent, source_shape);
    check_within(piece.block_start, piece.extent, assembly.shape);
    covered += volume(piece.extent);
    const Source& source = job.sources[piece.source];
    add_region_copy(
        {source.storage->data(), source_shape, piece.source_start, buffers[piece.source]->order(),
         source.memory->space()},
        {filling.storage->data(), assembly.shape, piece.block_start, {}, target.space()},
        piece.extent, size, filling.copies);
    filling.needs.push_back(piece.source);
  }
  if (covered != volume(assembly.shape)) {
    raise_invalid("The pieces of a block hold " + std::to_string(covered) + " elements, not the " +
                      std::to_string(volume(assembly.shape)) + " of the block.",
                  kAssemble);
  }
  check_apart(pieces, assembly.shape.size());
}

/// Returns whether the host cannot copy from a source by itself.
bool is_for_device(const Source& source, const Memory& target) {
  return !target.is_host_visible() || !source.memory->is_host_visible();
}

/// Returns whether the host cannot fill a block by itself.
bool is_for_device(const Filling& filling, const FillJob& job, const Memory& target) {
  return !filling.copies.empty() && std::ranges::any_of(filling.needs, [&](std::size_t number) {
    return is_for_device(job.sources[number], target);
  });
}

/// Leaves the host those copies that no device makes.
void keep_for_host(Filling& filling, const FillJob& job, const Memory& target) {
  std::erase_if(filling.copies, [&](const RegionCopy& copy) {
    return std::ranges::any_of(filling.needs, [&](std::size_t number) {
      const Source& source = job.sources[number];
      return source.memory->space() == copy.from_space && is_for_device(source, target);
    });
  });
}

/// Returns the work of devices that fills a block: that of each source's device apart, since a
/// device need not reach what lies between others.
std::vector<DeviceCopies> to_device_copies(const Filling& filling, const FillJob& job,
                                           const Memory& target, std::int64_t stream) {
  std::vector<DeviceCopies> works;
  std::vector<int> spaces;  // of the sources of each
  for (const std::size_t number : filling.needs) {
    const Source& source = job.sources[number];
    if (!is_for_device(source, target)) continue;
    const int space = source.memory->space();
    auto at = static_cast<std::size_t>(std::ranges::find(spaces, space) - spaces.begin());
    if (at == spaces.size()) {
      spaces.push_back(space);
      works.push_back({queue_between(*source.memory, target, stream)});
      works.back().storages.push_back(filling.storage.share());
      for (const RegionCopy& copy : filling.copies) {
        if (copy.from_space == space) works.back().copies.push_back(copy);
      }
    }
    works[at].storages.push_back(source.storage.share());
    works[at].after.push_back(source.ready);
  }
  return works;
}

/// Returns where a piece begins in its source if it is one run of bytes there; else -1.
std::int64_t run_start(const Piece& piece, std::span<const std::int64_t> shape, std::size_t size) {
  std::int64_t start = 0;
  auto step = static_cast<std::int64_t>(size);
  bool joined = true;  // whether all dimensions further in are whole
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (!joined && piece.extent[i] != 1) return -1;
    joined = joined && piece.extent[i] == shape[i];
    start += piece.source_start[i] * step;
    step *= shape[i];
  }
  return start;
}

/// Keeps a storage alive for another that shows a part of it.
ExternalOwner keep(const Ref<Storage>& storage) {
  return {new Ref<Storage>(storage.share()),
          [](void* context) noexcept { delete static_cast<Ref<Storage>*>(context); }};
}

/// Returns storage that shows a block within its one source, or none if it must be copied.
Ref<Storage> share_part(const std::vector<Piece>& pieces, std::span<const Buffer* const> buffers,
                        const FillJob& job, const Assembly& assembly, const Memory& target) {
  if (pieces.size() != 1) return {};
  const Piece& piece = pieces[0];
  const Buffer& source = *buffers[piece.source];
  const bool is_block = std::ranges::equal(piece.extent, assembly.shape);
  if (!is_block || !source.order().empty()) return {};
  if (source.memory()->space() != target.space()) return {};
  check_within(piece.source_start, piece.extent, source.shape().span());
  check_within(piece.block_start, piece.extent, assembly.shape);
  const std::size_t size = itemsize(source.type());
  const std::size_t bytes = checked_bytes(assembly.shape, size);
  const std::int64_t start = run_start(piece, source.shape().span(), size);
  const Ref<Storage>& whole = job.sources[piece.source].storage;
  if (bytes == 0 || start < 0) return {};
  const std::byte* data = whole->data() + start;
  if (reinterpret_cast<std::uintptr_t>(data) % target.alignment() != 0) return {};
  return Storage::lend(data, bytes, keep(whole));
}

/// A block that is there or in flight.
struct Made {
  Ref<Storage> storage;
  ReadyEvent ready;
};

}  // namespace

std::vector<Ref<Buffer>> Client::assemble(std::span<const Buffer* const> buffers,
                                          const Assembly& assembly,
                                          std::span<Memory* const> targets, bool may_alias,
                                          std::int64_t stream) {
  check_open(kAssemble);
  if (buffers.size() != assembly.num_sources || targets.size() != assembly.block_of.size()) {
    raise_invalid("The assembly is for " + std::to_string(assembly.num_sources) + " sources and " +
                      std::to_string(assembly.block_of.size()) + " targets, not " +
                      std::to_string(buffers.size()) + " and " + std::to_string(targets.size()) +
                      ".",
                  kAssemble);
  }
  if (targets.empty()) return {};
  if (buffers.empty()) raise_invalid("Blocks need at least one source.", kAssemble);
  const ElementType type = buffers[0]->type();
  FillJob job;
  for (const Buffer* buffer : buffers) {
    if (buffer->type() != type) {
      raise_invalid("The sources must be of one element type.", kAssemble);
    }
    job.sources.push_back(
        {buffer->memory().get(), storage_of(*buffer, kAssemble), buffer->ready()});
  }
  const std::size_t bytes = checked_bytes(assembly.shape, itemsize(type));
  std::map<std::pair<std::int64_t, int>, Made> made;  // by block and address space
  std::vector<Ref<Buffer>> results;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int64_t number = assembly.block_of[i];
    const auto [at, is_new] = made.try_emplace({number, targets[i]->space()});
    Made& block = at->second;
    if (is_new) {
      const std::vector<Piece>& pieces = assembly.blocks[static_cast<std::size_t>(number)];
      if (may_alias) block.storage = share_part(pieces, buffers, job, assembly, *targets[i]);
      if (block.storage) {
        block.ready = buffers[pieces[0].source]->ready();
      } else {
        Filling& filling = job.fillings.emplace_back();
        filling.storage = targets[i]->allocate(bytes);
        add_pieces(filling, pieces, buffers, assembly, job, *targets[i]);
        block = {filling.storage.share(), filling.promise.event()};
        if (is_for_device(filling, job, *targets[i])) [[unlikely]] {
          block.ready = {};
          for (DeviceCopies& work : to_device_copies(filling, job, *targets[i], stream)) {
            work.after.push_back(
                block.ready);  // one event stands for all: each begins after another
            block.ready = copy_by_device(std::move(work));
          }
          keep_for_host(filling, job, *targets[i]);
          if (filling.copies.empty()) {
            job.fillings.pop_back();
          } else {
            filling.by_devices = std::exchange(block.ready, filling.promise.event());
          }
        }
      }
    }
    results.push_back(Buffer::make(targets[i]->shared(), type, Dims(assembly.shape),
                                   block.storage.share(), block.ready));
  }
  if (job.fillings.empty()) return results;
  const bool at_once = job.is_ready() && job.bytes() <= kParallelCopyBytes;
  if (at_once || !options_.asynchronous) {
    job.run(pool_);
  } else {
    targets[0]->device().queue().enqueue(stream, [job = std::make_unique<FillJob>(std::move(job)),
                                                  &pool = pool_] { job->run(pool); });
  }
  return results;
}

void Client::gather(std::span<const Gathered> parts, std::byte* out,
                    std::span<const std::int64_t> shape, std::size_t itemsize) {
  constexpr std::int64_t kOrigin[kMaxDims] = {};
  std::vector<RegionCopy> copies;
  copies.reserve(parts.size());
  for (const Gathered& part : parts) {
    const auto extent = part.shape.span();
    add_region_copy({part.storage->data(), extent, {kOrigin, extent.size()}, part.order},
                    {out, shape, part.start.span()}, extent, itemsize, copies);
  }
  run_region_copies(copies, pool_);
}

}  // namespace devrt::native
