// The default pools of devices: what a client changes of them, and who may use their memory.
#include <cstdint>
#include <limits>

#include "driver_api.hpp"
#include "gpu_client.hpp"

namespace devrt::gpu {

namespace {

constexpr std::uint64_t kKeepAll = std::numeric_limits<std::uint64_t>::max();

/// What the client needs otherwise than the driver has it.
struct Attributes {
  std::uint64_t threshold = 0;
  int waits = 0;  ///< whether an allocation may be made to wait for a free

  bool operator==(const Attributes&) const = default;
};

Pool pool_of(int device) {
  Pool pool = nullptr;
  ok(cuDeviceGetDefaultMemPool(&pool, device));
  return pool;
}

Attributes attributes_of(int device) {
  Attributes found;
  ok(cuMemPoolGetAttribute(pool_of(device), 3, &found.waits));
  ok(cuMemPoolGetAttribute(pool_of(device), 4, &found.threshold));
  return found;
}

std::uint64_t reserved_in(int device) {
  std::uint64_t bytes = 0;
  ok(cuMemPoolGetAttribute(pool_of(device), 5, &bytes));
  return bytes;
}

void set(int device, Attributes attributes) {
  ok(cuMemPoolSetAttribute(pool_of(device), 3, &attributes.waits));
  ok(cuMemPoolSetAttribute(pool_of(device), 4, &attributes.threshold));
}

/// Sums an array of device 0 and one of device 1 on device 1, by the address of the first.
std::vector<float> sum_of_peers(Client& client) {
  const Ref<Buffer> there = put(client, memory_of(client, 0), counting(kCount));
  const Ref<Buffer> here = put(client, memory_of(client, 1), counting(kCount, 0));
  raise_if_error(there->ready().wait());
  const Ref<Storage> kept = client.storage_of(*there, "sum");
  const auto count = static_cast<std::int64_t>(kCount);
  std::vector<KernelArgument> arguments;
  arguments.emplace_back(scalar(reinterpret_cast<std::uint64_t>(kept->data())));
  arguments.emplace_back(here.get());
  arguments.emplace_back(KernelOutput{ElementType::kFloat32, Dims({&count, 1})});
  arguments.emplace_back(scalar(static_cast<std::uint64_t>(count)));
  const auto function = kernel(client, 1, "sum");
  const Ref<Buffer> total =
      std::move(launch_kernel(*client.local_devices()[1], function, {}, arguments, 0).front());
  return fetch(client, *total);
}

}  // namespace

TEST_CASE(gpu_pools_are_as_before_once_the_last_client_is_closed) {
  configure("devices=2");
  const Attributes before{4096, 1}, ours{kKeepAll, 0};
  ok(cuInit(0));
  set(0, before);
  const Attributes other = attributes_of(1);
  const auto first = Client::make(options_with());
  CHECK(attributes_of(0) == ours && attributes_of(1) == ours);
  auto second = Client::make(options_with());
  first->close();
  CHECK(attributes_of(0) == ours && attributes_of(1) == ours);
  (void)fetch(*second, *put(*second, memory_of(*second), counting(kCount)));
  second->close();
  CHECK(attributes_of(0) == before && attributes_of(1) == other);
  const auto third = Client::make(options_with());
  CHECK(attributes_of(0) == ours);
  third->close();
  CHECK(attributes_of(0) == before);
}

TEST_CASE(gpu_pools_keep_what_is_freed_up_to_the_limits_of_the_clients) {
  configure("devices=1 memory=67108864");
  constexpr std::uint64_t kTotal = std::uint64_t{64} << 20;
  const auto limited = [](float fraction) {
    return Client::make(options_with({{"memory_fraction", fraction}}));
  };
  ok(cuInit(0));
  const Attributes before = attributes_of(0);
  const auto first = limited(0.25F);
  CHECK(attributes_of(0).threshold == kTotal / 4);
  const auto second = limited(0.5F);
  CHECK(attributes_of(0).threshold == kTotal / 4 + kTotal / 2);
  const auto third = Client::make(options_with());
  CHECK(attributes_of(0).threshold == kKeepAll);
  third->close();
  CHECK(attributes_of(0).threshold == kTotal / 4 + kTotal / 2);
  first->close();
  CHECK(attributes_of(0).threshold == kTotal / 2);
  second->close();
  CHECK(attributes_of(0) == before);
}

TEST_CASE(gpu_pools_give_back_what_living_buffers_had_when_the_client_is_closed) {
  const auto client = client_on("devices=1 delay=500");
  const Ref<Buffer> first = put(*client, memory_of(*client), counting(kCount));
  const Ref<Buffer> second = client->copy(*first, memory_of(*client), /*may_alias=*/false);
  raise_if_error(second->ready().wait());
  CHECK(reserved_in(0) >= 2 * kCount * sizeof(float));
  client->close();
  CHECK(reserved_in(0) == 0);
  check_no_reports();
}

TEST_CASE(gpu_pools_keep_what_others_have_set_meanwhile) {
  const auto client = client_on("devices=1");
  const Attributes theirs{8192, 0};
  set(0, theirs);
  client->close();
  CHECK(attributes_of(0) == (Attributes{8192, 1}));
}

TEST_CASE(gpu_pools_of_other_allocators_are_left_alone) {
  configure("devices=1");
  ok(cuInit(0));
  const Attributes before = attributes_of(0);
  const auto client = Client::make(options_with({{"allocator", std::string("bfc")}}));
  CHECK(attributes_of(0) == before);
  client->close();
}

TEST_CASE(gpu_kernels_use_the_memory_of_peers) {
  for (const char* allocator : {"cuda_async", "bfc", "platform"}) {
    const auto client = client_on("devices=2 delay=50", {{"allocator", std::string(allocator)}});
    const std::vector<float> total = sum_of_peers(*client);
    for (std::size_t i = 0; i < kCount; ++i) CHECK(total[i] == static_cast<float>(2 * i + 1));
    client->close();
    check_no_reports(allocator);
  }
}

TEST_CASE(gpu_kernel_that_uses_a_peers_pool_without_access_is_found) {
  const auto client = client_on("devices=2 delay=50");
  const int none[] = {1, 1, 0};  // a device, the second, nothing
  ok(cuMemPoolSetAccess(pool_of(0), none, 1));
  bool failed = false;
  try {
    (void)sum_of_peers(*client);
  } catch (const StatusError&) {
    failed = true;
  }
  CHECK(failed);
  client->close();
  const std::string reports = devrt_simulator_reports(1);
  CHECK(reports.find("its device has no access to allocation") != std::string::npos);
}

}  // namespace devrt::gpu
