#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "devrt/async/ready_event.hpp"
#include "devrt/async/work_queue.hpp"
#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

TEST_CASE(queue_runs_in_order) {
  std::vector<int> order;
  {
    WorkQueue queue("order", 4);
    for (int i = 0; i < 100; ++i) queue.enqueue([&order, i] { order.push_back(i); });
    queue.close(WorkQueue::OnClose::kDrain);
  }
  CHECK(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE(queue_blocks_when_full) {
  WorkQueue queue("full", 2);
  ReadyPromise gate;
  std::atomic<int> enqueued{0};
  queue.enqueue([event = gate.event()] { (void)event.wait(); });
  std::jthread producer([&] {
    for (int i = 0; i < 8; ++i) {
      queue.enqueue([] {});
      ++enqueued;
    }
  });
  while (enqueued < 2) std::this_thread::yield();
  CHECK(queue.pending() <= 2);
  gate.set();
  producer.join();
  CHECK(enqueued == 8);
  queue.close(WorkQueue::OnClose::kDrain);
  CHECK(queue.pending() == 0);
}

TEST_CASE(queue_cancel_drops_what_has_not_started) {
  WorkQueue queue("cancel", 8);
  ReadyPromise gate;
  ReadyPromise started;
  ReadyPromise dropped;
  const ReadyEvent outcome = dropped.event();
  queue.enqueue([event = gate.event(), &started] {
    started.set();
    (void)event.wait();
  });
  queue.enqueue([promise = std::move(dropped)]() mutable { promise.set(); });
  (void)started.event().wait();
  std::jthread closer([&] { queue.close(WorkQueue::OnClose::kCancel); });
  CHECK(outcome.wait().code() == StatusCode::kCancelled);
  gate.set();
}

TEST_CASE(queue_closed_takes_no_more) {
  WorkQueue queue("closed", 1);
  queue.close(WorkQueue::OnClose::kDrain);
  queue.close(WorkQueue::OnClose::kCancel);
  CHECK(harness::status_of([&] { queue.enqueue([] {}); }).reason() == Reason::kClosed);
}

TEST_CASE(queue_survives_its_last_owner_dying_in_a_task) {
  for (int round = 0; round < 50; ++round) {
    ReadyPromise done;
    const ReadyEvent event = done.event();
    auto queue = std::make_shared<WorkQueue>("suicide", 4);
    WorkQueue& alias = *queue;
    alias.enqueue([owner = std::move(queue), done = std::move(done)]() mutable {
      owner.reset();
      done.set();
    });
    CHECK(event.wait().ok());
  }
}

TEST_CASE(queue_takes_work_from_many_threads) {
  std::atomic<int> ran{0};
  WorkQueue queue("many", 4);
  in_threads(4, [&](std::size_t) {
    for (int i = 0; i < 250; ++i) queue.enqueue([&] { ++ran; });
  });
  queue.close(WorkQueue::OnClose::kDrain);
  CHECK(ran == 1000);
}

#if !defined(__SANITIZE_THREAD__)  // TSan forbids threads in a child of a threaded process
TEST_CASE(queue_is_refused_in_a_forked_child) {
  WorkQueue queue("fork", 4);
  queue.enqueue([] {});
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    try {
      queue.enqueue([] {});
    } catch (const StatusError& error) {
      refused = error.status().code() == StatusCode::kFailedPrecondition;
    }
    queue.close(WorkQueue::OnClose::kDrain);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif

TEST_CASE(queue_drain_waits_for_what_is_there_and_what_it_owns) {
  WorkQueue queue("drain", 8);
  ReadyPromise gate;
  std::atomic<bool> freed{false};
  std::shared_ptr<int> owned(new int(0), [&freed](int* value) {
    freed = true;
    delete value;
  });
  queue.enqueue([event = gate.event(), kept = std::move(owned)] { (void)event.wait(); });
  std::jthread opener([&gate] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.set();
  });
  queue.drain();
  CHECK(freed);
  CHECK(queue.is_idle());
  queue.drain();  // at once
}

TEST_CASE(queue_drain_in_a_task_does_not_wait_for_itself) {
  for (int round = 0; round < 100; ++round) {  // before, while and after the queue is closed
    WorkQueue queue("itself", 8);
    queue.enqueue([&queue] { queue.drain(); });
    queue.close(WorkQueue::OnClose::kDrain);
    queue.drain();
  }
}

TEST_CASE(queue_drain_ends_when_the_tasks_are_dropped) {
  WorkQueue queue("dropped", 8);
  ReadyPromise gate;
  ReadyPromise started;
  queue.enqueue([event = gate.event(), &started] {
    started.set();
    (void)event.wait();
  });
  for (int i = 0; i < 3; ++i) queue.enqueue([] {});
  (void)started.event().wait();
  std::jthread waiter([&queue] { queue.drain(); });
  queue.cancel();
  gate.set();
  waiter.join();
  CHECK(queue.pending() == 0);
}
