// Streams of executions: slots on devices, taken by many threads.
#include "execution/stream_order.hpp"

#include "fixtures.hpp"

using namespace devrt;
using native::StreamOrder;

static constexpr auto keep_on = [] {};

TEST_CASE(stream_order_waits_for_what_came_before_on_the_device) {
  StreamOrder order;
  const int device = 0;
  ReadyPromise first;
  StreamOrder::Slot slot = order.wait(7, {&device, 1}, keep_on);
  slot.begun(0, first.event());
  order.finish(std::move(slot));
  CHECK(order.is_used());
  std::atomic<bool> is_second{false};
  std::thread second([&] {
    StreamOrder::Slot next = order.wait(7, {&device, 1}, keep_on);
    is_second = true;
    next.begun(0, ReadyEvent());
    order.finish(std::move(next));
  });
  const int other = 1;
  order.finish(order.wait(7, {&other, 1}, keep_on));   // another device
  order.finish(order.wait(8, {&device, 1}, keep_on));  // another stream
  order.finish(order.wait(0, {&device, 1}, keep_on));  // none
  CHECK(!is_second);
  first.set(Status(StatusCode::kInternal, "failed"));  // a failure lets the next one begin
  second.join();
  CHECK(is_second && !order.is_used());
}

TEST_CASE(stream_order_gives_up_on_request) {
  StreamOrder order;
  const int device = 0;
  const ReadyPromise never;
  StreamOrder::Slot slot = order.wait(7, {&device, 1}, keep_on);
  slot.begun(0, never.event());
  const auto interrupt = [] { throw StatusError(Status(StatusCode::kCancelled, "a signal")); };
  const auto code = [&] {
    return harness::status_of([&] { (void)order.wait(7, {&device, 1}, interrupt); }).code();
  };
  CHECK(code() == StatusCode::kCancelled);  // while another one has the slot
  order.finish(std::move(slot));
  CHECK(code() == StatusCode::kCancelled);  // while its work runs
}

TEST_CASE(stream_order_does_not_wait_in_a_circle) {
  StreamOrder order;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  harness::in_threads(4, [&](std::size_t t) {
    const int forward[] = {0, 1, 2};
    const int backward[] = {2, 1, 0};
    for (int i = 0; i < 200; ++i) {
      StreamOrder::Slot slot = order.wait(1, t % 2 ? forward : backward, keep_on);
      const int now = ++inside;
      if (now > most) most = now;
      for (std::size_t d = 0; d < 3; ++d) slot.begun(d, ReadyEvent());
      --inside;
      order.finish(std::move(slot));
    }
  });
  CHECK(most == 1 && !order.is_used());
}

TEST_CASE(stream_order_forgets_idle_streams) {
  StreamOrder order;
  const int device = 0;
  for (std::int64_t stream = 1; stream < 5000; ++stream) {
    StreamOrder::Slot slot = order.wait(stream, {&device, 1}, keep_on);
    slot.begun(0, ReadyEvent());
    order.finish(std::move(slot));
  }
  CHECK(order.size() <= 1024);
}
