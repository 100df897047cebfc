#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "client/client.hpp"
#include "devrt/async/stream_queues.hpp"
#include "harness.hpp"

using namespace devrt;

namespace {

/// Enqueues a task that waits for a gate, and returns once it runs.
void block(StreamQueues& queues, std::int64_t stream, ReadyEvent gate) {
  ReadyPromise started;
  const ReadyEvent running = started.event();
  queues.enqueue(stream, [gate = std::move(gate), started = std::move(started)]() mutable {
    started.set();
    (void)gate.wait();
  });
  (void)running.wait();
}

/// Enqueues a task that only says that it ran.
ReadyEvent mark(StreamQueues& queues, std::int64_t stream) {
  ReadyPromise promise;
  ReadyEvent done = promise.event();
  queues.enqueue(stream, [promise = std::move(promise)]() mutable { promise.set(); });
  return done;
}

}  // namespace

TEST_CASE(streams_of_different_ids_overlap_and_of_one_id_are_ordered) {
  StreamQueues queues("streams", 8);
  ReadyPromise gate;
  block(queues, 1, gate.event());
  const ReadyEvent behind = mark(queues, 1);
  CHECK(mark(queues, 2).wait().ok());  // returns, although stream 1 is blocked
  CHECK(mark(queues, -7).wait().ok());
  CHECK(!behind.is_ready());
  gate.set();
  CHECK(behind.wait().ok());
  queues.close(StreamQueues::OnClose::kDrain);
}

TEST_CASE(streams_reuse_idle_queues_and_start_none_before_the_first_task) {
  StreamQueues queues("reuse", 8);
  CHECK(queues.size() == 0);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    ReadyPromise done;
    const ReadyEvent event = done.event();
    queues.enqueue(i, [&order, i, done = std::move(done)]() mutable {
      order.push_back(i);
      done.set();
    });
    (void)event.wait();
  }
  CHECK(order.size() == 100);
  // The task before may still be ending when the next id comes; hardly ever twice in a row.
  CHECK(queues.size() <= StreamQueues::kMostQueues);
}

TEST_CASE(streams_beyond_the_limit_share_queues_and_stay_ordered) {
  constexpr int kStreams = 9;
  constexpr int kTasks = 50;
  std::vector<std::vector<int>> seen(kStreams);
  {
    StreamQueues queues("limit", 4, 2);
    std::vector<std::jthread> producers;
    for (int stream = 0; stream < kStreams; ++stream) {
      producers.emplace_back([&, stream] {
        for (int i = 0; i < kTasks; ++i) {
          // Not guarded: two tasks of one stream at a time would be a race that TSan reports.
          queues.enqueue(stream,
                         [&, stream, i] { seen[static_cast<std::size_t>(stream)].push_back(i); });
        }
      });
    }
    producers.clear();
    CHECK(queues.size() <= 2);
    queues.close(StreamQueues::OnClose::kDrain);
  }
  for (const auto& tasks : seen) {
    CHECK(tasks.size() == kTasks);
    for (int i = 0; i < kTasks; ++i) CHECK(tasks[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE(streams_may_wait_for_each_other_with_one_queue_only) {
  StreamQueues queues("chain", 4, 1);
  ReadyEvent before;
  for (int i = 0; i < 64; ++i) {
    ReadyPromise promise;
    ReadyEvent done = promise.event();
    queues.enqueue(
        i % 5, [before, promise = std::move(promise)]() mutable { promise.set(before.wait()); });
    before = done;
  }
  CHECK(before.wait().ok());
}

TEST_CASE(closed_streams_refuse_and_cancel) {
  StreamQueues never("never", 4);
  never.close(StreamQueues::OnClose::kDrain);
  CHECK(harness::status_of([&] { never.enqueue(3, [] {}); }).reason() == Reason::kClosed);

  StreamQueues queues("cancel", 8);
  ReadyPromise gate;
  block(queues, 1, gate.event());
  const ReadyEvent dropped = mark(queues, 1);
  std::jthread closer([&] { queues.close(StreamQueues::OnClose::kCancel); });
  CHECK(dropped.wait().code() == StatusCode::kCancelled);
  gate.set();
  closer.join();
  CHECK(harness::status_of([&] { queues.enqueue(1, [] {}); }).reason() == Reason::kClosed);
}

TEST_CASE(a_queue_ends_its_thread_when_nothing_comes_and_starts_another) {
  WorkQueue queue("linger", 4, std::chrono::milliseconds(1));
  for (int i = 0; i < 5; ++i) {
    ReadyPromise promise;
    const ReadyEvent done = promise.event();
    queue.enqueue([promise = std::move(promise)]() mutable { promise.set(); });
    CHECK(done.wait().ok());
    while (queue.has_thread()) std::this_thread::yield();
    CHECK(queue.is_idle());
  }
}

TEST_CASE(a_copy_that_waits_blocks_its_stream_and_no_other) {
  auto client = native::Client::make({});
  native::Memory& memory = client->devices()[0]->default_memory();
  const std::size_t bytes = 4;
  ReadyPromise gate;
  const Ref<native::Buffer> late = native::Buffer::make(
      memory.shared(), ElementType::kInt32, Dims{1}, memory.allocate(bytes), gate.event());
  const Ref<native::Buffer> first = client->copy(*late, memory, false, 1);
  const Ref<native::Buffer> behind = client->copy(*late, memory, false, 1);
  const Ref<native::Buffer> filled =
      client->copy(*native::Buffer::make(memory.shared(), ElementType::kUint8, Dims{1 << 20},
                                         memory.allocate(1 << 20)),
                   memory, false, 2);
  CHECK(filled->ready().wait().ok());
  CHECK(!first->ready().is_ready());
  CHECK(!behind->ready().is_ready());
  gate.set();
  CHECK(behind->ready().wait().ok());
  CHECK(first->ready().is_ready());  // it came earlier on the same stream
  client->close();
}
