#include <chrono>

#include "devrt/async/ready_event.hpp"
#include "fixtures.hpp"

using namespace devrt;
using namespace harness;
using namespace std::chrono_literals;

TEST_CASE(event_default_is_ready) {
  const ReadyEvent event;
  CHECK(event.is_ready());
  CHECK(event.wait().ok());
  CHECK(event.error().ok());
  bool called = false;
  event.on_ready([&](const Status& status) { called = status.ok(); });
  CHECK(called);
}

TEST_CASE(event_is_set_once) {
  ReadyPromise promise;
  const ReadyEvent event = promise.event();
  CHECK(!event.is_ready());
  CHECK(event.error().ok());
  CHECK(!event.wait_for(0ms));
  promise.set();
  promise.set(Status(StatusCode::kInternal, "late"));
  CHECK(event.is_ready());
  CHECK(event.wait().ok());
  CHECK(event.wait_for(0ms)->ok());
}

TEST_CASE(event_carries_an_error) {
  ReadyPromise promise;
  promise.set(Status(StatusCode::kInternal, "broken"));
  CHECK(promise.event().wait().message() == "broken");
  CHECK(promise.event().error().code() == StatusCode::kInternal);
  CHECK(ReadyEvent::already(Status(StatusCode::kAborted, "x")).error().message() == "x");
  CHECK(ReadyEvent::already(Status()).is_ready());
}

TEST_CASE(event_of_a_dropped_promise_is_cancelled) {
  ReadyEvent event;
  {
    ReadyPromise promise;
    event = promise.event();
    const ReadyPromise moved = std::move(promise);
    CHECK(!event.is_ready());
  }
  CHECK(event.wait().code() == StatusCode::kCancelled);
}

TEST_CASE(event_wakes_every_waiter) {
  for (int round = 0; round < 200; ++round) {
    ReadyPromise promise;
    const ReadyEvent event = promise.event();
    std::atomic<int> woken{0};
    in_threads(
        4,
        [&](std::size_t i) {
          if (i % 2) {
            event.on_ready([&](const Status&) { ++woken; });
          } else if (event.wait().ok()) {
            ++woken;
          }
        },
        [&] { promise.set(); });
    CHECK(woken == 4);
  }
}
