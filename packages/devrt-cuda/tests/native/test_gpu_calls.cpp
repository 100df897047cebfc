// How many calls of the driver the client makes where each costs as much as the work: in the usual
// case, and beside others who make another context current. Gates decide what has ended. Each
// vendor's package runs these tests with its own table and simulator.
#include <utility>

#include "gate.hpp"
#include "gpu_client.hpp"

namespace devrt::gpu {

namespace {

constexpr std::size_t kSmall = 1000;     // float: of the arena in front of a pool
constexpr std::size_t kLarge = 300'000;  // more than that takes

void* stream_of(const Client& client, native::Lane lane) {
  return reinterpret_cast<void*>(*client.backend().stream_handle({0, lane, 0}));
}

unsigned long long count_of(const std::string& function) {
  return devrt_simulator_count((DRIVER_PREFIX + function).c_str());
}

template <class Function>
unsigned long long calls_of(const Function& function) {
  const unsigned long long before = devrt_simulator_count("");
  function();
  return devrt_simulator_count("") - before;
}

/// A client of one device whose streams, events and memory have been used before, in this thread.
struct Warm {
  explicit Warm(std::size_t count, const std::string& settings = "delay=0")
      : client(client_on(settings)),
        pinned(put(*client, memory_of(*client, 0, "pinned_host"), counting(count))),
        function(kernel(*client, 0, "sum")) {
    raise_if_error(pinned->ready().wait());
    for (int i = 0; i < 4; ++i) {
      const Ref<Buffer> x = device_copy();
      const Ref<Buffer> y = sum(*client, 0, function, *x, *x);
      (void)fetch(*client, *sum(*client, 0, function, *x, *y, 1));
    }
    client->backend().drain();  // nobody else calls the driver from here on
  }
  Warm(const Warm&) = delete;
  Warm& operator=(const Warm&) = delete;
  ~Warm() {
    client->close();
    if (std::uncaught_exceptions() == 0) check_no_reports();
  }

  Ref<Buffer> device_copy() const { return client->copy(*pinned, memory_of(*client), false); }
  Ref<Buffer> ready_copy() const {
    Ref<Buffer> copied = device_copy();
    raise_if_error(copied->ready().wait());
    client->backend().drain();
    return copied;
  }

  const std::shared_ptr<Client> client;
  const Ref<Buffer> pinned;
  const std::shared_ptr<KernelFunction> function;
};

}  // namespace

// What a vendor's table leaves out is an attribute that its driver has not; 0 would be another one.
static_assert(AttributeNumbers{}.multiprocessors == -1 && AttributeNumbers{}.numa_node == -1);
static_assert(AttributeNumbers{}.launch.shared_bytes_on_request == -1);

TEST_CASE(gpu_put_of_page_locked_memory_takes_four_calls_at_most) {
  for (const auto& [count, most] : {std::pair{kSmall, 2U}, std::pair{kLarge, 4U}}) {
    const Warm warm(count);
    Ref<Buffer> made;
    CHECK(calls_of([&] { made = warm.device_copy(); }) == most);
    CHECK(fetch(*warm.client, *made) == counting(count));
  }
}

TEST_CASE(gpu_memory_whose_work_goes_on_is_given_back_in_two_calls) {
  const Warm warm(kLarge);
  Gate gate(stream_of(*warm.client, native::Lane::kToDevice));
  Ref<Buffer> made = warm.device_copy();
  CHECK(calls_of([&] { made.reset(); }) == 2);
}

TEST_CASE(gpu_memory_of_an_arena_is_given_back_by_a_query_and_a_wait_elsewhere) {
  const Warm small(kSmall);
  const unsigned long long waits = count_of("EventSynchronize");
  {
    Gate gate(stream_of(*small.client, native::Lane::kToDevice));
    Ref<Buffer> made = small.device_copy();
    const unsigned long long queries = count_of("EventQuery");
    made.reset();
    CHECK(count_of("EventQuery") - queries == 1);
  }
  small.client->backend().drain();
  CHECK(count_of("EventSynchronize") - waits == 1);
}

TEST_CASE(gpu_memory_whose_work_has_ended_is_given_back_in_two_calls) {
  for (const auto& [count, most] : {std::pair{kSmall, 1U}, std::pair{kLarge, 2U}}) {
    const Warm warm(count);
    Ref<Buffer> made = warm.device_copy();
    void* const stream = stream_of(*warm.client, native::Lane::kToDevice);
    ok(driver().call.stream_synchronize(static_cast<StreamHandle*>(stream)));  // unseen
    CHECK(calls_of([&] { made.reset(); }) == most);
  }
}

TEST_CASE(gpu_launch_takes_two_calls) {
  const Warm warm(kSmall);
  const Ref<Buffer> x = warm.ready_copy();
  const auto twice = [&](const Buffer& a) { return sum(*warm.client, 0, warm.function, a, a); };
  Gate gate(stream_of(*warm.client, native::Lane::kWithin));
  Ref<Buffer> y;
  CHECK(calls_of([&] { y = twice(*x); }) == 2);
  Ref<Buffer> z;
  CHECK(calls_of([&] { z = twice(*y); }) == 2);  // behind what its stream has not done
  gate.open();
  std::vector<float> values = counting(kSmall);
  for (float& value : values) value *= 4;
  CHECK(fetch(*warm.client, *z) == values);
}

TEST_CASE(gpu_memory_of_many_launches_is_given_back_in_two_calls) {
  const Warm warm(kLarge);
  Ref<Buffer> x = warm.ready_copy();
  Gate gate(stream_of(*warm.client, native::Lane::kWithin));
  std::vector<Ref<Buffer>> results;
  for (int i = 0; i < 20; ++i) results.push_back(sum(*warm.client, 0, warm.function, *x, *x));
  CHECK(calls_of([&] { x.reset(); }) == 2);
}

TEST_CASE(gpu_work_goes_to_its_device_whatever_context_others_make_current) {
  const Warm warm(kSmall, "delay=0 devices=2 wrong_contexts=0");
  Context before = 0;
  ok(driver().get_current(&before));
  Context other = 0;
  ok(driver().retain(1, &other));
  std::vector<Context> foreigners{other};
  if (driver().set_current(0) == kSuccess) foreigners.push_back(0);  // HIP has one always
  const std::vector<float> values = counting(kSmall);
  for (const Context foreign : foreigners) {
    const Ref<Buffer> x = warm.ready_copy();
    const auto is_left = [&] {
      Context now = 0;
      ok(driver().get_current(&now));
      return !foreign || now == foreign;  // a thread that has none may get one
    };
    // Before each kind of work, since the first of them learns of the other context.
    ok(driver().set_current(foreign));
    Ref<Buffer> y = warm.device_copy();
    CHECK(is_left());
    (void)warm.ready_copy();
    ok(driver().set_current(foreign));
    const Ref<Buffer> z = sum(*warm.client, 0, warm.function, *x, *x, 1);
    CHECK(is_left());
    (void)warm.ready_copy();
    ok(driver().set_current(foreign));
    CHECK(fetch(*warm.client, *y) == values && is_left());
    (void)warm.ready_copy();
    ok(driver().set_current(foreign));
    y.reset();
    CHECK(is_left());
    CHECK(fetch(*warm.client, *z)[1] == 4);
  }
  ok(driver().set_current(before));
  ok(driver().release(1));
}

}  // namespace devrt::gpu
