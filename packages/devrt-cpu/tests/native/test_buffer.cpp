#include "devrt/buffers/buffer.hpp"

#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

struct FakeMemory {
  using Live = LiveRegistry<Buffer<FakeMemory>>;
  Live& registry() noexcept { return live; }
  bool is_forked() const noexcept { return false; }
  Live live;
};

Ref<Buffer<FakeMemory>> make(const std::shared_ptr<FakeMemory>& memory, std::atomic<int>& released,
                             ReadyEvent ready = {}) {
  static std::byte data[16];
  return Buffer<FakeMemory>::make(memory, ElementType::kInt32, Dims{4},
                                  Storage::lend(data, 16, counted(released)), std::move(ready));
}

}  // namespace

TEST_CASE(buffer_is_listed_until_removed) {
  auto memory = std::make_shared<FakeMemory>();
  std::atomic<int> released{0};
  Ref<Buffer<FakeMemory>> buffer = make(memory, released);
  CHECK(memory->live.size() == 1 && buffer->bytes() == 16 && buffer->shape()[0] == 4);
  Ref<Storage> view = buffer->storage();
  buffer->remove();
  buffer->remove();
  CHECK(buffer->is_deleted() && !buffer->storage());
  CHECK(memory->live.size() == 0 && released == 0);
  view.reset();
  CHECK(released == 1);
}

TEST_CASE(buffer_collected_is_not_listed) {
  auto memory = std::make_shared<FakeMemory>();
  std::atomic<int> released{0};
  make(memory, released).reset();
  CHECK(memory->live.size() == 0 && released == 1);
}

TEST_CASE(buffer_of_a_closed_client_is_refused) {
  auto memory = std::make_shared<FakeMemory>();
  memory->live.close();
  std::atomic<int> released{0};
  const Status status = harness::status_of([&] { make(memory, released); });
  CHECK(status.reason() == Reason::kClosed && released == 1);
}

TEST_CASE(buffer_carries_the_error_of_its_event) {
  auto memory = std::make_shared<FakeMemory>();
  std::atomic<int> released{0};
  ReadyPromise promise;
  const auto buffer = make(memory, released, promise.event());
  CHECK(!buffer->ready().is_ready());
  promise.set(Status(StatusCode::kInternal, "broken"));
  CHECK(buffer->ready().error().message() == "broken");
}
