// Copies and fills: checked when they are given to a stream, done when it comes to them.
#include <algorithm>
#include <cstring>

#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {
namespace {

std::string call_text(const Call& call) {
  return std::string(call.function) + " (call " + std::to_string(call.number) + ")";
}

/// Calls back with the offset of each row of a side, from its address on.
template <class Body>
void for_each_row(const Copy& copy, const CopySide& side, const Body& body) {
  for (std::size_t z = 0; z < copy.depth; ++z) {
    for (std::size_t y = 0; y < copy.height; ++y) body(z * side.slice + y * side.pitch);
  }
}

/// Reads rows of the host's into one piece, as a driver does with memory that is not pinned.
std::shared_ptr<std::vector<std::byte>> stage(const Copy& copy) {
  auto staged = std::make_shared<std::vector<std::byte>>();
  staged->reserve(copy.width * copy.height * copy.depth);
  for_each_row(copy, copy.from, [&](std::size_t offset) {
    const auto* row = reinterpret_cast<const std::byte*>(copy.from.address + offset);
    staged->insert(staged->end(), row, row + copy.width);
  });
  return staged;
}

}  // namespace

void Machine::note(Allocation& allocation, Access access) {
  note_access(allocation, std::move(access), running_kernels_ == 0 ? &host_ : nullptr, reports_);
}

AllocationRef Machine::operand(const Call& call, const CopySide& side, std::size_t span,
                               int device) {
  const AllocationRef found = memory_.find(side.address);
  const auto refuse = [&](const char* kind, const std::string& why) {
    reports_.add(kind, call_text(call) + " on device " + std::to_string(device) + " is given " +
                           hex(side.address) + ", " + why);
    throw Failure{Code::kInvalidValue};
  };
  if (!found || found->is_retired) {
    if (found) {
      refuse("use after free",
             "which is in " + found->text() + " that " + found->freed->text() + " has freed");
    }
    if (side.is_device || memory_.is_device_address(side.address)) {
      refuse("unknown address", "where no allocation is");
    }
    return nullptr;
  }
  if (!side.is_device && found->space == Space::kDevice) {
    refuse("wrong direction", "which is " + found->text() + ", as an address of the host");
  }
  if (side.address + span > found->end()) {
    refuse("out of bounds",
           "and " + std::to_string(span) + " bytes, which go beyond " + found->text());
  }
  if (side.device >= 0 && found->space == Space::kDevice && found->device != side.device) {
    refuse("wrong peer", "which is " + found->text() + " of device " +
                             std::to_string(found->device) + ", with the context of device " +
                             std::to_string(side.device));
  }
  if (side.device < 0 && !can_reach(device, *found)) {
    refuse("no peer access", "which is " + found->text() + " of device " +
                                 std::to_string(found->device) + ", and has no access to it");
  }
  return found;
}

void Machine::note_rows(const Copy& copy, const CopySide& side, Allocation& allocation, bool writes,
                        const MomentRef& moment) {
  const std::size_t begin = side.address - allocation.begin;
  Access access{begin, begin + copy.span(side), writes, moment};
  const bool has_gaps = (copy.height > 1 && side.pitch != copy.width) ||
                        (copy.depth > 1 && side.slice != copy.width * copy.height);
  if (has_gaps) access.rows = {copy.width, copy.height, side.pitch, copy.depth, side.slice};
  note(allocation, std::move(access));
}

