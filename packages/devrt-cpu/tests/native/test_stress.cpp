#include <algorithm>
#include <random>

#include "devrt/memory/arena_allocator.hpp"
#include "devrt/memory/memory_report.hpp"
#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

constexpr std::size_t kThreads = 16;
constexpr int kOperations = 400;
constexpr std::int64_t kLimit = std::int64_t{4} << 20;

/// One thread's work: puts, copies, reads, deletes; out of memory is an answer like any other.
class Worker {
 public:
  Worker(native::Client& client, unsigned seed, std::atomic<int>& refused)
      : client_(client), random_(seed), refused_(refused), host_(1 << 16) {}

  void run() {
    for (int i = 0; i < kOperations; ++i) {
      try {
        step();
      } catch (const StatusError& error) {
        CHECK(error.status().code() == StatusCode::kResourceExhausted);
        CHECK(error.status().report() != nullptr);
        ++refused_;
      }
      CHECK(client_.budget()->used() <= static_cast<std::size_t>(kLimit));
    }
  }

 private:
  native::Memory& memory() {
    const auto devices = client_.devices();
    const auto memories = devices[random_() % devices.size()]->memories();
    return *memories[random_() % memories.size()];
  }

  void step() {
    switch (held_.size() < 4 ? 0 : random_() % 4) {
      case 0:
        return put();
      case 1:
        held_.push_back(client_.copy(*any(), memory(), random_() % 2 == 0));
        return;
      case 2:
        return read(*any());
      default:
        any()->remove();
        held_.erase(std::remove_if(held_.begin(), held_.end(),
                                   [](const auto& buffer) { return buffer->is_deleted(); }),
                    held_.end());
    }
  }

  void put() {
    const auto count = static_cast<std::int64_t>(1 + random_() % host_.size());
    const auto value = static_cast<std::int32_t>(count);
    std::fill_n(host_.begin(), count, value);
    const std::int64_t stride = 4;
    ExternalOwner none;
    held_.push_back(client_.put(
        memory(),
        {{reinterpret_cast<const std::byte*>(host_.data()), {&count, 1}, {&stride, 1}, 4, 1},
         ElementType::kInt32},
        none, {}));
  }

  void read(const native::Buffer& buffer) {
    CHECK(buffer.ready().wait().ok());
    const Ref<Storage> storage = client_.storage_of(buffer, "read");
    const auto* data = reinterpret_cast<const std::int32_t*>(storage->data());
    const auto count = storage->bytes() / 4;
    CHECK(data[0] == static_cast<std::int32_t>(count) && data[count - 1] == data[0]);
  }

  Ref<native::Buffer>& any() { return held_[random_() % held_.size()]; }

  native::Client& client_;
  std::mt19937 random_;
  std::atomic<int>& refused_;
  std::vector<std::int32_t> host_;
  std::vector<Ref<native::Buffer>> held_;
};

}  // namespace

TEST_CASE(stress_leaves_counts_of_exactly_zero) {
  native::ClientOptions options;
  options.num_devices = 2;
  options.memory_limit = kLimit;
  options.recycled_bytes = 1 << 20;
  const auto faulty = std::make_shared<CountingAllocator>(
      std::make_shared<ArenaAllocator>(std::make_shared<AlignedAllocator>(),
                                       ArenaOptions{std::size_t{1} << 20}),
      7);
  options.added_kinds.push_back({"faulty", faulty});
  const auto client = native::Client::make(std::move(options));
  std::atomic<int> refused{0};
  in_threads(kThreads,
             [&](std::size_t t) { Worker(*client, static_cast<unsigned>(t), refused).run(); });
  CHECK(refused > 0 && faulty->failures > 0);
  client->close();
  CHECK(client->registry().size() == 0 && client->budget()->used() == 0);
  for (const auto& device : client->devices()) {
    const MemorySnapshot stats = device->stats()->snapshot();
    CHECK(stats.bytes_in_use == 0 && stats.bytes_reserved == 0);
    CHECK(stats.peak_bytes_in_use <= kLimit && stats.num_allocs > 0);
  }
}
