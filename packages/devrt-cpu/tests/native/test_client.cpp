#include "client/client.hpp"

#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "harness.hpp"

namespace devrt::cpu {

namespace {

/// A host array of floats that counts its releases.
struct Source {
  explicit Source(std::size_t count) : values(count), shape{static_cast<std::int64_t>(count)} {
    std::iota(values.begin(), values.end(), 0.0f);
  }
  HostArray array() const {
    return {{reinterpret_cast<const std::byte*>(values.data()), shape.span(), strides.span(), 4, 1},
            ElementType::kFloat32};
  }
  ExternalOwner owner() {
    return {&released, [](void* c) noexcept { ++*static_cast<std::atomic<int>*>(c); }};
  }

  std::vector<float> values;
  Dims shape;
  Dims strides{4};
  std::atomic<int> released{0};
};

std::shared_ptr<Client> make_client(int devices, bool asynchronous = true) {
  ClientOptions options;
  options.num_devices = devices;
  options.asynchronous = asynchronous;
  return Client::make(std::move(options));
}

bool equals(const Buffer& buffer, const std::vector<float>& values) {
  if (!buffer.ready().wait().ok()) return false;
  return std::memcmp(buffer.storage()->data(), values.data(), values.size() * 4) == 0;
}

}  // namespace

TEST_CASE(client_puts_with_every_semantics) {
  for (const bool asynchronous : {true, false}) {
    for (const std::size_t count : {std::size_t{8}, std::size_t{1} << 20}) {
      Source source(count);
      {
        auto client = make_client(2, asynchronous);
        for (int semantics = 0; semantics < 4; ++semantics) {
          ExternalOwner hold = source.owner();
          const Ref<Buffer> buffer =
              client->put(client->devices()[1]->default_memory(), source.array(), hold,
                          {static_cast<Semantics>(semantics), false});
          CHECK(equals(*buffer, source.values));
          CHECK(asynchronous || buffer->ready().is_ready());
        }
        client->close();
      }
      CHECK(source.released == 4);
    }
  }
}

TEST_CASE(client_copies_and_aliases) {
  Source source(1 << 18);
  auto client = make_client(2);
  ExternalOwner hold = source.owner();
  const Ref<Buffer> first = client->put(client->devices()[0]->default_memory(), source.array(),
                                        hold, {Semantics::kUntilTransferCompletes, false});
  const Ref<Buffer> copied =
      client->copy(*first, client->devices()[1]->memory("pinned_host"), true);
  const Ref<Buffer> shared = client->copy(*first, client->devices()[1]->default_memory(), true);
  CHECK(equals(*copied, source.values) && equals(*shared, source.values));
  CHECK(shared->storage()->data() == first->storage()->data());
  CHECK(copied->storage()->data() != first->storage()->data());
  first->remove();
  CHECK(harness::status_of([&] { client->clone(*first); }).reason() == Reason::kDeleted);
}

TEST_CASE(client_batch_makes_equal_blocks_once) {
  Source source(1 << 12);
  auto client = make_client(4);
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(
        {&client->devices()[static_cast<std::size_t>(i)]->default_memory(), Dims{(i % 2) * 2048}});
  }
  ExternalOwner hold;
  const auto buffers =
      client->put_blocks(source.array(), blocks, Dims{2048}.span(), hold, PutOptions{});
  CHECK(buffers[0]->storage()->data() == buffers[2]->storage()->data());
  CHECK(buffers[0]->storage()->data() != buffers[1]->storage()->data());
  CHECK(std::memcmp(buffers[3]->storage()->data(), source.values.data() + 2048, 8192) == 0);
}

TEST_CASE(client_closed_refuses) {
  Source source(8);
  auto client = make_client(1);
  Memory& memory = client->devices()[0]->default_memory();
  ExternalOwner hold;
  const Ref<Buffer> buffer = client->put(memory, source.array(), hold, PutOptions{});
  client->close();
  CHECK(buffer->is_deleted());
  CHECK(memory.stats().bytes_in_use() == 0);
  CHECK(harness::status_of([&] {
          client->put(memory, source.array(), hold, PutOptions{});
        }).reason() == Reason::kClosed);
}

