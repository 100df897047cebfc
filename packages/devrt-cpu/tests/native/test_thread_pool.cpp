#include <sys/wait.h>
#include <unistd.h>

#include "devrt/async/thread_pool.hpp"
#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

/// Returns whether each of `count` pieces ran once.
bool runs_each_once(ThreadPool& pool, std::size_t count) {
  std::vector<std::atomic<int>> runs(count);
  pool.run(count, [&](std::size_t i) { runs[i].fetch_add(1, std::memory_order_relaxed); });
  for (const auto& n : runs) {
    if (n.load(std::memory_order_relaxed) != 1) return false;
  }
  return true;
}

}  // namespace

TEST_CASE(pool_runs_each_piece_once) {
  for (const unsigned width : {0u, 1u, 2u, 5u}) {
    ThreadPool pool("test", width);
    CHECK(pool.width() == (width ? width : 1));
    for (const std::size_t count : {0ul, 1ul, 2ul, 3ul, 100ul}) CHECK(runs_each_once(pool, count));
  }
  CHECK(usable_processors() >= 1);
}

TEST_CASE(pool_pieces_run_at_the_same_time) {
  ThreadPool pool("test", 3);
  std::barrier together(3);
  pool.run(3, [&](std::size_t) { together.arrive_and_wait(); });
}

TEST_CASE(pool_serves_many_callers_while_it_is_closed) {
  for (int round = 0; round < 20; ++round) {
    ThreadPool pool("test", 3);
    std::atomic<int> failed{0};
    in_threads(
        3,
        [&](std::size_t) {
          for (std::size_t i = 0; i < 50; ++i) failed += !runs_each_once(pool, 1 + i % 9);
        },
        [&] {
          if (round % 2) pool.close();
        });
    pool.close();
    CHECK(failed == 0 && runs_each_once(pool, 7));
  }
}

TEST_CASE(pool_works_alone_in_a_forked_child) {
  ThreadPool pool("test", 2);
  CHECK(runs_each_once(pool, 8));
  const pid_t child = fork();
  if (child == 0) {
    const bool done = runs_each_once(pool, 8);
    pool.close();
    _exit(done ? 0 : 1);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
