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

bool overlap(const Access& a, const Access& b) noexcept {
  return a.begin < b.end && b.begin < a.end;
}

/// Whether a new access makes an older one of no more interest.
bool covers(const Access& older, const Access& access) noexcept {
  return access.begin <= older.begin && older.end <= access.end &&
         (access.writes || (!older.writes && older.moment->actor == access.moment->actor)) &&
         older.moment->is_before(*access.moment);
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
/// each access, as an operation may have one of each row.
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
    if (other.moment == access.moment || !overlap(other, access)) continue;
    if (!other.writes && !access.writes) continue;
    if (other.moment->is_before(*access.moment) || access.moment->is_before(*other.moment))
      continue;
    reports.add("race", access.moment->text() + range(allocation, access) +
                            ", without an order beside " + other.moment->text() + ", which" +
                            range(allocation, other));
  }
  if (!accesses.empty() && accesses.back().moment == access.moment &&
      accesses.back().writes == access.writes && accesses.back().end == access.begin) {
    accesses.back().end = access.end;  // the next bytes of a kernel, or of a row
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
