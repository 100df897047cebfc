// Clients of devices whose memory the host cannot reach; a host that does faults.
#include <cstring>
#include <functional>
#include <numeric>

#include "client/assembly.hpp"
#include "devrt/memory/limit_allocator.hpp"
#include "fake_device.hpp"

namespace devrt::native {

using namespace harness;

namespace {

struct Fixture {
  explicit Fixture(int devices = 1, bool asynchronous = true,
                   std::size_t bytes = std::size_t{64} << 20, std::size_t at_once = 0)
      : backend(std::make_shared<FakeBackend>(devices, bytes, at_once)) {
    ClientOptions options;
    options.backend = backend;
    options.asynchronous = asynchronous;
    client = Client::make(std::move(options));
  }
  Memory& memory(std::size_t device, const char* kind = "device") const {
    return client->local_devices()[device]->memory(kind);
  }
  std::vector<float> fetch(const Buffer& buffer) const {
    const Client::Fetched fetched =
        client->fetch(*buffer.memory(), client->storage_of(buffer, "fetch"), buffer.ready());
    raise_if_error(fetched.ready.wait());
    std::vector<float> values(buffer.bytes() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), fetched.storage->data(), buffer.bytes());
    return values;
  }

  std::shared_ptr<FakeBackend> backend;
  std::shared_ptr<Client> client;
};

Floats counting(std::size_t count, std::vector<std::int64_t> shape = {}) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return Floats(std::move(values), std::move(shape));
}

}  // namespace

TEST_CASE(device_facts_come_from_the_backend) {
  const Fixture f(2);
  const Device& device = *f.client->local_devices()[1];
  CHECK(device.facts().local_hardware_id == 11 && device.facts().kind == "fake");
  CHECK(std::get<std::int64_t>(device.facts().attributes[0].second) == 7);
  CHECK(!device.default_memory().is_host_visible() && f.memory(1, "pinned_host").is_host_visible());
  CHECK(device.default_memory().space() != f.memory(0).space());
  CHECK(f.memory(0, "pinned_host").space() == f.memory(1, "pinned_host").space());
  CHECK(device.default_memory().dlpack_device().type == 2);
}

TEST_CASE(device_memory_is_put_and_fetched_with_every_semantics) {
  for (const bool asynchronous : {true, false}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{8}, std::size_t{1} << 19}) {
      const Fixture f(1, asynchronous);
      const Floats source = counting(count);
      std::atomic<int> released{0};
      for (int semantics = 0; semantics < 4; ++semantics) {
        const Ref<Buffer> buffer =
            put(f.memory(0), source, {static_cast<Semantics>(semantics)}, counted(released));
        CHECK(asynchronous || buffer->ready().is_ready());
        CHECK(f.fetch(*buffer) == source.values);
      }
      f.client->close();
      CHECK(released == 4);
      CHECK(f.memory(0).stats().bytes_in_use() == 0);
      CHECK(f.backend->arena(0).usage().in_use_bytes == 0);
    }
  }
}

TEST_CASE(device_memory_takes_only_dense_rows_from_any_strides) {
  const Fixture f;
  const Floats source = counting(12, {3, 4});
  HostArray turned = source.array();
  const std::int64_t shape[] = {4, 3};
  const std::int64_t strides[] = {4, 16};
  turned.view.shape = shape;
  turned.view.strides = strides;
  std::atomic<int> released{0};
  ExternalOwner hold = counted(released);
  const Ref<Buffer> buffer =
      f.client->put(f.memory(0), turned, hold, {Semantics::kUntilTransferCompletes});
  CHECK(f.fetch(*buffer) == (std::vector<float>{1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}));
  hold.reset();
  CHECK(released == 1);
}

TEST_CASE(device_put_does_not_read_a_source_after_the_call_that_it_was_lent_for) {
  const Fixture f;
  f.backend->shut();
  Floats source = counting(1 << 15);
  const std::vector<float> before = source.values;
  const Ref<Buffer> buffer = put(f.memory(0), source);
  source.values.assign(source.values.size(), 0.0f);
  CHECK(!buffer->ready().is_ready());
  f.backend->open();
  CHECK(f.fetch(*buffer) == before);
}

