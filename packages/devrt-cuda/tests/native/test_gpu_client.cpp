// The GPU client on simulated devices, which report what it does out of order.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "gpu_client.hpp"

namespace devrt::gpu {

// HIP keeps what it made of a device at the first use.
static const std::string kGone = std::string(DRIVER_PREFIX) == "cu" ? "contexts=0" : "";

TEST_CASE(gpu_devices_are_chosen_by_the_driver_s_numbers) {
  const auto client = client_on("devices=4", {{"allowed_devices", std::string("3,1")}});
  CHECK(client->local_devices().size() == 2);
  CHECK(client->local_devices()[0]->facts().local_hardware_id == 1);
  CHECK(client->local_devices()[1]->facts().local_hardware_id == 3);
  CHECK(client->local_devices()[0]->facts().kind.find("simulated") != std::string::npos);
  const auto refused = [](const char* text) {
    return harness::status_of(
               [&] { (void)client_on("devices=2", {{"allowed_devices", std::string(text)}}); })
        .code();
  };
  CHECK(refused("2") == StatusCode::kInvalidArgument);
  CHECK(refused(",") == StatusCode::kInvalidArgument);
}

TEST_CASE(gpu_values_come_back_in_every_order_that_the_device_may_take) {
  for (int seed = 0; seed < seeds(20); ++seed) {
    const auto client = client_on("devices=2 delay=50 seed=" + std::to_string(seed));
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, 3 * kMiB}) {
      const std::vector<float> values = counting(count);
      const Ref<Buffer> first = put(*client, memory_of(*client), values, seed % 3);
      // Not waited for: the copy between devices begins behind the one from the host.
      const Ref<Buffer> second = client->copy(*first, memory_of(*client, 1), false, 1);
      const Ref<Buffer> third = client->copy(*second, memory_of(*client, 0, "pinned_host"), false);
      CHECK(fetch(*client, *second) == values);
      CHECK(fetch(*client, *third) == values);
    }
    client->close();
    check_no_reports();
  }
}

TEST_CASE(gpu_devices_that_waited_for_each_other_are_given_back) {
  for (int seed = 0; seed < seeds(); ++seed) {
    auto client = client_on("devices=2 delay=500 seed=" + std::to_string(seed));
    const std::vector<float> values = counting(1000);
    std::vector<Ref<Buffer>> around;
    around.push_back(put(*client, memory_of(*client, 0, "pinned_host"), values));
    for (const std::size_t to : {0, 1, 0, 1, 0}) {  // each behind the one before, on the devices
      around.push_back(client->copy(*around.back(), memory_of(*client, to), false));
    }
    raise_if_error(around.back()->ready().wait());
    around.clear();
    client->close();
    client.reset();
    CHECK(std::string(devrt_simulator_living()).find(kGone) != std::string::npos);
  }
}

TEST_CASE(gpu_buffers_may_go_while_the_device_uses_them) {
  for (int seed = 0; seed < seeds(20); ++seed) {
    const auto client = client_on("delay=200 seed=" + std::to_string(seed));
    for (const std::size_t count : {std::size_t{4096}, kMiB}) {
      const std::vector<float> values = counting(count);
      const Ref<Buffer> pinned = put(*client, memory_of(*client, 0, "pinned_host"), values);
      std::vector<Ref<Buffer>> kept;
      for (int i = 0; i < 8; ++i) {
        (void)client->copy(*pinned, memory_of(*client), false, i);  // goes at once
        kept.push_back(client->copy(*pinned, memory_of(*client), false, i));
      }
      for (const Ref<Buffer>& buffer : kept) CHECK(fetch(*client, *buffer) == values);
    }
    client->close();
    check_no_reports();
  }
}

