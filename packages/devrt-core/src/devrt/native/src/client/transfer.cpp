// Transfers: host array to buffer, one or many, and buffer to buffer.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "client/client.hpp"

namespace devrt::native {

namespace {

bool can_alias(const StridedView& view, std::size_t bytes, const Memory& memory) noexcept {
  return memory.is_host_visible() && bytes > 0 && view.swap <= 1 && is_dense(view) &&
         reinterpret_cast<std::uintptr_t>(view.data) % memory.alignment() == 0;
}

/// An owner that several storages share; the source goes when the last of them does.
class SharedOwner {
 public:
  explicit SharedOwner(ExternalOwner owner)
      : owner_(std::make_shared<ExternalOwner>(std::move(owner))) {}

  ExternalOwner share() const {
    return {new std::shared_ptr<ExternalOwner>(owner_), [](void* context) noexcept {
              delete static_cast<std::shared_ptr<ExternalOwner>*>(context);
            }};
  }

 private:
  std::shared_ptr<ExternalOwner> owner_;
};

/// A strided view that owns its extents, for work that outlives the call.
struct OwnedView {
  explicit OwnedView(const StridedView& view)
      : shape(view.shape), strides(view.strides), source(view) {}

  void copy_to(std::byte* to) const {
    StridedView view = source;
    view.shape = shape.span();
    view.strides = strides.span();
    copy_to_dense(view, to);
  }

  Dims shape;
  Dims strides;
  StridedView source;
};

std::unique_ptr<const Dims> own_order(std::span<const std::int64_t> order) {
  return is_row_major(order) ? nullptr : std::make_unique<const Dims>(order);
}

/// Throws unless the block lies within the array; returns the address of its first element.
const std::byte* block_start(const StridedView& view, const Block& block,
                             std::span<const std::int64_t> shape) {
  if (block.offset.size() != view.shape.size() || shape.size() != view.shape.size()) {
    raise_invalid("Each offset and the block shape need one entry for each of the " +
                      std::to_string(view.shape.size()) + " dimensions of the argument.",
                  "batched_buffer_from_pyval");
  }
  const std::byte* start = view.data;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t offset = block.offset[i];
    if (shape[i] < 0 || offset < 0 || shape[i] > view.shape[i] ||
        offset > view.shape[i] - shape[i]) {
      raise_invalid("A block of " + std::to_string(shape[i]) + " from " + std::to_string(offset) +
                        " does not lie within dimension " + std::to_string(i) + " of size " +
                        std::to_string(view.shape[i]) + ".",
                    "batched_buffer_from_pyval");
    }
    start += offset * view.strides[i];
  }
  return start;
}

/// The distinct blocks of a batch: for each target, the index of the first target with its bytes.
std::vector<std::size_t> find_equal_blocks(std::span<const Block> blocks,
                                           std::span<const std::byte* const> starts) {
  const auto before = [&](std::size_t a, std::size_t b) {
    return std::tuple(starts[a], blocks[a].memory->space(), a) <
           std::tuple(starts[b], blocks[b].memory->space(), b);
  };
  std::vector<std::size_t> order(blocks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), before);
  std::vector<std::size_t> first(blocks.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t here = order[i];
    const std::size_t previous = i > 0 ? order[i - 1] : here;
    const bool equal = starts[here] == starts[previous] &&
                       blocks[here].memory->space() == blocks[previous].memory->space();
    first[here] = i > 0 && equal ? first[previous] : here;
  }
  return first;
}

/// Copies that one call makes, collected so that they can be shared among threads.
struct CopyBatch {
  std::vector<std::pair<const std::byte*, std::byte*>> pieces;

  void run(StridedView view, std::size_t piece_bytes, ThreadPool& pool) const {
    const auto copy_one = [&](std::size_t i, ThreadPool* helpers) {
      StridedView piece = view;
      piece.data = pieces[i].first;
      copy_to_dense(piece, pieces[i].second, helpers);
    };
    if (pieces.size() >= pool.width() && pieces.size() * piece_bytes >= kParallelCopyBytes) {
      pool.run(pieces.size(), [&](std::size_t i) { copy_one(i, nullptr); });
    } else {
      for (std::size_t i = 0; i < pieces.size(); ++i) copy_one(i, &pool);
    }
  }
};

}  // namespace

Ref<Storage> Client::fill_later(Device& device, Ref<Storage> storage, const StridedView& view,
                                ExternalOwner hold, ReadyEvent& ready, std::int64_t stream) {
  ReadyPromise promise;
  ready = promise.event();
  device.queue().enqueue(stream, [promise = std::move(promise), target = storage.share(),
                                  source = OwnedView(view), hold = std::move(hold)]() mutable {
    source.copy_to(target->data());
    hold.reset();
    target.reset();
    promise.set();
  });
  return storage;
}

