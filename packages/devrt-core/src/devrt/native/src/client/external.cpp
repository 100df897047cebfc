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

bool is_repeated(const StridedView& view, std::size_t i) noexcept {
  return view.strides[i] == 0 && view.shape[i] > 1;
}

/// One side of a copy of a box of elements.
template <class Byte>
struct Side {
  Byte* data;
  const Dims& steps;
};

/// Appends the copies of a box of elements. The longest of its rows are the innermost loop, which
/// devices make in one call.
void add_box(Side<const std::byte> from, Side<std::byte> to, const Dims& extent,
             std::size_t itemsize, int space, std::vector<RegionCopy>& copies) {
  detail::DeepCopy deep{from.data, to.data, itemsize, 0, {}, {}, {}, space, space};
  for (std::size_t i = extent.size(); i-- > 0;) {
    const auto run = static_cast<std::int64_t>(deep.run);
    if (extent[i] == 1) continue;
    if (deep.depth == 0 && from.steps[i] == run && to.steps[i] == run) {
      deep.run *= static_cast<std::size_t>(extent[i]);
      continue;
    }
    deep.extent[deep.depth] = extent[i];
    deep.from_step[deep.depth] = from.steps[i];
    deep.to_step[deep.depth++] = to.steps[i];
  }
  std::size_t rows = 0;
  const auto are_rows = [&](std::size_t i) {
    return std::min(deep.from_step[i], deep.to_step[i]) >= static_cast<std::int64_t>(deep.run);
  };
  for (std::size_t i = 1; i < deep.depth; ++i) {
    if (are_rows(i) && (!are_rows(rows) || deep.extent[i] > deep.extent[rows])) rows = i;
  }
  for (std::size_t i = rows; i > 0; --i) {
    std::swap(deep.extent[i], deep.extent[i - 1]);
    std::swap(deep.from_step[i], deep.from_step[i - 1]);
    std::swap(deep.to_step[i], deep.to_step[i - 1]);
  }
  detail::emit(deep, deep.depth, deep.from, deep.to, copies);
}

/// Appends the copies that make a dense row-major array of one with any strides: of what lies at
/// the first index of repeated dimensions, and from there, twice as far with each, to the others.
void add_strided_copy(const StridedView& view, std::byte* to, int space,
                      std::vector<RegionCopy>& copies) {
  const Dims steps = dense_strides(view.shape, view.itemsize);
  Dims extent(view.shape);
  for (std::size_t i = 0; i < extent.size(); ++i) {
    if (is_repeated(view, i)) extent[i] = 1;
  }
  add_box({view.data, Dims(view.strides)}, {to, steps}, extent, view.itemsize, space, copies);
  for (std::size_t i = extent.size(); i-- > 0;) {
    if (!is_repeated(view, i)) continue;
    for (std::int64_t done = 1; done < view.shape[i]; done *= 2) {
      extent[i] = std::min(done, view.shape[i] - done);
      add_box({to, steps}, {to + done * steps[i], steps}, extent, view.itemsize, space, copies);
    }
    extent[i] = view.shape[i];
  }
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

/// Calls of a driver that one array is worth; above it the host lays out what it is given whole.
constexpr std::size_t kMostCalls = 1024;
/// How many times the array's own bytes the host is given for that.
constexpr std::int64_t kMostGaps = 16;

bool is_for_host(const Reach& reach, std::size_t bytes) noexcept {
  std::int64_t all = 0;
  return !__builtin_add_overflow(reach.before, reach.after, &all) &&
         all / kMostGaps <= static_cast<std::int64_t>(bytes);
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

Ref<Buffer> Client::take_over_by_host(Memory& memory, External&& source, std::int64_t stream) {
  HostArray array = source.array;
  const Reach reach = reach_of(array.view);
  Ref<Storage> whole =
      Storage::lend(array.view.data - reach.before,
                    static_cast<std::size_t>(reach.before + reach.after), std::move(source.hold));
  const Fetched fetched = fetch(memory, std::move(whole), source.ready);
  wait_unlocked([&] { raise_if_error(wait(fetched.ready)); });
  array.view.data = fetched.storage->data() + reach.before;
  ExternalOwner none;
  return put(memory, array, none, {.stream = stream});
}

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
    if (backend_->calls_of(work.copies) > kMostCalls && is_for_host(reach_of(view), bytes)) {
      source.ready = std::move(ready);
      return take_over_by_host(memory, std::move(source), stream);
    }
    work.storages.push_back(Storage::lend(view.data, bytes, std::move(source.hold)));
    work.storages.push_back(storage.share());
    work.after.push_back(std::move(ready));
    ready = copy_by_device(std::move(work));
  }
  return Buffer::make(memory.shared(), source.array.type, Dims(view.shape), std::move(storage),
                      std::move(ready));
}

}  // namespace devrt::native
