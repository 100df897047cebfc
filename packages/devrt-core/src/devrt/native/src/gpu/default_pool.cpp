#include "gpu/default_pool.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace devrt::gpu {

namespace {

/// An attribute and its value. Some are a driver's int, which is read and written in the first
/// bytes of the wider number: all machines with these drivers have the low byte first.
struct PoolSetting {
  PoolAttribute attribute;
  std::uint64_t value;
};
using PoolSettingList = std::array<PoolSetting, 2>;

/// The clients that use a pool, and what it had before the first of them.
struct PoolUsers {
  int clients = 0;
  int unlimited = 0;
  std::size_t limits = 0;  ///< of the others, together
  std::size_t preallocated = 0;
  PoolSettingList before{};

  PoolSettingList settings() const noexcept {
    constexpr auto kAll = std::numeric_limits<std::uint64_t>::max();
    return {{
        // What is freed stays, as far as the limits go: to map it again takes longer than most
        // copies.
        {PoolAttribute::kReleaseThreshold, unlimited > 0 ? kAll : limits},
        // An allocation must not be made to wait for work that somebody's freed memory is still in.
        {PoolAttribute::kReuseAllowInternalDependencies, 0},
    }};
  }

  void add(const PoolShare& share) noexcept {
    ++clients;
    if (!share.limit) ++unlimited;
    limits += share.limit.value_or(0);
    preallocated += share.preallocated;
  }

  void remove(const PoolShare& share) noexcept {
    --clients;
    if (!share.limit) --unlimited;
    limits -= share.limit.value_or(0);
    preallocated -= share.preallocated;
  }
};

struct AllPoolUsers {
  std::mutex mutex;
  std::map<std::pair<const Driver*, DeviceNumber>, PoolUsers> by_device;
};

/// Never taken apart: clients may outlive static objects.
AllPoolUsers& all_pool_users() {
  static auto& users = *new AllPoolUsers;
  return users;
}

std::uint64_t value_of(const GpuDevice& device, PoolHandle* pool, PoolAttribute attribute) {
  std::uint64_t value = 0;
  device.check(device.driver().call.pool_get_attribute(pool, attribute, &value),
               "pool_get_attribute");
  return value;
}

void set_value(const GpuDevice& device, PoolHandle* pool, PoolSetting setting) {
  device.check(device.driver().call.pool_set_attribute(pool, setting.attribute, &setting.value),
               "pool_set_attribute");
}

PoolSettingList read_all(const GpuDevice& device, PoolHandle* pool, PoolSettingList settings) {
  for (PoolSetting& each : settings) each.value = value_of(device, pool, each.attribute);
  return settings;
}

void set_all(const GpuDevice& device, PoolHandle* pool, const PoolSettingList& settings) {
  for (const PoolSetting& each : settings) set_value(device, pool, each);
}

/// Changes what has the value of `ours` still.
void replace(const GpuDevice& device, PoolHandle* pool, const PoolSettingList& ours,
             const PoolSettingList& wanted) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const bool is_ours = value_of(device, pool, ours[i].attribute) == ours[i].value;
    if (is_ours) set_value(device, pool, wanted[i]);
  }
}

}  // namespace

bool has_pools(const GpuDevice& device) {
  const Driver& driver = device.driver();
  if (driver.attributes.memory_pools < 0) return false;
  int has = 0;
  device.check(driver.call.device_attribute(&has, driver.attributes.memory_pools, device.number()),
               "device_attribute");
  return has > 0;
}

PoolHandle* default_pool(const GpuDevice& device) {
  PoolHandle* pool = nullptr;
  device.check(device.driver().call.device_default_pool(&pool, device.number()), "default_pool");
  return pool;
}

Result open_pool(const GpuDevice& owner, const GpuDevice& peer) noexcept {
  const Functions& call = owner.driver().call;
  PoolHandle* pool = nullptr;
  const Result found = call.device_default_pool(&pool, owner.number());
  if (found != kSuccess) return found;
  const PoolAccess access{.device = peer.number()};
  return call.pool_set_access(pool, &access, 1);
}

std::size_t preallocated_in_pool(const GpuDevice& device) {
  AllPoolUsers& all = all_pool_users();
  std::lock_guard lock(all.mutex);
  return all.by_device[{&device.driver(), device.number()}].preallocated;
}

PoolSettings::PoolSettings(std::shared_ptr<GpuDevice> device, PoolShare share)
    : device_(std::move(device)), pool_(default_pool(*device_)), share_(share) {
  AllPoolUsers& all = all_pool_users();
  std::lock_guard lock(all.mutex);
  PoolUsers& users = all.by_device[{&device_->driver(), device_->number()}];
  if (users.clients == 0) users.before = read_all(*device_, pool_, users.settings());
  const PoolSettingList before = users.clients == 0 ? users.before : users.settings();
  users.add(share_);
  try {
    set_all(*device_, pool_, users.settings());
  } catch (...) {
    const PoolSettingList ours = users.settings();
    users.remove(share_);
    replace(*device_, pool_, ours, before);
    throw;
  }
}

PoolSettings::~PoolSettings() {
  if (device_->is_forked()) return;  // the pool is the parent's
  AllPoolUsers& all = all_pool_users();
  std::lock_guard lock(all.mutex);
  PoolUsers& users = all.by_device[{&device_->driver(), device_->number()}];
  const PoolSettingList ours = users.settings();
  users.remove(share_);
  try {
    replace(*device_, pool_, ours, users.clients > 0 ? users.settings() : users.before);
  } catch (const StatusError&) {
    // The device is lost, and its pool with it.
  }
}

void PoolSettings::set() const {
  AllPoolUsers& all = all_pool_users();
  std::lock_guard lock(all.mutex);
  set_all(*device_, pool_, all.by_device[{&device_->driver(), device_->number()}].settings());
}

}  // namespace devrt::gpu
