// The engine behind a client, with a plugin that a test steers.
#include <dlfcn.h>

#include <chrono>

#include "devrt/pjrt/engine/hlo_module.hpp"
#include "fixtures.hpp"

using namespace devrt;
using namespace harness;
using native::Executable;

namespace {

int live_buffers() {
  static const auto count =
      reinterpret_cast<int (*)()>(dlsym(dlopen(FAKE_PJRT, RTLD_NOW), "fake_live_buffers"));
  return count();
}

}  // namespace

TEST_CASE(engine_runs_now_and_later) {
  {
    const auto client = native::Client::make({});
    const Ref<native::Buffer> x = put(*client, 3);
    const Ref<native::Buffer> now = call(*compile(*client, "double"), *x);
    CHECK(now->ready().is_ready() && first(*now) == 6);
    const Ref<native::Buffer> later = call(*compile(*client, "later"), *now);
    CHECK(first(*later) == 12);
    CHECK(client->engine()->counters().copies == 0);
    client->close();
  }
  CHECK(live_buffers() == 0);
}

TEST_CASE(engine_keeps_an_argument_that_is_deleted_at_once) {
  const auto client = native::Client::make({});
  const Ref<Executable> later = compile(*client, "later");
  std::vector<Ref<native::Buffer>> results;
  for (int i = 0; i < 8; ++i) {
    const Ref<native::Buffer> x = put(*client, static_cast<float>(i));
    results.push_back(call(*later, *x));
    x->remove();
  }
  for (std::size_t i = 0; i < 8; ++i) CHECK(first(*results[i]) == 2.0F * static_cast<float>(i));
}

TEST_CASE(engine_takes_donated_memory_unless_it_is_seen) {
  const auto client = native::Client::make({});
  const Ref<Executable> donate = compile(*client, "donate");
  Ref<native::Buffer> x = call(*donate, *put(*client, 1));
  CHECK(first(*x) == 2);
  const std::byte* address = x->storage()->data();
  Ref<native::Buffer> y = call(*donate, *x);
  CHECK(x->is_deleted() && first(*y) == 4 && y->storage()->data() == address);
  const Ref<Storage> seen = y->storage();
  const Ref<native::Buffer> z = call(*donate, *y);
  CHECK(first(*z) == 8 && z->storage()->data() != address);
  CHECK(reinterpret_cast<const float*>(seen->data())[0] == 4);
}

