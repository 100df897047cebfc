// What the functions of the simulated drivers share: the vendors' structures that have one layout,
// and the numbers that are the same.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "gpu_simulator/entry.hpp"

namespace devrt::gpu_simulator {

inline void need(bool holds) {
  if (!holds) throw Failure{Code::kInvalidValue};
}

/// What a vendor's driver calls an error.
struct ErrorName {
  Code code;
  const char* name;
};

/// Returns the row of an error's number; null where the driver has none.
inline const ErrorName* find_error(std::span<const ErrorName> errors, int number) {
  const auto found = std::ranges::find(errors, static_cast<Code>(number), &ErrorName::code);
  return found == errors.end() ? nullptr : &*found;
}

/// An attribute of devices, by the vendor's number.
struct Attribute {
  int number;
  int value;
};

/// Returns the value of an attribute, or 0 where neither table has it.
inline int attribute_in(std::span<const Attribute> of_device, std::span<const Attribute> fixed,
                        int number) {
  for (const auto& table : {of_device, fixed}) {
    const auto found = std::ranges::find(table, number, &Attribute::number);
    if (found != table.end()) return found->value;
  }
  return 0;
}

struct Location {
  int type;  // 1: a device
  int device;
};
struct PoolAccess {
  Location location;
  int flags;
};

/// Sets 1 to 3: how freed bytes are used again; 4: the threshold; 6 and 8: marks, back to what is
/// now.
inline void set_attribute(Pool& pool, int attribute, const void* value) {
  need((attribute >= 1 && attribute <= 4) || attribute == 6 || attribute == 8);
  if (attribute <= 3) {
    pool.reuse[attribute] = *static_cast<const unsigned*>(value);
    return;
  }
  const std::uint64_t given = *static_cast<const std::uint64_t*>(value);
  if (attribute == 4) pool.threshold = given;
  if (attribute > 4) need(given == 0);
  if (attribute == 6) pool.reserved_high = pool.reserved;
  if (attribute == 8) pool.used_high = pool.used;
}

inline void get_attribute(const Pool& pool, int attribute, void* value) {
  need(attribute >= 1 && attribute <= 8);
  if (attribute <= 3) {
    *static_cast<unsigned*>(value) = static_cast<unsigned>(pool.reuse[attribute]);
    return;
  }
  const std::uint64_t values[] = {pool.threshold, pool.reserved, pool.reserved_high, pool.used,
                                  pool.used_high};
  *static_cast<std::uint64_t*>(value) = values[attribute - 4];
}

inline void set_access(const Machine& machine, Pool& pool, std::span<const PoolAccess> access) {
  for (const PoolAccess& each : access) {
    const int device = each.location.device;
    need(each.location.type == 1);
    machine.check_device(device);
    if (device == pool.device) continue;
    if (!machine.are_linked(device, pool.device)) throw Failure{Code::kInvalidDevice};
    if (each.flags == 3) {
      pool.readers.insert(device);
    } else {
      pool.readers.erase(device);
    }
  }
}

/// Writes an attribute of a pointer.
inline void get_attribute(const PointerFacts& facts, int attribute, Address address, void* data) {
  const auto put = [&](auto value) { std::memcpy(data, &value, sizeof(value)); };
  const Allocation* known = facts.allocation.get();
  const bool of_host =
      !known || known->space == Space::kPinned || known->space == Space::kRegistered;
  switch (attribute) {
    case 1:
      return put(known ? facts.context : Handle{0});
    case 2:
      return put(!known ? 0U : of_host ? 1U : 2U);
    case 3:
      return put(known ? address : Address{0});
    case 4:
      return put(known && known->space == Space::kDevice ? Address{0} : address);
    case 8:
      return put(static_cast<unsigned char>(known && known->space == Space::kManaged));
    case 9:
      return put(!known ? -2 : known->device < 0 ? 0 : known->device);
    case 11:
      return put(known ? known->begin : Address{0});
    case 12:
      return put(known ? known->bytes : std::size_t{0});
    case 13:
      return put(static_cast<unsigned char>(known != nullptr));
    case 17:
      return put(known ? known->pool : Handle{0});
    default:
      throw Failure{Code::kNotSupported};
  }
}

/// Returns a kernel's attribute: threads of a block, registers, dynamic shared memory; no other is
/// of use here.
inline int function_attribute(int attribute) {
  return attribute == 0 ? 1024 : attribute == 4 ? 32 : attribute == 8 ? 49152 : 0;
}

inline void find_block_size(const Machine& machine, int limit, int* grid, int* block) {
  *block = limit > 0 && limit < 1024 ? limit : 1024;
  *grid = machine.model().multiprocessors * machine.model().threads_per_multiprocessor / *block;
}

inline CopySide on_host(const void* data) { return {reinterpret_cast<Address>(data), false}; }

inline Copy linear(CopySide to, CopySide from, std::size_t bytes) {
  Copy made;
  made.to = to;
  made.from = from;
  made.width = bytes;
  return made;
}

/// Returns a launch with parameters in either form. `extra` has pairs of a number and a value: 1 is
/// where packed parameters lie, 2 where their size is; it ends with 0, or with 3.
inline Launch make_launch(std::array<unsigned, 3> grid, std::array<unsigned, 3> block,
                          unsigned shared, void** parameters, void** extra) {
  Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared;
  launch.parameters = parameters;
  for (; extra && *extra; extra += 2) {
    const auto what = reinterpret_cast<std::uintptr_t>(*extra);
    if (what == 3) break;
    if (what == 1) launch.packed = extra[1];
    if (what == 2) launch.packed_bytes = *static_cast<std::size_t*>(extra[1]);
  }
  return launch;
}

}  // namespace devrt::gpu_simulator
