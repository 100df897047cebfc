// Arrays of other libraries that lie on a device of the client: shown as they are, or copied there.
#include "client/external.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "client/device_copy.hpp"

namespace devrt::native {

namespace {

/// Returns the order in which the elements lie densely; nothing where they do not.
std::optional<Dims> dense_order(const StridedView& view) {
  std::vector<std::int64_t> order(view.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);  // of equal strides, as a row-major array has them
  const auto at = [](std::span<const std::int64_t> values, std::int64_t i) {
    return values[static_cast<std::size_t>(i)];
  };
  const bool is_empty = std::ranges::find(view.shape, 0) != view.shape.end();
  const bool has_order = std::ranges::none_of(view.shape, [](auto extent) { return extent == 1; });
  if (has_order && !is_empty) {
    std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return at(view.strides, i); });
  }
  auto step = static_cast<std::int64_t>(view.itemsize);
  for (const std::int64_t i : order) {
    if (is_empty || at(view.shape, i) == 1) continue;
    if (at(view.strides, i) != step) return std::nullopt;
    step *= at(view.shape, i);
  }
  return is_row_major(order) ? Dims() : Dims(order);
}

/// Appends the copies that make a dense row-major array of one with any strides.
void add_strided_copy(const StridedView& view, std::byte* to, int space,
                      std::vector<RegionCopy>& copies) {
  detail::DeepCopy deep{view.data, to, view.itemsize, 0, {}, {}, {}, space, space};
  const Dims steps = dense_strides(view.shape, view.itemsize);
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] == 1) continue;
    if (deep.depth == 0 && view.strides[i] == static_cast<std::int64_t>(deep.run)) {
      deep.run *= static_cast<std::size_t>(view.shape[i]);
      continue;
    }
    deep.extent[deep.depth] = view.shape[i];
    deep.from_step[deep.depth] = view.strides[i];
    deep.to_step[deep.depth++] = steps[i];
  }
  detail::emit(deep, deep.depth, deep.from, deep.to, copies);
}

/// The bytes of an array, counted from its first element: it begins at -before. As many as there
/// are numbers for, where it reaches further.
struct Reach {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

Reach reach_of(const StridedView& view) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Reach reach{0, static_cast<std::int64_t>(view.itemsize)};
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    std::int64_t far = 0;
    const bool is_far = __builtin_mul_overflow(view.strides[i], view.shape[i] - 1, &far);
    const bool is_back = view.strides[i] < 0;
    std::int64_t& side = is_back ? reach.before : reach.after;
    if (is_far || far == std::numeric_limits<std::int64_t>::min() ||
        __builtin_add_overflow(side, is_back ? -far : far, &side)) {
      side = kMost;
    }
  }
  return reach;
}

/// Throws INVALID_ARGUMENT for an array that reaches out of the allocation it begins in.
void check_reach(const StridedView& view, const AddressRange& range, const std::string& device) {
  const auto at = reinterpret_cast<std::uintptr_t>(view.data);
  if (range.bytes == 0 || at < range.begin || at - range.begin >= range.bytes) return;  // unknown
  const auto before = static_cast<std::int64_t>(at - range.begin);
  const auto after = static_cast<std::int64_t>(range.bytes) - before;
  const Reach reach = reach_of(view);
  if (reach.before <= before && reach.after <= after) return;
  const auto text = [](std::int64_t from, std::int64_t to) {
    return "bytes " + std::to_string(-from) + " to " + std::to_string(to);
  };
  raise_invalid("The array has " + text(reach.before, reach.after) +
                    " from its address on, and the allocation there, on " + device + ", has " +
                    text(before, after) +
                    ". Have its owner give the shape, strides and address of what it allocated.",
                "buffer_from_external");
}

}  // namespace

Ref<Buffer> Client::take_over(Memory& memory, External&& source, std::int64_t stream) {
  check_open("buffer_from_external");
  const StridedView& view = source.array.view;
  const std::size_t bytes = checked_bytes(view.shape, view.itemsize);
  const std::optional<Dims> order = dense_order(view);
  // What a capsule lends as it is costs no call of the driver: its owner made it of an allocation.
  if (bytes > 0 && (source.is_described || !order)) {
    check_reach(view, backend_->range_at(view.data), memory.device().name());
  }
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(view.data) % memory.alignment() == 0;
  if (order && is_aligned && source.copy != Copy::kAlways) {
    return Buffer::make(memory.shared(), source.array.type, Dims(view.shape),
                        Storage::lend(view.data, bytes, std::move(source.hold)),
                        std::move(source.ready),
                        order->size() > 0 ? std::make_unique<const Dims>(order->copy()) : nullptr);
  }
  if (source.copy == Copy::kNever) {
    raise_invalid(
        "The array cannot be shared as it is: it is not dense, or does not begin at a "
        "multiple of " +
            std::to_string(memory.alignment()) +
            " bytes. Leave copy out to have it copied where it must be.",
        "buffer_from_external");
  }
  return copied(memory, std::move(source), bytes, stream);
}

Ref<Buffer> Client::copied(Memory& memory, External&& source, std::size_t bytes,
                           std::int64_t stream) {
  const StridedView& view = source.array.view;
  Ref<Storage> storage = memory.allocate(bytes);
  ReadyEvent ready = std::move(source.ready);
  if (bytes > 0) {
    DeviceCopies work{
        {static_cast<std::size_t>(memory.device().local_id()), Lane::kWithin, stream}};
    add_strided_copy(view, storage->data(), memory.space(), work.copies);
    work.storages.push_back(Storage::lend(view.data, bytes, std::move(source.hold)));
    work.storages.push_back(storage.share());
    work.after.push_back(std::move(ready));
    ready = copy_by_device(std::move(work));
  }
  return Buffer::make(memory.shared(), source.array.type, Dims(view.shape), std::move(storage),
                      std::move(ready));
}

}  // namespace devrt::native
