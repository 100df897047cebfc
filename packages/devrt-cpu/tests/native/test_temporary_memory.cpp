// Temporary memory of programs: counted until their end, bounded by the client's limit.
#include <optional>

#include "fixtures.hpp"

using namespace devrt;
using namespace harness;
using native::Executable;

namespace {

constexpr std::int64_t kTaken = 4096;  // by each execution of a program called temporary...
constexpr std::int64_t kArray = 32;

std::shared_ptr<native::Client> limited_client(std::optional<std::int64_t> limit) {
  native::ClientOptions options;
  options.memory_limit = limit;
  return native::Client::make(std::move(options));
}

std::int64_t in_use(const native::Client& client) {
  return client.local_devices()[0]->stats()->bytes_in_use();
}

}  // namespace

TEST_CASE(temporary_memory_counts_until_the_program_has_ended) {
  const auto client = limited_client(std::nullopt);
  const Ref<native::Buffer> x = put(*client, 1);
  const Ref<Executable> temporary = compile(*client, "temporary");
  const Ref<native::Buffer> made = call(*temporary, *x);
  CHECK(client->local_devices()[0]->stats()->snapshot().peak_bytes_in_use == kTaken + 2 * kArray);
  CHECK(made->ready().wait().ok());
  CHECK(in_use(*client) == 2 * kArray);
  CHECK(client->temporaries().groups().empty());
  client->close();
}

TEST_CASE(temporary_memory_is_given_back_by_programs_that_fail) {
  const auto client = limited_client(3 * kTaken);
  const Ref<native::Buffer> x = put(*client, 1);
  const Ref<Executable> fails = compile(*client, "temporaryfail");
  const Ref<Executable> poison = compile(*client, "temporarypoison");
  for (int i = 0; i < 20; ++i) {
    CHECK(harness::status_of([&] { call(*fails, *x); }).code() == StatusCode::kInternal);
    CHECK(call(*poison, *x)->ready().wait().code() == StatusCode::kDataLoss);
  }
  CHECK(in_use(*client) == kArray && client->budget()->used() == kArray);
  client->close();
}

TEST_CASE(temporary_memory_that_cannot_be_had_is_refused_before_the_program_runs) {
  const auto client = limited_client(kTaken);
  const Ref<native::Buffer> x = put(*client, 1);
  const Ref<Executable> temporary = compile(*client, "temporary");
  const Status status = harness::status_of([&] { call(*temporary, *x); });
  CHECK(status.code() == StatusCode::kResourceExhausted);
  const MemoryReport* report = status.report();
  CHECK(report && report->program && report->requested == kTaken + kArray);
  CHECK(report->program->temporaries == kTaken && report->program->outputs == kArray);
  CHECK(report->program->arguments == kArray && report->program->devices == 1);
  CHECK(client->engine()->counters().executions == 0 && client->budget()->used() == kArray);
  client->close();
}

TEST_CASE(temporary_memory_is_waited_for_where_its_end_helps) {
  const auto use = std::make_shared<native::ProgramTemporaries>();
  use->all = std::make_shared<native::ClientTemporaries>();
  use->stats = std::make_shared<MemoryStats>(100);
  use->bytes = 60;
  const auto one = std::make_shared<ByteBudget>(100);
  ByteBudget other(100);
  native::ClientTemporaries& all = *use->all;
  std::optional<native::HeldTemporaries> held;
  const auto hold = [&] {
    CHECK(all.take(*one, 60, 60));
    held.emplace(use, BudgetShare(one, 60));
  };
  const auto never = [] { CHECK(false); };
  // What was lacking is there already, though no program holds any.
  CHECK(all.wait(*one, 40, never));
  hold();
  CHECK(all.wait(*one, 40, never));
  CHECK(one->take(30));
  CHECK(!all.wait(*one, 71, never));  // not even then
  CHECK(other.take(90));
  CHECK(!all.wait(other, 20, never));  // they hold nothing of that one
  int slices = 0;
  CHECK(all.wait(*one, 70, [&] {
    ++slices;
    held.reset();
  }));
  CHECK(slices == 1);
  one->give(30);
}

TEST_CASE(temporary_memory_is_waited_for_by_threads_under_a_limit) {
  const auto client = limited_client(2 * kTaken + 100 * kArray);
  const Ref<native::Buffer> x = put(*client, 1);
  const Ref<Executable> temporary = compile(*client, "temporary");
  in_threads(16, [&](std::size_t t) {
    for (int i = 0; i < 20; ++i) {
      CHECK((t % 4 ? call(*temporary, *x) : put(*client, 1))->ready().wait().ok());
    }
  });
  CHECK(client->local_devices()[0]->stats()->snapshot().peak_bytes_in_use <=
        2 * kTaken + 100 * kArray);
  client->close();
  CHECK(client->temporaries().groups().empty());
}