Ref<Buffer> Client::put(Memory& memory, const HostArray& source, ExternalOwner& hold,
                        PutOptions options) {
  check_open("buffer_from_pyval");
  std::optional<OrderedView> ordered;  // the common order needs none
  if (!options.order.empty()) ordered.emplace(source.view, options.order);
  const StridedView& view = ordered ? ordered->view() : source.view;
  const std::size_t bytes = checked_bytes(view.shape, view.itemsize);
  // Copied now: once `hold` is handed over, the source, its shape included, may go at any time.
  Dims shape(source.view.shape);
  const bool zero_copy = options.semantics >= Semantics::kZeroCopy && !options.force_copy;
  ReadyEvent ready;
  Ref<Storage> storage;
  if (zero_copy && hold && can_alias(view, bytes, memory)) {
    storage = Storage::lend(view.data, bytes, std::move(hold));
  } else if (!memory.is_host_visible()) [[unlikely]] {
    storage = memory.allocate(bytes);
    const bool is_kept = options.semantics != Semantics::kOnlyDuringCall;
    ready =
        put_by_device(memory, view, is_kept ? std::move(hold) : ExternalOwner(), storage, options);
  } else {
    storage = memory.allocate(bytes);
    const bool later = options_.asynchronous && hold && bytes > kInlineCopyBytes &&
                       options.semantics == Semantics::kUntilTransferCompletes;
    if (later) {
      storage = fill_later(memory.device(), std::move(storage), view, std::move(hold), ready,
                           options.stream);
    } else if (bytes > 0) {
      copy_to_dense(view, storage->data(), &pool_);
    }
  }
  return Buffer::make(memory.shared(), source.type, std::move(shape), std::move(storage),
                      std::move(ready), own_order(options.order));
}

std::vector<Ref<Buffer>> Client::put_blocks(const HostArray& source, std::span<const Block> blocks,
                                            std::span<const std::int64_t> shape,
                                            ExternalOwner& hold, PutOptions options) {
  check_open("batched_buffer_from_pyval");
  StridedView view = source.view;
  std::vector<const std::byte*> starts;
  starts.reserve(blocks.size());
  for (const Block& block : blocks) starts.push_back(block_start(view, block, shape));
  view.shape = shape;
  const std::size_t bytes = checked_bytes(shape, view.itemsize);
  const std::vector<std::size_t> first = find_equal_blocks(blocks, starts);

  const bool zero_copy = options.semantics >= Semantics::kZeroCopy && !options.force_copy && hold;
  const bool later = options_.asynchronous && hold && bytes > kInlineCopyBytes &&
                     options.semantics == Semantics::kUntilTransferCompletes;
  std::unique_ptr<SharedOwner> owner;
  if (zero_copy || later) owner = std::make_unique<SharedOwner>(std::move(hold));

  std::vector<Ref<Storage>> storages(blocks.size());
  std::vector<ReadyEvent> events(blocks.size());
  CopyBatch batch;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (first[i] != i) continue;  // sort order guarantees first[i] <= i
    view.data = starts[i];
    if (zero_copy && can_alias(view, bytes, *blocks[i].memory)) {
      storages[i] = Storage::lend(view.data, bytes, owner->share());
      continue;
    }
    Memory& memory = *blocks[i].memory;
    storages[i] = memory.allocate(bytes);
    if (!memory.is_host_visible()) {
      events[i] = put_by_device(memory, view, owner ? owner->share() : ExternalOwner(), storages[i],
                                options);
    } else if (later) {
      storages[i] = fill_later(memory.device(), std::move(storages[i]), view, owner->share(),
                               events[i], options.stream);
    } else if (bytes > 0) {
      batch.pieces.emplace_back(starts[i], storages[i]->data());
    }
  }
  batch.run(view, bytes, pool_);

  std::vector<Ref<Buffer>> buffers;
  buffers.reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    buffers.push_back(Buffer::make(blocks[i].memory->shared(), source.type, Dims(shape),
                                   storages[first[i]].share(), events[first[i]]));
  }
  return buffers;
}

Ref<Buffer> Client::copy(const Buffer& source, Memory& target, bool may_alias,
                         std::int64_t stream) {
  if (!may_alias || target.space() != source.memory()->space()) {
    (void)storage_of(source, "copy_to_memory");  // before memory is taken
    return copy_into(target.allocate(source.bytes()), source, target, stream);
  }
  return Buffer::make(target.shared(), source.type(), source.shape().copy(),
                      storage_of(source, "copy_to_memory"), source.ready(),
                      own_order(source.order()));
}

Ref<Buffer> Client::copy_into(Ref<Storage> copied, const Buffer& source, Memory& target,
                              std::int64_t stream) {
  Ref<Storage> storage = storage_of(source, "copy_to_memory");
  ReadyEvent ready = source.ready();
  const bool is_by_host = target.is_host_visible() && source.memory()->is_host_visible();
  const bool at_once = ready.is_ready() && source.bytes() <= kInlineCopyBytes;
  const auto fill = [](const Storage& from, const Storage& to, ThreadPool* pool) {
    const auto bytes = static_cast<std::int64_t>(from.bytes());
    const std::int64_t stride = 1;
    copy_to_dense({from.data(), {&bytes, 1}, {&stride, 1}, 1, 1}, to.data(), pool);
  };
  if (!is_by_host) [[unlikely]] {
    ready = move_by_device(*source.memory(), storage, std::move(ready), target, copied, stream);
  } else if (at_once || !options_.asynchronous) {
    if (ready.wait().ok()) fill(*storage, *copied, &pool_);
  } else {
    ReadyPromise promise;
    ReadyEvent copied_ready = promise.event();
    target.device().queue().enqueue(
        stream, [promise = std::move(promise), from = std::move(storage), to = copied.share(),
                 ready = std::move(ready), fill]() mutable {
          Status status = ready.wait();
          if (status.ok()) fill(*from, *to, nullptr);
          from.reset();
          to.reset();
          promise.set(std::move(status));
        });
    ready = std::move(copied_ready);
  }
  return Buffer::make(target.shared(), source.type(), source.shape().copy(), std::move(copied),
                      std::move(ready), own_order(source.order()));
}

Ref<Buffer> Client::clone(const Buffer& source) {
  return Buffer::make(source.memory(), source.type(), source.shape().copy(),
                      storage_of(source, "clone"), source.ready(), own_order(source.order()));
}

}  // namespace devrt::native