void Machine::copy(const Call& call, const Copy& copy, Handle stream_handle) {
  Lock lock(state_);
  const StreamRef stream = stream_of(call, stream_handle, true);
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return;
  const AllocationRef to = operand(call, copy.to, copy.span(copy.to), stream->device);
  const AllocationRef from = operand(call, copy.from, copy.span(copy.from), stream->device);
  std::vector<Point> waits = join_default(*stream);
  const MomentRef moment = moment_on(call, *stream);
  if (from) note_rows(copy, copy.from, *from, false, moment);
  if (to) note_rows(copy, copy.to, *to, true, moment);
  Copy rows = copy;
  std::shared_ptr<std::vector<std::byte>> staged;
  if (!from) {
    staged = stage(copy);
    rows.from.address = reinterpret_cast<Address>(staged->data());
    rows.from.pitch = copy.width;
    rows.from.slice = copy.width * copy.height;
  }
  enqueue(
      stream, moment, std::move(waits),
      [this, rows, to, from, moment, staged](Code error) {
        error == Code::kSuccess ? move(rows, to, from, moment) : leave_rows(rows, to);
      },
      true);
  if (to) return;
  // Memory that is not pinned: the drivers return when the bytes are there.
  const Point end{stream, stream->submitted};
  wait_for(lock, end);
  host_.join(moment->clock);
  check_health(stream->device);
}

void Machine::move(const Copy& copy, const AllocationRef& to, const AllocationRef& from,
                   const MomentRef& moment) {
  const Lock memory(bytes_);
  if (has_failed(moment->device)) return leave_rows(copy, to);
  const bool tracks_from = from && from->space == Space::kDevice;
  const bool tracks_to = to && to->space == Space::kDevice;
  for (std::size_t z = 0; z < copy.depth; ++z) {
    for (std::size_t y = 0; y < copy.height; ++y) {
      const Address source = copy.from.address + z * copy.from.slice + y * copy.from.pitch;
      const Address target = copy.to.address + z * copy.to.slice + y * copy.to.pitch;
      std::memmove(to ? to->at(target) : reinterpret_cast<std::byte*>(target),
                   from ? from->at(source) : reinterpret_cast<const std::byte*>(source),
                   copy.width);
      const Lock state(state_);
      const std::size_t begin = from ? source - from->begin : 0;
      const std::size_t at = to ? target - to->begin : 0;
      if (tracks_from && tracks_to) {
        from->written.copy(begin, begin + copy.width, to->written, at);
      } else if (tracks_to) {
        to->written.add(at, at + copy.width);
      } else if (tracks_from) {
        note_read(*from, begin, begin + copy.width, *moment);
      }
    }
  }
}

void Machine::leave(Allocation& allocation, std::size_t begin, std::size_t end) {
  const Lock state(state_);
  allocation.written.add(begin, end);
}

void Machine::leave_rows(const Copy& copy, const AllocationRef& to) {
  if (!to || to->space != Space::kDevice) return;
  const std::size_t begin = copy.to.address - to->begin;
  for_each_row(copy, copy.to, [&](std::size_t offset) {
    leave(*to, begin + offset, begin + offset + copy.width);
  });
}

void Machine::note_read(Allocation& allocation, std::size_t begin, std::size_t end,
                        const Moment& moment) {
  if (!settings_.uninitialised || allocation.space != Space::kDevice) return;
  const auto gap = allocation.written.first_gap(begin, end);
  if (!gap) return;
  reports_.add("read of uninitialised memory",
               moment.text() + " reads bytes " + std::to_string(begin) + " to " +
                   std::to_string(end) + " of " + allocation.text() + ", made by " +
                   allocation.made->text() + "; nothing wrote byte " + std::to_string(*gap));
}

void Machine::fill(const Call& call, Address address, int value, std::size_t bytes,
                   Handle stream_handle) {
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, stream_handle, true);
  if (bytes == 0) return;
  const AllocationRef to = operand(call, {address}, bytes, stream->device);
  std::vector<Point> waits = join_default(*stream);
  const MomentRef moment = moment_on(call, *stream);
  const std::size_t begin = address - to->begin;
  note(*to, {begin, begin + bytes, true, moment});
  const auto run = [this, to, address, value, bytes, begin, moment](Code) {
    const Lock memory(bytes_);
    if (!has_failed(moment->device)) std::memset(to->at(address), value, bytes);
    const Lock state(state_);
    to->written.add(begin, begin + bytes);
  };
  enqueue(stream, moment, std::move(waits), run, true);
}

}  // namespace devrt::gpu_simulator
