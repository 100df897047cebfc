// Collectives of the GPU client on simulated devices: in every order, from several threads, and
// with a device that is lost at any moment.
#include <array>
#include <thread>
#include <vector>

#include "collective_groups.hpp"

namespace devrt::gpu {

TEST_CASE(gpu_collectives_are_right_in_every_order_that_the_devices_may_take) {
  for (int seed = 0; seed < seeds(15); ++seed) {
    const auto client = client_with("delay=300 seed=" + std::to_string(seed));
    const Group all(*client, {0, 1, 2, 3}), pair(*client, {2, 1});
    const std::vector<float> ones(3000, 1), twos(3000, 2);
    std::vector<Ref<Buffer>> sums = put_on(all, ones);
    for (int i = 0; i < 3; ++i) sums = all.reduce(sums);  // the arguments go while they are read
    const std::vector<Ref<Buffer>> others = pair.reduce(put_on(pair, twos));
    for (const Ref<Buffer>& each : sums) CHECK(read(*each) == std::vector<float>(3000, 64));
    for (const Ref<Buffer>& each : others) CHECK(read(*each) == std::vector<float>(3000, 4));
    client->close();
    no_reports();
  }
}

TEST_CASE(gpu_collectives_of_groups_that_share_devices_start_in_several_threads) {
  for (int seed = 0; seed < seeds(5); ++seed) {
    const auto client = client_with("delay=100 seed=" + std::to_string(seed));
    const std::array groups{Group(*client, {0, 1, 2, 3}), Group(*client, {3, 2, 1, 0}),
                            Group(*client, {1, 2}), Group(*client, {2, 3, 0})};
    std::vector<std::thread> threads;
    std::array<bool, 4> is_right{};
    for (std::size_t i = 0; i < groups.size(); ++i) {
      threads.emplace_back([&, i] {
        std::vector<Ref<Buffer>> sums = put_on(groups[i], std::vector<float>(500, 1));
        float expected = 1;
        for (int round = 0; round < 4; ++round) {
          sums = groups[i].reduce(sums);
          expected *= static_cast<float>(groups[i].devices.size());
        }
        is_right[i] = read(*sums.back()) == std::vector<float>(500, expected);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const bool right : is_right) CHECK(right);
    client->close();
    no_reports();
  }
}

TEST_CASE(gpu_collectives_end_on_all_ranks_whenever_a_device_is_lost) {
  int lost = 0;  // in how many runs: the device has some 11 operations
  for (int operation = 1; operation <= 24; ++operation) {
    bool is_lost = false;
    const auto client = client_with("delay=100 lose=2:" + std::to_string(operation));
    const Group all(*client, {0, 1, 2, 3}), others(*client, {0, 1, 3});
    try {
      std::vector<Ref<Buffer>> sums = put_on(all, std::vector<float>(2000, 1));
      for (int i = 0; i < 4; ++i) sums = all.reduce(sums);
      for (const Ref<Buffer>& each : sums) {
        const Status status = each->ready().wait();  // in all events it ends
        CHECK(status.ok() || status.code() == StatusCode::kDataLoss);
        is_lost |= !status.ok();
        // Bytes that a rank left behind when it was broken off are nobody's result.
        if (status.ok() && &each->memory()->device() != client->local_devices()[2].get()) {
          CHECK(read(*each) == std::vector<float>(2000, 256));
        }
      }
    } catch (const StatusError& error) {
      // Also where the library is the first that meets the loss, and says that the driver failed.
      CHECK(error.status().code() == StatusCode::kDataLoss);
      is_lost = true;
    }
    lost += is_lost;
    const std::vector<Ref<Buffer>> go_on = others.reduce(put_on(others, {1, 2}));
    for (const Ref<Buffer>& each : go_on) CHECK((read(*each) == std::vector<float>{3, 6}));
    client->close();
    no_reports();
  }
  CHECK(lost >= 8);
}

TEST_CASE(gpu_collectives_of_a_device_that_was_lost_before_the_first_are_refused) {
  const auto client = client_with("");
  const Group all(*client, {0, 1, 2, 3});
  const std::vector<Ref<Buffer>> values = put_on(all, {1, 2, 3});
  for (const Ref<Buffer>& each : values) raise_if_error(each->ready().wait());
  devrt_simulator_lose(2);
  const Status status = harness::status_of([&] { (void)all.reduce(values); });
  CHECK(status.code() == StatusCode::kDataLoss);
  const Group others(*client, {0, 1, 3});
  CHECK(read(*others.reduce(put_on(others, {2}))[0]) == std::vector<float>{6});
  client->close();
  no_reports();
}

TEST_CASE(gpu_collectives_that_fail_in_their_argument_fail_on_all_ranks) {
  const auto client = client_with("");
  const Group all(*client, {0, 1, 2, 3});
  std::vector<Ref<Buffer>> arguments = put_on(all, {1, 2, 3});
  ReadyPromise promise;
  Device& device = *all.devices[1];
  arguments[1] = Buffer::make(device.default_memory().shared(), ElementType::kFloat32, Dims{3},
                              device.default_memory().allocate(12), promise.event());
  const std::vector<Ref<Buffer>> results = all.reduce(arguments);  // waits in a thread
  const std::vector<Ref<Buffer>> after = all.reduce(results);
  for (const Ref<Buffer>& each : results) CHECK(!each->ready().is_ready());
  promise.set(Status(StatusCode::kAborted, "planted"));
  for (const auto* each : {&results, &after}) {
    for (const Ref<Buffer>& result : *each) {
      CHECK(result->ready().wait().message() == "planted");
    }
  }
  for (const Ref<Buffer>& each : all.reduce(arguments)) {  // that has failed already
    CHECK(each->ready().wait().code() == StatusCode::kAborted);
  }
  client->close();
  no_reports();
}

}  // namespace devrt::gpu