TEST_CASE(device_takes_few_bytes_from_the_source_at_once) {
  const Fixture f(1, true, std::size_t{1} << 20, 64);
  f.backend->shut();
  Floats few = counting(16);
  Floats more = counting(17);
  const Ref<Buffer> first = put(f.memory(0), few);
  CHECK(f.backend->staged->calls == 0);
  const Ref<Buffer> second = put(f.memory(0), more);
  CHECK(f.backend->staged->calls == 1);
  few.values.assign(16, 0.0f);
  more.values.assign(17, 0.0f);
  CHECK(!first->ready().is_ready());
  f.backend->open();
  CHECK(f.fetch(*first) == counting(16).values && f.fetch(*second) == counting(17).values);
}

TEST_CASE(device_batches_make_equal_blocks_once_for_each_space) {
  const Fixture f(2);
  const Floats source = counting(8);
  std::vector<Block> blocks;
  const auto add = [&](Memory& memory, std::int64_t start) {
    blocks.push_back({&memory, Dims{start}});
  };
  for (const std::size_t device : {0, 1, 0}) add(f.memory(device), 0);
  add(f.memory(0), 4);
  add(f.memory(1, "pinned_host"), 4);
  ExternalOwner hold;
  const auto made = f.client->put_blocks(source.array(), blocks, Dims{4}.span(), hold, {});
  CHECK(made[0]->storage().get() == made[2]->storage().get());
  CHECK(made[0]->storage().get() != made[1]->storage().get());
  CHECK(f.fetch(*made[1]) == (std::vector<float>{1, 2, 3, 4}));
  CHECK(f.fetch(*made[3]) == (std::vector<float>{5, 6, 7, 8}));
  CHECK(f.fetch(*made[4]) == (std::vector<float>{5, 6, 7, 8}));
}

TEST_CASE(device_copies_share_storage_within_a_space_only) {
  const Fixture f(2);
  const Floats source = counting(8);
  const Ref<Buffer> first = put(f.memory(0), source);
  const Ref<Buffer> same = f.client->copy(*first, f.memory(0), true);
  const Ref<Buffer> apart = f.client->copy(*first, f.memory(1), true);
  const Ref<Buffer> pinned = f.client->copy(*apart, f.memory(0, "pinned_host"), true);
  const Ref<Buffer> back = f.client->copy(*pinned, f.memory(1), true);
  CHECK(same->storage().get() == first->storage().get());
  CHECK(apart->storage().get() != first->storage().get());
  for (const auto* buffer : {&apart, &pinned, &back}) CHECK(f.fetch(**buffer) == source.values);
}

TEST_CASE(device_orders_work_behind_its_own_events_without_a_thread) {
  const Fixture f(2);
  f.backend->shut();
  const Floats source = counting(1 << 15);
  const Ref<Buffer> first = put(f.memory(0), source);
  const Ref<Buffer> second = f.client->copy(*first, f.memory(1), false);
  CHECK(f.backend->num_waits == 1 && f.backend->num_copies == 2);
  for (const auto& device : f.client->local_devices()) CHECK(device->queue().size() == 0);
  CHECK(!second->ready().is_ready() && !second->ready().wait_for(std::chrono::milliseconds(1)));
  f.backend->open();
  CHECK(f.fetch(*second) == source.values);
}

TEST_CASE(device_work_behind_the_hosts_events_waits_in_a_thread) {
  for (const bool fails : {false, true}) {
    const Fixture f;
    ReadyPromise gate;
    const Ref<Storage> storage = f.memory(0, "pinned_host").allocate(32);
    const Floats source = counting(8);
    std::memcpy(storage->data(), source.values.data(), 32);
    const Ref<Buffer> waiting =
        Buffer::make(f.memory(0, "pinned_host").shared(), ElementType::kFloat32, Dims{8},
                     storage.share(), gate.event());
    const Ref<Buffer> copied = f.client->copy(*waiting, f.memory(0), false);
    CHECK(f.backend->num_copies == 0 && !copied->ready().is_ready());
    gate.set(fails ? Status(StatusCode::kAborted, "no data") : Status());
    CHECK(copied->ready().wait().code() == (fails ? StatusCode::kAborted : StatusCode::kOk));
    if (!fails) CHECK(f.fetch(*copied) == source.values);
    const Ref<Buffer> again = f.client->copy(*waiting, f.memory(0), false);
    CHECK(again->ready().wait().ok() == !fails);
  }
}

