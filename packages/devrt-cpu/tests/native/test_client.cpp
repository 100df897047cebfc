#include "client/client.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <numeric>

#include "fixtures.hpp"

namespace devrt::native {

using namespace harness;

namespace {

/// Floats that count how often a client released them.
struct Source : Floats {
  explicit Source(std::size_t count) : Floats(std::vector<float>(count)) {
    std::iota(values.begin(), values.end(), 0.0f);
  }
  ExternalOwner owner() { return counted(released); }

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
          const Ref<Buffer> buffer = put(client->devices()[1]->default_memory(), source,
                                         {static_cast<Semantics>(semantics)}, source.owner());
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
  const Ref<Buffer> first = put(client->devices()[0]->default_memory(), source,
                                {Semantics::kUntilTransferCompletes}, source.owner());
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
  const Ref<Buffer> buffer = put(memory, source);
  client->close();
  CHECK(buffer->is_deleted());
  CHECK(memory.stats().bytes_in_use() == 0);
  CHECK(status_of([&] { put(memory, source); }).reason() == Reason::kClosed);
}

TEST_CASE(client_dies_with_work_in_flight) {
  for (int round = 0; round < 20; ++round) {
    Source source(1 << 16);
    {
      auto client = make_client(2);
      for (std::size_t i = 0; i < 8; ++i) {
        put(client->devices()[i % 2]->default_memory(), source,
            {Semantics::kUntilTransferCompletes}, source.owner());
      }
    }
    CHECK(source.released == 8);
  }
}

TEST_CASE(client_is_used_and_closed_from_many_threads) {
  for (int round = 0; round < 10; ++round) {
    Source source(20'000);
    auto client = make_client(2);
    in_threads(
        3,
        [&](std::size_t t) {
          try {
            for (int i = 0; i < 100; ++i) {
              const Ref<Buffer> buffer = put(client->devices()[t % 2]->default_memory(), source,
                                             {static_cast<Semantics>(i % 3)}, source.owner());
              const Ref<Buffer> copied =
                  client->copy(*buffer, client->devices()[1]->memory("unpinned_host"), false);
              if (i % 2) buffer->remove();
              for (const Ref<Buffer>& live : client->registry().snapshot()) (void)live->storage();
            }
          } catch (const StatusError& error) {
            CHECK(error.status().reason() == Reason::kClosed ||
                  error.status().reason() == Reason::kDeleted);
          }
        },
        [&] {
          if (round % 2) client->close();
        });
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
  Source source(1 << 16);
  const Ref<Buffer> buffer =
      put(memory, source, {Semantics::kUntilTransferCompletes}, source.owner());
  CHECK(!buffer->ready().is_ready());
  std::thread closing([&] { client->close(WorkQueue::OnClose::kCancel); });
  // The work in progress still runs, and the other is dropped at once.
  CHECK(buffer->ready().wait().code() == StatusCode::kCancelled);
  release.set_value();
  closing.join();
  CHECK(source.released == 1 && buffer->is_deleted());
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

}  // namespace devrt::native
