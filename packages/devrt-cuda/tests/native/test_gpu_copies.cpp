// Copies between all memories of simulated devices, by every allocator, with and without links.
#include <algorithm>

#include "gpu_client.hpp"

namespace devrt::gpu {

namespace {

constexpr const char* kKinds[] = {"device", "pinned_host", "unpinned_host", "managed"};

void copy_between_all(Client& client, std::size_t count) {
  const std::vector<float> values = counting(count);
  for (std::size_t from = 0; from < 2; ++from) {
    for (const char* first : kKinds) {
      // Not waited for: what follows begins behind the copies before it.
      const Ref<Buffer> put_there = put(client, memory_of(client, from, first), values);
      for (const char* second : kKinds) {
        const Ref<Buffer> copied =
            client.copy(*put_there, memory_of(client, 1 - from, second), false, 1);
        CHECK(fetch(client, *copied) == values);
      }
    }
  }
}

/// Appends numbers to the packed form of an assembly.
void append(std::vector<std::int64_t>& numbers, std::initializer_list<std::int64_t> more) {
  numbers.insert(numbers.end(), more);
}

/// Cuts columns out of a matrix of which each device has half, and returns what came.
std::vector<float> columns(Client& client, std::int64_t rows, std::int64_t width,
                           std::int64_t first, std::int64_t many, Memory& target) {
  const auto half = static_cast<std::size_t>(rows * width);
  std::vector<Ref<Buffer>> sources;
  for (std::size_t device = 0; device < 2; ++device) {
    const std::vector<float> values = counting(half, static_cast<float>(device * half));
    const auto* data = reinterpret_cast<const std::byte*>(values.data());
    const std::int64_t shape[] = {rows, width};
    const std::int64_t strides[] = {width * 4, 4};
    ExternalOwner none;  // the values are read before the call returns
    sources.push_back(client.put(memory_of(client, device),
                                 {{data, shape, strides, 4, 1}, ElementType::kFloat32}, none, {}));
  }
  std::vector<std::int64_t> numbers{2, 2, 1, 1, 2 * rows, many, 0, 2};
  for (std::int64_t i = 0; i < 2; ++i) append(numbers, {i, 0, first, i * rows, 0, rows, many});
  return fetch(client, *assemble(client, {sources[0].get(), sources[1].get()}, target, numbers));
}

void check_columns(Client& client, std::int64_t rows, std::int64_t width, Memory& target) {
  const std::int64_t first = 1, many = width - 2;
  const std::vector<float> came = columns(client, rows, width, first, many, target);
  CHECK(came.size() == static_cast<std::size_t>(2 * rows * many));
  for (std::int64_t row = 0; row < 2 * rows; ++row) {
    for (std::int64_t column = 0; column < many; ++column) {
      const auto at = static_cast<std::size_t>(row * many + column);
      CHECK(came[at] == static_cast<float>(row * width + first + column));
    }
  }
}

}  // namespace

TEST_CASE(gpu_copies_between_all_memories_by_every_allocator) {
  int seed = 0;
  for (const char* allocator : {"cuda_async", "bfc", "platform"}) {
    for (const char* links : {"", " links=0", " pools=0"}) {
      const bool has_pools = std::string_view(links) != " pools=0";
      const char* const chosen = has_pools ? allocator : "default";
      const auto client = client_on("devices=2 delay=50 seed=" + std::to_string(++seed) + links,
                                    {{"allocator", std::string(chosen)}});
      for (const std::size_t count : {std::size_t{3}, std::size_t{300'000}}) {
        copy_between_all(*client, count);
      }
      client->close();
      check_no_reports(std::string(allocator) + links);
    }
  }
}

TEST_CASE(gpu_managed_memory_is_there_where_the_host_may_use_it_at_any_time) {
  const auto kinds = [](const std::string& settings) {
    const auto client = client_on(settings);
    std::vector<std::string> found;
    for (const auto& memory : client->local_devices()[1]->memories()) {
      found.push_back(memory->kind());
    }
    client->close();
    return found;
  };
  const std::vector<std::string> without{"device", "pinned_host", "unpinned_host"};
  std::vector<std::string> with = without;
  with.push_back("managed");
  CHECK(kinds("devices=2") == with);
  CHECK(kinds("devices=2 managed=0") == without);
}

TEST_CASE(gpu_kernels_use_managed_memory) {
  for (int seed = 0; seed < seeds(5); ++seed) {
    const auto client = client_on("devices=2 delay=100 seed=" + std::to_string(seed));
    const auto function = kernel(*client, 1, "sum");
    const std::vector<float> values = counting(300'000);
    // The second is copied by the device: the launch begins behind the copy.
    const Ref<Buffer> x = put(*client, memory_of(*client, 1, "managed"), values);
    const Ref<Buffer> there = put(*client, memory_of(*client, 0), values);
    const Ref<Buffer> y = client->copy(*there, memory_of(*client, 1, "managed"), false);
    const std::vector<float> total = fetch(*client, *sum(*client, 1, function, *x, *y));
    for (std::size_t i = 0; i < total.size(); ++i) CHECK(total[i] == 2 * values[i]);
    client->close();
    check_no_reports("seed " + std::to_string(seed));
  }
}

TEST_CASE(gpu_boxes_come_from_two_devices) {
  for (int seed = 0; seed < seeds(5); ++seed) {
    const auto client = client_on("devices=2 delay=50 seed=" + std::to_string(seed));
    for (const char* kind : kKinds) {
      check_columns(*client, 5, 7, memory_of(*client, 1, kind));
      check_columns(*client, 40, 3, memory_of(*client, 0, kind));
    }
    client->close();
    check_no_reports("seed " + std::to_string(seed));
  }
}

TEST_CASE(gpu_client_is_closed_with_work_in_flight) {
  for (int seed = 0; seed < seeds(5); ++seed) {
    for (const auto pending : {WorkQueue::OnClose::kDrain, WorkQueue::OnClose::kCancel}) {
      auto client = client_on("devices=2 delay=500 seed=" + std::to_string(seed));
      std::vector<Ref<Buffer>> kept;
      const std::vector<float> values = counting(300'000);
      for (std::size_t i = 0; i < 6; ++i) {
        kept.push_back(put(*client, memory_of(*client, i % 2), values));
        kept.push_back(client->copy(*kept.back(), memory_of(*client, 1 - i % 2), false));
        kept.push_back(client->copy(*kept.back(), memory_of(*client, 0, "unpinned_host"), false));
      }
      client->close(pending);
      for (const Ref<Buffer>& buffer : kept) {
        const Status status = buffer->ready().wait();
        CHECK(status.ok() || status.code() == StatusCode::kCancelled);
      }
      kept.clear();
      client.reset();
      check_no_reports("seed " + std::to_string(seed));
      CHECK(std::string(devrt_simulator_living()).find("device=0 managed=0 pinned=0") == 0);
    }
  }
}

TEST_CASE(gpu_clients_beside_each_other_share_the_driver_alone) {
  configure("devices=2 delay=100");
  const auto first = Client::make(options_with());
  auto second = Client::make(options_with({{"allocator", std::string("bfc")}}));
  const std::vector<float> values = counting(300'000);
  const Ref<Buffer> here = put(*first, memory_of(*first), values);
  const Ref<Buffer> there = put(*second, memory_of(*second), values);
  CHECK(fetch(*second, *there) == values);
  second->close();
  second.reset();
  CHECK(fetch(*first, *here) == values);
  first->close();
  check_no_reports();
}

TEST_CASE(gpu_allocation_is_tried_again_when_work_in_flight_has_ended) {
  for (const char* allocator : {"cuda_async", "bfc", "platform"}) {
    const auto client =
        client_on("memory=67108864 delay=2000", {{"allocator", std::string(allocator)}});
    const std::vector<float> values = counting(10 * kMiB);  // 40 of the 64 MiB
    for (int i = 0; i < 4; ++i) {
      (void)put(*client, memory_of(*client), values);  // goes at once, but for its copy
    }
    CHECK(fetch(*client, *put(*client, memory_of(*client), values)) == values);
    client->close();
    check_no_reports(allocator);
  }
}

}  // namespace devrt::gpu