TEST_CASE(device_memory_is_given_back_after_the_work_that_uses_it) {
  const Fixture f;
  std::atomic<int> released{0};
  f.backend->shut();
  {
    const Floats source = counting(1 << 15);
    const Ref<Buffer> buffer =
        put(f.memory(0), source, {Semantics::kUntilTransferCompletes}, counted(released));
    const Ref<Buffer> copied = f.client->copy(*buffer, f.memory(0), false);
    buffer->remove();
    copied->remove();
    CHECK(released == 0);
    CHECK(f.memory(0).stats().bytes_in_use() == 2 * (1 << 17));
    CHECK(f.backend->arena(0).usage().in_use_bytes >= 2 * (1 << 17));
    f.backend->open();
    f.backend->drain();
  }
  CHECK(released == 1);
  CHECK(f.memory(0).stats().bytes_in_use() == 0);
  CHECK(f.backend->arena(0).usage().in_use_bytes == 0);
}

TEST_CASE(device_allocator_that_orders_by_itself_gets_memory_at_once) {
  struct Ordering final : HostAllocator {
    void* allocate(std::size_t bytes, std::size_t alignment) override {
      return heap.allocate(bytes, alignment);
    }
    void deallocate(void* data, std::size_t bytes) noexcept override {
      heap.deallocate(data, bytes);
    }
    bool deallocate_after(void* data, std::size_t bytes,
                          std::span<const ReadyEvent> uses) noexcept override {
      ordered += uses.size();
      heap.deallocate(data, bytes);
      return true;
    }
    AlignedAllocator heap;
    std::size_t ordered = 0;
  };
  const auto ordering = std::make_shared<Ordering>();
  const auto stats = std::make_shared<MemoryStats>(1 << 20);
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  const auto reserved = std::make_shared<ReservedBytes>();
  const auto cache = std::make_shared<BlockCache>(1 << 20);
  const std::shared_ptr<HostAllocator> whole = std::make_shared<StatisticsAllocator>(
      std::make_shared<LimitAllocator>(std::make_shared<RecyclingAllocator>(
                                           ordering, cache, reserved, RecyclingAllocator::kNever),
                                       budget),
      stats);
  ReadyPromise ended;
  ReadyPromise pending;
  Ref<Storage> storage = Storage::allocate(whole, 4096);
  storage->used_until(ended.event());
  storage->used_until(pending.event());
  ended.set();
  storage.reset();
  CHECK(ordering->ordered == 1);  // what has ended is no use any more
  CHECK(stats->bytes_in_use() == 0 && budget->used() == 0 && reserved->bytes() == 0);
}

TEST_CASE(device_memory_in_use_is_nobodys_sole_share) {
  const Fixture f;
  const Ref<Buffer> buffer = put(f.memory(0), counting(8));
  raise_if_error(buffer->ready().wait());
  const Ref<Storage> storage = std::move(buffer->take().storage);
  CHECK(storage->is_sole_share());
  ReadyPromise reading;
  storage->used_until(reading.event());
  CHECK(!storage->is_sole_share());
  reading.set();
  CHECK(storage->is_sole_share());
}

