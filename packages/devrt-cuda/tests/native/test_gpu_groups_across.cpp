// Groups that span processes. Here both halves are of one process, and know nothing of each other:
// each is connected by the group's id in a thread of its own.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "collective_groups.hpp"

namespace devrt::gpu {

namespace {

constexpr std::size_t kHalf = 2;

/// Runs something for each half in its own thread.
void in_both(const std::function<void(std::size_t)>& body) {
  std::thread other([&] { body(1); });
  body(0);
  other.join();
}

/// Both halves of a group of four.
struct Halves {
  explicit Halves(Client& client) {
    const std::string id = client.backend().new_group_id(kSource);
    in_both([&](std::size_t half) {
      const std::vector<std::size_t> numbers{half * kHalf, half * kHalf + 1};
      groups[half] = std::make_unique<Group>(client, numbers, GroupSpan{id, 2 * kHalf, numbers});
    });
  }
  const Group& operator[](std::size_t half) const { return *groups[half]; }

  std::array<std::unique_ptr<Group>, 2> groups;
};

Status gone() { return Status(StatusCode::kUnavailable, "gone").because(Reason::kPeer); }

}  // namespace

TEST_CASE(groups_across_are_right_in_every_order) {
  for (int seed = 0; seed < seeds(8); ++seed) {
    const auto client = client_with("delay=200 seed=" + std::to_string(seed));
    const Halves first(*client), second(*client);
    std::array<bool, 2> is_right{};
    in_both([&](std::size_t half) {
      std::vector<Ref<Buffer>> sums = put_on(first[half], std::vector<float>(3000, 1));
      for (int i = 0; i < 3; ++i) sums = (i % 2 ? second : first)[half].reduce(sums);
      is_right[half] = read(*sums[0]) == std::vector<float>(3000, 64) &&
                       read(*sums[1]) == std::vector<float>(3000, 64);
    });
    CHECK(is_right[0] && is_right[1]);
    client->close();
    no_reports();
  }
}

TEST_CASE(groups_across_that_are_broken_off_fail_and_others_go_on) {
  for (int seed = 0; seed < seeds(8); ++seed) {
    const auto client = client_with("delay=200 seed=" + std::to_string(seed));
    const Halves halves(*client);
    const Group here(*client, {0, 1});
    std::vector<Ref<Buffer>> sums = put_on(halves[0], std::vector<float>(2000, 1));
    for (int i = 0; i < 3; ++i) sums = halves[0].reduce(sums);  // the other half does not come
    CHECK(halves[0].communicator->busy_since().has_value());
    halves[0].communicator->break_off(gone());
    for (const Ref<Buffer>& each : sums) {
      const Status status = each->ready().wait();
      CHECK(status.code() == StatusCode::kUnavailable && status.reason() == Reason::kPeer);
    }
    const auto reduce = [&] { (void)halves[0].reduce(put_on(halves[0], {1})); };
    CHECK(harness::status_of(reduce).reason() == Reason::kPeer);
    CHECK(!halves[0].communicator->busy_since().has_value());
    CHECK(read(*here.reduce(put_on(here, {1, 2}))[1]) == (std::vector<float>{2, 4}));
    client->close();
    no_reports();
  }
}

TEST_CASE(groups_across_keep_the_order_of_calls_whose_arguments_are_late) {
  const auto client = client_with("");
  const Halves halves(*client);
  std::array<bool, 2> is_right{};
  std::atomic<bool> other_has_called = false;
  in_both([&](std::size_t half) {
    std::vector<Ref<Buffer>> late = put_on(halves[half], {1, 2});
    const std::vector<Ref<Buffer>> prompt = put_on(halves[half], {1, 2, 3});
    for (const Ref<Buffer>& each : prompt) raise_if_error(each->ready().wait());
    ReadyPromise promise;
    std::thread filling;
    if (half == 0) {  // what a device cannot wait for itself
      for (const Ref<Buffer>& each : late) raise_if_error(each->ready().wait());
      Memory& memory = *late[0]->memory();
      late[0] = Buffer::make(memory.shared(), ElementType::kFloat32, Dims{2},
                             client->storage_of(*late[0], "test"), promise.event());
      filling = std::thread([&] {
        other_has_called.wait(false);
        promise.set({});
      });
    }
    const std::vector<Ref<Buffer>> first = halves[half].reduce(late);
    const std::vector<Ref<Buffer>> second = halves[half].reduce(prompt);
    if (half == 1) {
      other_has_called = true;
      other_has_called.notify_all();
    }
    is_right[half] = read(*first[1]) == std::vector<float>{4, 8} &&
                     read(*second[0]) == std::vector<float>{4, 8, 12};
    if (filling.joinable()) filling.join();
  });
  CHECK(is_right[0] && is_right[1]);
  client->close();
  no_reports();
}

TEST_CASE(groups_across_take_the_results_of_one_that_has_waited_without_waiting_again) {
  const auto client = client_with("");
  const Halves halves(*client);
  std::vector<Ref<Buffer>> late = put_on(halves[0], {1, 2});
  for (const Ref<Buffer>& each : late) raise_if_error(each->ready().wait());
  ReadyPromise promise;
  Memory& memory = *late[0]->memory();
  late[0] = Buffer::make(memory.shared(), ElementType::kFloat32, Dims{2},
                         client->storage_of(*late[0], "test"), promise.event());
  std::thread filling([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the call waits already
    promise.set({});
  });
  std::vector<Ref<Buffer>> sums = halves[0].reduce(late);
  filling.join();
  sums = halves[0].reduce(sums);  // the other half does not come: a wait would not end
  halves[0].communicator->break_off(gone());
  for (const Ref<Buffer>& each : sums) CHECK(each->ready().wait().reason() == Reason::kPeer);
  client->close();
  no_reports();
}

TEST_CASE(groups_across_end_where_an_argument_has_failed) {
  for (const bool is_late : {false, true}) {
    const auto client = client_with("");
    const Halves halves(*client);
    std::vector<Ref<Buffer>> arguments = put_on(halves[0], {1});
    ReadyPromise promise;
    Memory& memory = *arguments[0]->memory();
    arguments[0] = Buffer::make(memory.shared(), ElementType::kFloat32, Dims{1},
                                client->storage_of(*arguments[0], "test"), promise.event());
    std::thread failing([&] { promise.set(Status(StatusCode::kAborted, "planted")); });
    if (!is_late) failing.join();
    for (const Ref<Buffer>& each : halves[0].reduce(arguments)) {
      CHECK(each->ready().wait().message() == "planted");
    }
    if (is_late) failing.join();
    const auto reduce = [&] { (void)halves[0].reduce(put_on(halves[0], {1})); };
    CHECK(harness::status_of(reduce).code() == StatusCode::kAborted);
    client->close();
    no_reports();
  }
}

TEST_CASE(groups_across_wait_for_a_name_when_the_other_half_goes) {
  const auto client = client_with("");
  const Halves halves(*client);
  const std::vector<Ref<Buffer>> sums = halves[0].reduce(put_on(halves[0], {1, 2}));
  halves[1].communicator->break_off(gone());  // as the end of its process does
  const auto looks = [] { return devrt_simulator_count("ncclCommGetAsyncError"); };
  for (const auto enough = looks() + 100; looks() < enough;) std::this_thread::yield();
  CHECK(!sums[0]->ready().is_ready());
  halves[0].communicator->break_off(gone());
  CHECK(sums[0]->ready().wait().message().ends_with("gone"));
  client->close();
  no_reports();
}

TEST_CASE(groups_across_whose_halves_differ_are_reported) {
  const auto client = client_with("");
  const Halves halves(*client);
  in_both([&](std::size_t half) {
    const std::vector<float> values(half == 0 ? 10 : 20, 1);
    const auto sums = halves[half].reduce(put_on(halves[half], values));
    for (const Ref<Buffer>& each : sums) CHECK(!each->ready().wait().ok());
  });
  const std::string reports = devrt_simulator_reports(1);
  CHECK(reports.find("collective that hangs") != std::string::npos);
  CHECK(reports.find("differs from that of another process") != std::string::npos);
  client->close();
}

TEST_CASE(groups_across_refuse_an_id_that_is_none) {
  const auto client = client_with("");
  const auto join = [&] { Group(*client, {0}, GroupSpan{"short", 1, {0}}); };
  CHECK(harness::status_of(join).code() == StatusCode::kInvalidArgument);
  const std::string id = client->backend().new_group_id(kSource);
  const Group alone(*client, {3}, GroupSpan{id, 1, {0}});
  CHECK(read(*alone.reduce(put_on(alone, {5}))[0]) == std::vector<float>{5});
  client->close();
  no_reports();
}

}  // namespace devrt::gpu
