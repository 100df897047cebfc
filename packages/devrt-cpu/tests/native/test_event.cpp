#include <chrono>

#include "devrt/async/ready_event.hpp"
#include "fake_device.hpp"
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

TEST_CASE(event_of_a_source_asks_it) {
  const auto source = std::make_shared<FakeEvent>();
  const ReadyEvent event = ReadyEvent::of(source);
  CHECK(event.source() == source.get() && ReadyEvent().source() == nullptr);
  CHECK(!event.is_ready() && event.error().ok() && !event.wait_for(1ms));
  source->end(Status(StatusCode::kAborted, "stopped"));
  CHECK(event.is_ready() && event.error().message() == "stopped");
  CHECK(event.wait().code() == StatusCode::kAborted);
  CHECK(event.wait_for(0ms)->code() == StatusCode::kAborted);
  CHECK(source->notified == 0);  // nobody left a callback
}

TEST_CASE(event_of_a_source_leaves_callbacks_to_it) {
  struct Source final : EventSource {
    std::optional<Status> query() noexcept override { return ended; }
    std::optional<Status> wait_for(std::chrono::nanoseconds) noexcept override { return ended; }
    void notify(UniqueFunction<void(const Status&)> callback) override {
      kept = std::move(callback);
    }
    std::optional<Status> ended;
    UniqueFunction<void(const Status&)> kept;
  };
  const auto source = std::make_shared<Source>();
  const ReadyEvent event = ReadyEvent::of(source);
  int calls = 0;
  for (int i = 0; i < 2; ++i) event.on_ready([&](const Status& status) { calls += status.ok(); });
  source->ended = Status();
  CHECK(event.is_ready() && calls == 0);  // who asks may hold locks that they take
  event.on_ready([&](const Status&) { ++calls; });
  CHECK(calls == 1);
  std::exchange(source->kept, {})(Status());
  CHECK(calls == 3);
}

TEST_CASE(event_of_a_source_wakes_every_waiter) {
  for (int round = 0; round < 200; ++round) {
    const auto source = std::make_shared<FakeEvent>();
    const ReadyEvent event = ReadyEvent::of(source);
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
        [&] { source->end(); });
    CHECK(woken == 4);
  }
}

TEST_CASE(event_waits_for_what_alone_tells_an_error) {
  const Status broken(StatusCode::kDataLoss, "broken");
  for (const Status& end : {Status(), broken}) {
    const auto source = std::make_shared<FakeEvent>();
    ReadyPromise other;
    ReadyPromise own({std::make_shared<AwaitedEnd>(other.event())});
    const ReadyEvent events[] = {ReadyEvent::of(source, own.event().dependencies()), own.event()};
    int calls = 0;
    for (const ReadyEvent& event : events) {
      event.on_ready([&](const Status& status) { calls += status.code() == end.code(); });
    }
    source->end();
    own.set();
    for (const ReadyEvent& event : events) {
      CHECK(!event.is_ready() && !event.query() && !event.wait_for(1ms));
    }
    CHECK(calls == 0);
    other.set(end);
    for (const ReadyEvent& event : events) {
      CHECK(event.is_ready() && event.wait().message() == end.message());
    }
    CHECK(calls == 2);
  }
}

TEST_CASE(event_of_a_promise_that_was_kept_is_not_cancelled_before_its_dependencies_are_over) {
  ReadyPromise other;
  ReadyEvent event;
  {
    ReadyPromise own({std::make_shared<AwaitedEnd>(other.event())});
    event = own.event();
    own.set();
  }
  CHECK(!event.is_ready());
  other.set();
  CHECK(event.is_ready() && event.wait().ok());
}

TEST_CASE(event_with_an_error_of_its_own_waits_for_nothing_else) {
  ReadyPromise other;
  ReadyPromise own({std::make_shared<AwaitedEnd>(other.event())});
  own.set(Status(StatusCode::kAborted, "stopped"));
  CHECK(own.event().is_ready() && own.event().error().message() == "stopped");
}

TEST_CASE(event_wakes_waiters_whichever_end_comes_last) {
  for (int round = 0; round < 200; ++round) {
    const auto source = std::make_shared<FakeEvent>();
    ReadyPromise other;
    const ReadyEvent event = ReadyEvent::of(source, {std::make_shared<AwaitedEnd>(other.event())});
    std::atomic<int> woken{0};
    in_threads(
        4,
        [&](std::size_t i) {
          if (i == 0) {
            other.set();
          } else if (i == 1) {
            event.on_ready([&](const Status&) { ++woken; });
          } else if (event.wait().ok()) {
            ++woken;
          }
        },
        [&] { source->end(); });
    CHECK(woken == 3);
  }
}

TEST_CASE(event_of_a_source_with_a_thread_of_its_own_calls_back_there) {
  struct Source final : FakeEvent {
    bool waits_in_notify() const noexcept override { return true; }
  };
  const auto source = std::make_shared<Source>();
  ReadyPromise other;
  const ReadyEvent event = ReadyEvent::of(source, {std::make_shared<AwaitedEnd>(other.event())});
  std::atomic<std::thread::id> caller;
  event.on_ready([&](const Status&) { caller = std::this_thread::get_id(); });
  std::thread ends([&] { source->end(); });
  const std::thread::id own = ends.get_id();
  CHECK(!event.wait_for(1ms));
  other.set();
  ends.join();
  CHECK(caller.load() == own);
}