TEST_CASE(device_blocks_are_assembled_from_several_memories) {
  const Fixture f(2);
  const Ref<Buffer> near = put(f.memory(0), counting(8, {2, 4}));
  const Ref<Buffer> host = put(f.memory(1, "pinned_host"), counting(8, {2, 4}));
  // Two blocks of 2 x 4: the left columns of one source beside the right ones of the other.
  const std::int64_t numbers[] = {2, 2, 1, 3, 2, 4, 0, 0, 0,  // rank, sources, blocks, targets
                                  2,                          // pieces
                                  0, 0, 0, 0, 0, 2, 2,        //
                                  1, 0, 2, 0, 2, 2, 2};
  const Assembly assembly = Assembly::read(numbers);
  const Buffer* sources[] = {near.get(), host.get()};
  Memory* targets[] = {&f.memory(0), &f.memory(1), &f.memory(1, "pinned_host")};
  const auto made = f.client->assemble(sources, assembly, targets, true);
  for (const Ref<Buffer>& buffer : made) {
    CHECK(f.fetch(*buffer) == (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  }
}

TEST_CASE(device_part_of_a_buffer_is_shown_where_it_lies) {
  const Fixture f(2);
  const Ref<Buffer> whole = put(f.memory(0), counting(64));
  const std::int64_t numbers[] = {1, 1, 1, 2, 32, 0, 0, 1, 0, 32, 0, 32};
  const Assembly assembly = Assembly::read(numbers);
  const Buffer* sources[] = {whole.get()};
  Memory* targets[] = {&f.memory(0), &f.memory(1)};
  const auto made = f.client->assemble(sources, assembly, targets, true);
  CHECK(made[0]->storage()->data() == whole->storage()->data() + 128);
  CHECK(made[1]->storage()->data() != whole->storage()->data() + 128);
  const Floats all = counting(64);
  for (const Ref<Buffer>& part : made) {
    CHECK(f.fetch(*part) == std::vector<float>(all.values.begin() + 32, all.values.end()));
  }
}

TEST_CASE(device_out_of_memory_names_what_the_backend_has) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const Fixture f(2, true, kBytes);
  const Ref<Storage> held = f.memory(1).allocate(kBytes / 2);
  const MemorySnapshot stats = f.memory(1).stats().snapshot();
  CHECK(stats.bytes_limit == static_cast<std::int64_t>(kBytes));
  CHECK(stats.largest_free_block_bytes == static_cast<std::int64_t>(kBytes / 2));
  CHECK(f.memory(0).stats().snapshot().bytes_reserved == 0);
  const Status none = status_of([&] { (void)f.memory(1).allocate(kBytes); });
  CHECK(none.code() == StatusCode::kResourceExhausted);
  const MemoryReport* report = none.report();
  CHECK(report && report->requested == static_cast<std::int64_t>(kBytes));
  CHECK(report->limit == static_cast<std::int64_t>(kBytes));
  CHECK(report->device == "cpu:1" && report->kind == "device");
  CHECK(static_cast<bool>(f.memory(0).allocate(kBytes)));
}

TEST_CASE(device_memory_in_flight_is_waited_for_before_it_is_out_of_memory) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const Fixture f(1, true, kBytes);
  f.backend->shut();
  {
    const Ref<Buffer> dropped = put(f.memory(0), counting(kBytes / 8));
  }
  std::jthread opener([&] {
    while (f.backend->is_idle()) std::this_thread::yield();
    f.backend->open();
  });
  CHECK(static_cast<bool>(f.memory(0).allocate(kBytes)));
}

TEST_CASE(device_that_is_lost_takes_no_work_and_others_do) {
  const Fixture f(2);
  f.backend->lost = 0;
  CHECK(status_of([&] { (void)put(f.memory(0), counting(8)); }).code() == StatusCode::kUnavailable);
  const Ref<Buffer> buffer = put(f.memory(1), counting(8));
  CHECK(f.fetch(*buffer) == counting(8).values);
  CHECK(f.memory(0).stats().bytes_in_use() == 0);
}

TEST_CASE(device_failure_comes_with_the_data) {
  const Fixture f;
  f.backend->failing = true;
  const Ref<Buffer> buffer = put(f.memory(0), counting(8));
  CHECK(buffer->ready().wait().message() == "bus");
  f.backend->failing = false;
  const Ref<Buffer> copied = f.client->copy(*buffer, f.memory(0, "pinned_host"), false);
  CHECK(copied->ready().wait().message() == "bus");
}

TEST_CASE(device_client_closes_and_dies_with_work_in_flight) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> released{0};
    const Floats source = counting(1 << 14);
    auto backend = std::make_shared<FakeBackend>(2);
    {
      ClientOptions options;
      options.backend = backend;
      const auto client = Client::make(std::move(options));
      for (std::size_t i = 0; i < 8; ++i) {
        const Ref<Buffer> buffer = put(client->local_devices()[i % 2]->default_memory(), source,
                                       {Semantics::kUntilTransferCompletes}, counted(released));
        (void)client->copy(*buffer, client->local_devices()[1]->default_memory(), false);
      }
      if (round % 2) client->close();
    }
    backend->drain();
    CHECK(released == 8);
    for (int space : {0, 1}) CHECK(backend->arena(space).usage().in_use_bytes == 0);
  }
}

TEST_CASE(device_is_used_from_many_threads) {
  const Fixture f(2);
  in_threads(4, [&](std::size_t t) {
    for (int i = 0; i < 50; ++i) {
      const Floats source = counting(static_cast<std::size_t>(64 + i));
      const Ref<Buffer> buffer = put(f.memory(t % 2), source);
      const Ref<Buffer> copied = f.client->copy(*buffer, f.memory((t + 1) % 2), false);
      if (i % 2) buffer->remove();
      CHECK(f.fetch(*copied) == source.values);
    }
  });
  f.client->close();
  for (int space : {0, 1}) CHECK(f.backend->arena(space).usage().in_use_bytes == 0);
}

}  // namespace devrt::native