TEST_CASE(client_dies_with_work_in_flight) {
  for (int round = 0; round < 20; ++round) {
    Source source(1 << 16);
    {
      auto client = make_client(2);
      for (std::size_t i = 0; i < 8; ++i) {
        ExternalOwner hold = source.owner();
        client->put(client->devices()[i % 2]->default_memory(), source.array(), hold,
                    {Semantics::kUntilTransferCompletes, false});
      }
    }
    CHECK(source.released == 8);
  }
}

TEST_CASE(client_is_used_and_closed_from_many_threads) {
  for (int round = 0; round < 10; ++round) {
    Source source(20'000);
    auto client = make_client(2);
    std::barrier start(4);
    {
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          start.arrive_and_wait();
          try {
            for (int i = 0; i < 100; ++i) {
              ExternalOwner hold = source.owner();
              const Ref<Buffer> buffer =
                  client->put(client->devices()[t % 2]->default_memory(), source.array(), hold,
                              {static_cast<Semantics>(i % 3), false});
              const Ref<Buffer> copied =
                  client->copy(*buffer, client->devices()[1]->memory("unpinned_host"), false);
              if (i % 2) buffer->remove();
              for (const Ref<Buffer>& live : client->registry().snapshot()) (void)live->storage();
            }
          } catch (const StatusError& error) {
            CHECK(error.status().reason() == Reason::kClosed ||
                  error.status().reason() == Reason::kDeleted);
          }
        });
      }
      start.arrive_and_wait();
      if (round % 2) client->close();
    }
    client->close();
    CHECK(client->registry().size() == 0);
    for (const auto& device : client->devices()) CHECK(device->stats()->bytes_in_use() == 0);
  }
}

TEST_CASE(client_close_drops_what_has_not_started_on_request) {
  const auto client = Client::make({});
  Memory& memory = client->devices().front()->default_memory();
  std::promise<void> release;
  std::promise<void> started;
  memory.device().queue().enqueue(0, [&, gate = release.get_future()]() mutable {
    started.set_value();
    gate.wait();
  });
  started.get_future().wait();
  int released = 0;
  ExternalOwner hold(&released, [](void* count) noexcept { ++*static_cast<int*>(count); });
  const std::vector<float> host(1 << 16);
  const std::int64_t extent = 1 << 16;
  const std::int64_t stride = 4;
  const HostArray source{
      {reinterpret_cast<const std::byte*>(host.data()), {&extent, 1}, {&stride, 1}, 4, 1},
      ElementType::kFloat32};
  const Ref<Buffer> buffer =
      client->put(memory, source, hold, {Semantics::kUntilTransferCompletes, false});
  CHECK(!buffer->ready().is_ready());
  std::thread closing([&] { client->close(WorkQueue::OnClose::kCancel); });
  // The work in progress still runs, and the other is dropped at once.
  CHECK(buffer->ready().wait().code() == StatusCode::kCancelled);
  release.set_value();
  closing.join();
  CHECK(released == 1 && buffer->is_deleted());
  CHECK(memory.stats().bytes_in_use() == 0 && memory.stats().snapshot().bytes_reserved == 0);
}

TEST_CASE(client_waits_for_deleted_buffers_in_flight_before_it_is_out_of_memory) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  ClientOptions options;
  options.num_devices = 2;
  options.memory_limit = static_cast<std::int64_t>(2 * kBytes);
  int waits = 0;
  static int* counted = nullptr;
  counted = &waits;
  options.wait_unlocked = [](const std::function<void()>& wait) {
    ++*counted;
    wait();
  };
  auto client = Client::make(std::move(options));
  Memory& memory = client->devices()[0]->default_memory();
  ReadyPromise gate;
  // On another device's queue than the caller's.
  client->devices()[1]->queue().enqueue(
      0, [event = gate.event(), kept = memory.allocate(kBytes)] { (void)event.wait(); });
  std::jthread opener([&gate] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.set();
  });
  CHECK(static_cast<bool>(memory.allocate(2 * kBytes)));
  CHECK(waits == 1);
  const Ref<Storage> held = memory.allocate(kBytes);
  for (const std::size_t count : {2 * kBytes, 3 * kBytes}) {
    const Status none = harness::status_of([&] { (void)memory.allocate(count); });
    CHECK(none.code() == StatusCode::kResourceExhausted);
  }
  CHECK(waits == 1);  // nothing was in flight
  client->close();
}

}  // namespace devrt::cpu
