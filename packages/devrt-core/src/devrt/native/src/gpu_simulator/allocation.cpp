#include "gpu_simulator/allocation.hpp"

#include <algorithm>
#include <array>

namespace devrt::gpu_simulator {
namespace {

std::string range(const Allocation& allocation, const Access& access) {
  return (access.writes ? " writes " : " reads ") + std::string("bytes ") +
         std::to_string(access.begin) + " to " + std::to_string(access.end) + " of " +
         allocation.text();
}

/// Whether an access has one of the bytes of a range.
bool touches(const Access& access, std::size_t begin, std::size_t end) noexcept {
  const Rows& rows = access.rows;
  if (begin >= access.end || access.begin >= end) return false;
  if (rows.width == 0) return true;
  for (std::size_t z = 0; z < rows.depth; ++z) {
    const std::size_t plane = access.begin + z * rows.slice;
    const std::size_t first = plane + rows.width;  // behind the first row
    const std::size_t y = begin < first ? 0 : (begin - first) / rows.pitch + 1;
    if (y < rows.height && plane + y * rows.pitch < end) return true;
  }
  return false;
}

bool overlap(const Access& a, const Access& b) noexcept {
  if (!touches(a, b.begin, b.end) || !touches(b, a.begin, a.end)) return false;
  const Rows& rows = a.rows;
  if (rows.width == 0 || b.rows.width == 0) return true;
  for (std::size_t z = 0; z < rows.depth; ++z) {
    for (std::size_t y = 0; y < rows.height; ++y) {
      const std::size_t row = a.begin + z * rows.slice + y * rows.pitch;
      if (touches(b, row, row + rows.width)) return true;
    }
  }
  return false;
}

/// Whether a new access makes an older one of no more interest.
bool covers(const Access& older, const Access& access) noexcept {
  if (!access.writes && (older.writes || older.moment->actor != access.moment->actor)) return false;
  const bool holds = access.rows.width == 0
                         ? access.begin <= older.begin && older.end <= access.end
                         : access.begin == older.begin && access.rows == older.rows;
  return holds && older.moment->is_before(*access.moment);
}

void check_life(const Allocation& allocation, const Access& access, Reports& reports) {
  if (!allocation.made->is_before(*access.moment)) {
    reports.add("use before allocation", access.moment->text() + range(allocation, access) +
                                             ", without an order after " + allocation.made->text() +
                                             " that made it");
  }
  if (!allocation.freed || access.moment->is_before(*allocation.freed)) return;
  const bool after = allocation.freed->is_before(*access.moment);
  reports.add(after ? "use after free" : "use beside free",
              access.moment->text() + range(allocation, access) +
                  (after ? ", after " : ", without an order beside ") + allocation.freed->text() +
                  " that frees it");
}

/// Forgets accesses that the host knows to be over: whatever comes now comes after them. Not at
/// each access, as a kernel may have one of each element.
void forget_ended(Allocation& allocation, const Clock& known) {
  auto& accesses = allocation.accesses;
  std::erase_if(accesses, [&](const Access& older) {
    return known.at(older.moment->actor) >= older.moment->time;
  });
  allocation.forget_at = std::max(kFewAccesses, 2 * accesses.size());
}

}  // namespace

std::string Allocation::text() const {
  static constexpr std::array<const char*, 4> kNames{"device memory", "managed memory",
                                                     "pinned memory", "registered memory"};
  return "allocation " + std::to_string(id) + " (" + std::to_string(bytes) + " bytes of " +
         kNames[static_cast<std::size_t>(space)] + " at " + hex(begin) + ")";
}

void note_access(Allocation& allocation, Access access, const Clock* known, Reports& reports) {
  check_life(allocation, access, reports);
  auto& accesses = allocation.accesses;
  for (const Access& other : accesses) {
    if (other.moment == access.moment || (!other.writes && !access.writes)) continue;
    if (other.moment->is_before(*access.moment) || access.moment->is_before(*other.moment))
      continue;
    if (!overlap(other, access)) continue;
    reports.add("race", access.moment->text() + range(allocation, access) +
                            ", without an order beside " + other.moment->text() + ", which" +
                            range(allocation, other));
  }
  if (!accesses.empty() && accesses.back().moment == access.moment &&
      accesses.back().writes == access.writes && accesses.back().end == access.begin &&
      accesses.back().rows == access.rows && access.rows.width == 0) {
    accesses.back().end = access.end;  // the next bytes of a kernel
    return;
  }
  std::erase_if(accesses, [&](const Access& older) { return covers(older, access); });
  if (known && accesses.size() >= allocation.forget_at) forget_ended(allocation, *known);
  accesses.push_back(std::move(access));
}

void note_free(Allocation& allocation, MomentRef moment, Reports& reports) {
  for (const Access& access : allocation.accesses) {
    if (access.moment->is_before(*moment)) continue;
    reports.add("free while in use", moment->text() + " frees " + allocation.text() +
                                         ", without an order after " + access.moment->text() +
                                         ", which" + range(allocation, access));
  }
  if (!allocation.made->is_before(*moment)) {
    reports.add("free while in use", moment->text() + " frees " + allocation.text() +
                                         ", without an order after " + allocation.made->text() +
                                         " that made it");
  }
  allocation.freed = std::move(moment);
}

}  // namespace devrt::gpu_simulator