TEST_CASE(engine_takes_the_memory_of_put_buffers_and_counts_it_once) {
  const auto client = native::Client::make({});
  const Ref<Executable> donate = compile(*client, "donate");
  const auto& stats = client->local_devices()[0]->stats();
  const std::int64_t before = stats->snapshot().bytes_in_use;
  Ref<native::Buffer> x = put(*client, 1);
  const std::byte* address = x->storage()->data();
  const std::int64_t with_one = stats->snapshot().bytes_in_use;
  for (int i = 0; i < 4; ++i) x = call(*donate, *x);
  CHECK(first(*x) == 16 && x->storage()->data() == address);
  CHECK(stats->snapshot().bytes_in_use == with_one);
  Ref<Storage> seen = x->storage();
  Ref<native::Buffer> y = call(*donate, *x);
  CHECK(first(*y) == 32 && y->storage()->data() != address);
  client->close();
  CHECK(reinterpret_cast<const float*>(seen->data())[0] == 16);
  x.reset();
  seen.reset();
  y.reset();
  // The fake's last thread releases its block after it has reported that it is done.
  for (int i = 0; i < 5000 && stats->snapshot().bytes_in_use != before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(stats->snapshot().bytes_in_use == before);
}

TEST_CASE(engine_does_not_write_under_a_reader) {
  const auto client = native::Client::make({});
  const Ref<Executable> later = compile(*client, "later");
  const Ref<Executable> donate = compile(*client, "donate");
  const Ref<native::Buffer> x = put(*client, 3);
  const Ref<native::Buffer> read = call(*later, *x);
  const Ref<native::Buffer> taken = call(*donate, *x);
  CHECK(first(*read) == 6 && first(*taken) == 6);
}

TEST_CASE(engine_donates_what_is_not_ready_yet) {
  const auto client = native::Client::make({});
  const Ref<Executable> donate = compile(*client, "donate");
  Ref<native::Buffer> x = call(*donate, *put(*client, 1));
  CHECK(first(*x) == 2);
  const std::byte* address = x->storage()->data();
  for (int i = 0; i < 4; ++i) x = call(*donate, *x);
  CHECK(x->ready().wait().ok() && x->storage()->data() == address);
}

TEST_CASE(engine_failures_keep_arguments_and_poison_results) {
  const auto client = native::Client::make({});
  const Ref<native::Buffer> x = put(*client, 1);
  const Status failed = harness::status_of([&] { (void)call(*compile(*client, "fail"), *x); });
  CHECK(failed.code() == StatusCode::kInternal &&
        failed.message().ends_with("'fail': the fake fails"));
  CHECK(!x->is_deleted());
  const Ref<native::Buffer> bad = call(*compile(*client, "poison"), *x);
  CHECK(bad->ready().wait().code() == StatusCode::kDataLoss);
  const Status wrong = harness::status_of([&] { (void)compile(*client, "wrong"); });
  CHECK(wrong.code() == StatusCode::kInvalidArgument);
}

TEST_CASE(engine_gives_back_what_was_not_taken_before_a_shard_failed) {
  native::ClientOptions options;
  options.num_devices = 2;
  const auto client = native::Client::make(std::move(options));
  const Ref<Executable> second = compile(*client, "second");
  const Ref<native::Buffer> arguments[] = {put(*client, 1, 0), put(*client, 2, 1)};
  native::Buffer* buffers[] = {arguments[0].get(), arguments[1].get()};
  const std::span<native::Buffer* const> rows[] = {{&buffers[0], 1}, {&buffers[1], 1}};
  (void)second->check(rows, "execute_sharded");
  Ref<native::Buffer> results[2];
  const Status failed = harness::status_of([&] { second->execute(rows, results); });
  CHECK(failed.message().ends_with("the fake fails"));
  CHECK(arguments[0]->is_deleted());  // the first shard writes there
  CHECK(!arguments[1]->is_deleted() && first(*arguments[1]) == 2);
}

TEST_CASE(in_flight_has_a_bound_on_each_device_and_an_end) {
  using pjrt::InFlight;
  InFlight of(2);
  const std::size_t both[] = {0, 1};
  const auto patient = [](const InFlight::Wait&) {};
  std::vector<InFlight::Slot> first(InFlight::kMost);
  for (InFlight::Slot& slot : first) of.enter({both, 1}, {&slot, 1}, patient);
  InFlight::Slot other;
  of.enter({both + 1, 1}, {&other, 1}, patient);  // another device has a free slot
  std::atomic<bool> is_in{false};
  std::jthread late([&] {
    InFlight::Slot slots[2];
    of.enter(both, slots, patient);
    is_in = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!is_in);
  other = {};
  std::jthread end([&] {
    of.wait_for_all();
    CHECK(is_in);  // it waited for those without a slot too
  });
  first.clear();
}

TEST_CASE(in_flight_work_that_begins_during_a_wait_is_not_waited_for) {
  using pjrt::InFlight;
  InFlight of(1);
  for (int i = 0; i < 3; ++i) of.wait_for_earlier([] { CHECK(false); });  // there is none
  InFlight::Slot slots[] = {of.take(0), of.hold()};
  InFlight::Slot later;
  int slices = 0;
  of.wait_for_earlier([&] {
    later = of.take(0);  // in place of the last one: there is always something in flight
    if (++slices > 1) slots[slices - 2] = {};
  });
  CHECK(slices == 3 && later);
  std::jthread end([&] { of.wait_for_all(); });
  later = {};
}

TEST_CASE(in_flight_tells_the_waiter_that_nothing_ends) {
  using pjrt::InFlight;
  InFlight of(2);
  const std::size_t device = 1;
  const auto enter = [&](InFlight::Slot& slot, const auto& on_slice) {
    of.enter({&device, 1}, {&slot, 1}, on_slice);
  };
  std::vector<InFlight::Slot> all(InFlight::kMost);
  for (InFlight::Slot& slot : all) enter(slot, [](const InFlight::Wait&) {});
  InFlight::Slot late;
  int slices = 0;
  const Status status = harness::status_of([&] {
    enter(late, [&](const InFlight::Wait& wait) {
      CHECK(wait.device == 1 && wait.in_flight == InFlight::kMost);
      CHECK(wait.stalled >= ++slices * InFlight::kSlice / 2);
      if (slices == 3) throw StatusError(Status(StatusCode::kDeadlineExceeded, "stalled"));
    });
  });
  CHECK(status.code() == StatusCode::kDeadlineExceeded && slices == 3);
  late = {};
  all.clear();
  of.wait_for_all();  // who gave up is not waited for
}

TEST_CASE(engine_never_waits_for_the_plugin_where_work_ends) {
  // The plugin's one thread ends every step, and to destroy a step's argument is to wait for the
  // step after it. Without a thread of its own for that, this stops for ever.
  std::atomic<bool> has_ended{false};
  std::jthread watchdog([&] {
    for (int i = 0; i < 600 && !has_ended; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (!has_ended) std::abort();
  });
  {
    const auto client = native::Client::make({});
    const Ref<Executable> hold = compile(*client, "hold");
    Ref<native::Buffer> x = put(*client, 0);
    for (int i = 0; i < 200; ++i) x = call(*hold, *x);
    CHECK(first(*x) == 0);
    for (int i = 0; i < 20; ++i) x = call(*hold, *x);
    x.reset();  // the last result is released where its work ends
    client->close();
  }
  while (live_buffers() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  has_ended = true;
}

TEST_CASE(engine_close_waits_for_what_is_in_flight) {
  for (int round = 0; round < 20; ++round) {
    const auto client = native::Client::make({});
    const Ref<Executable> later = compile(*client, "later");
    const Ref<native::Buffer> x = put(*client, 1);
    const Ref<native::Buffer> result = call(*later, *x);
    client->close();
    CHECK(result->ready().is_ready() && later->is_deleted() && result->is_deleted());
    CHECK(harness::status_of([&] { (void)call(*later, *x); }).reason() != Reason::kNone);
  }
}

TEST_CASE(engine_is_used_by_sixteen_threads) {
  const auto client = native::Client::make({});
  const Ref<native::Buffer> shared = put(*client, 1);
  in_threads(16, [&](std::size_t t) {
    for (int i = 0; i < 10; ++i) {
      const Ref<Executable> executable = compile(*client, t % 2 ? "later" : "double");
      const Ref<native::Buffer> once = call(*executable, *shared);
      const Ref<native::Buffer> twice = call(*executable, *once);
      if (i % 2) executable->remove();
      CHECK(first(*twice) == 4);
    }
  });
  client->close();
}

TEST_CASE(engine_refuses_what_is_no_plugin) {
  const auto client = native::Client::make({});
  const auto load = [&](const std::string& path) {
    return harness::status_of([&] { (void)Executable::compile(*client, path, {"x", "mlir", ""}); });
  };
  CHECK(load("/nowhere/at/all.so").code() == StatusCode::kNotFound);
  CHECK(load("libm.so.6").code() == StatusCode::kFailedPrecondition);
  PJRT_Api old{};
  old.struct_size = 40;
  CHECK(harness::status_of([&] { (void)pjrt::Api::wrap(&old, "old"); }).code() ==
        StatusCode::kFailedPrecondition);
  old.struct_size = offsetof(PJRT_Api, PJRT_Plugin_Initialize) + sizeof(void*);
  old.pjrt_api_version.major_version = 7;
  CHECK(harness::status_of([&] { (void)pjrt::Api::wrap(&old, "old"); }).message().find("7.0") !=
        std::string::npos);
  old.pjrt_api_version.major_version = PJRT_API_MAJOR;
  const auto api = pjrt::Api::wrap(&old, "old");
  CHECK(!api->has<&PJRT_Api::PJRT_Compile>());  // beyond the table: never read
  auto args = pjrt::make_args<PJRT_Compile_Args>();
  CHECK(api->call<&PJRT_Api::PJRT_Compile>(args).code() == StatusCode::kUnimplemented);
}

TEST_CASE(hlo_messages_that_are_cut_are_refused) {
  // name "m"; program shape: parameter f32[8], result (f32[8], pred[])
  const std::string shape("\x10\x0b\x1a\x01\x08", 5);
  const std::string pair =
      std::string("\x10\x0d\x22\x05", 4) + shape + std::string("\x22\x02\x10\x01", 4);
  const std::string program =
      std::string("\x0a\x05", 2) + shape + '\x12' + static_cast<char>(pair.size()) + pair;
  const std::string module =
      std::string("\x0a\x01m\x22", 4) + static_cast<char>(program.size()) + program;
  const pjrt::HloModule read = pjrt::read_hlo_module(module);
  CHECK(read.name == "m" && read.parameters.size() == 1 && read.results.size() == 2);
  CHECK(read.parameters[0].dims == std::vector<std::int64_t>{8});
  CHECK(read.results[1].type == ElementType::kBool && read.results[1].dims.empty());
  for (std::size_t cut = 1; cut < module.size(); ++cut) {
    if (cut == 3) continue;  // between two fields
    const Status status =
        harness::status_of([&] { (void)pjrt::read_hlo_module(module.substr(0, cut)); });
    CHECK(status.code() == StatusCode::kDataLoss);
  }
}