TEST_CASE(gpu_large_buffers_are_given_back_without_a_wait) {
  const auto client = client_on("delay=2000 seed=3");
  const std::vector<float> values = counting(2 * kMiB);
  const Ref<Buffer> pinned = put(*client, memory_of(*client, 0, "pinned_host"), values);
  Ref<Buffer> buffer = client->copy(*pinned, memory_of(*client), false);
  const auto waits = [] { return devrt_simulator_count(DRIVER_PREFIX "StreamSynchronize"); };
  const unsigned long long before = waits();
  buffer.reset();
  CHECK(waits() == before);
  client->close();
  check_no_reports();
}

TEST_CASE(gpu_memory_that_is_full_is_an_error_with_its_picture) {
  for (const char* allocator : {"cuda_async", "bfc", "platform"}) {
    const auto client = client_on("memory=67108864", {{"allocator", std::string(allocator)}});
    Memory& device = memory_of(*client);
    const std::vector<float> values = counting(8 * kMiB);  // 32 MiB
    Ref<Buffer> first = put(*client, device, values);
    const Status status =
        harness::status_of([&] { (void)put(*client, device, counting(9 * kMiB)); });
    CHECK(status.code() == StatusCode::kResourceExhausted);
    CHECK(status.device() == platform().name + ":0" && status.report());
    CHECK(status.report()->live_bytes == 32 * static_cast<std::int64_t>(kMiB));
    first.reset();
    const Ref<Buffer> again = put(*client, device, values);
    CHECK(fetch(*client, *again) == values);
    client->close();
    check_no_reports();
  }
}

TEST_CASE(gpu_that_is_lost_leaves_the_others_at_work) {
  const auto client = client_on("devices=2");
  const std::vector<float> values = counting(1000);
  const Ref<Buffer> good = put(*client, memory_of(*client, 1), values);
  const Ref<Buffer> lost = put(*client, memory_of(*client), values);
  raise_if_error(lost->ready().wait());
  devrt_simulator_lose(0);
  const Status status = harness::status_of([&] { (void)fetch(*client, *lost); });
  CHECK(status.code() == StatusCode::kDataLoss && status.device() == platform().name + ":0");
  const Status next = harness::status_of(
      [&] { raise_if_error(put(*client, memory_of(*client), values)->ready().wait()); });
  CHECK(next.code() == StatusCode::kDataLoss);
  CHECK(fetch(*client, *good) == values);
}

TEST_CASE(gpu_client_that_is_closed_gives_everything_back) {
  for (const char* allocator : {"default", "bfc", "platform"}) {
    auto client = client_on(
        "devices=2",
        {{"allocator", std::string(allocator)}, {"preallocate", true}, {"memory_fraction", 0.25f}});
    {
      const std::vector<float> values = counting(3 * kMiB);
      const Ref<Buffer> buffer = put(*client, memory_of(*client), values);
      CHECK(fetch(*client, *buffer).size() == 3 * kMiB);
    }
    client->close();
    const std::string living = devrt_simulator_living();
    CHECK(living.find("device=0 managed=0 pinned=0") == 0);
    client.reset();
    CHECK(std::string(devrt_simulator_living()).find("streams=0 events=0") != std::string::npos);
    CHECK(std::string(devrt_simulator_living()).find(kGone) != std::string::npos);
    check_no_reports();
  }
}

TEST_CASE(gpu_devices_go_in_a_forked_child_whose_parent_had_locked_them) {
  (void)devrt_simulator_configure("devices=2");
  auto backend = make_gpu_backend(options_with());
  (void)backend->devices();
  std::atomic<bool> stop{false};
  std::atomic<bool> is_started{false};
  std::thread user([&stop, &is_started, &used = *backend] {
    is_started = true;
    while (!stop) (void)used.is_idle();  // holds the locks for most of the time
  });
  while (!is_started) std::this_thread::yield();
  int failed = 0;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(2);  // a hang ends as a failure
      backend.reset();
      _exit(0);
    }
    int status = -1;
    (void)waitpid(child, &status, 0);
    failed += status != 0;
    if (failed > 0) break;
  }
  stop = true;
  user.join();
  CHECK(failed == 0);
}

}  // namespace devrt::gpu
