// What becomes of a client when its driver fails: at each call, one after the other.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <string_view>

#include "gpu_client.hpp"

namespace devrt::gpu {

namespace {

constexpr const char* kFunctions[] = {"cuInit",
                                      "cuDeviceGetCount",
                                      "cuDeviceGet",
                                      "cuDeviceGetName",
                                      "cuDeviceGetUuid",
                                      "cuDeviceGetAttribute",
                                      "cuDeviceGetPCIBusId",
                                      "cuDeviceTotalMem_v2",
                                      "cuDeviceCanAccessPeer",
                                      "cuDeviceGetDefaultMemPool",
                                      "cuDevicePrimaryCtxRetain",
                                      "cuDevicePrimaryCtxRelease_v2",
                                      "cuCtxSetCurrent",
                                      "cuCtxGetCurrent",
                                      "cuCtxEnablePeerAccess",
                                      "cuMemGetInfo_v2",
                                      "cuMemAlloc_v2",
                                      "cuMemFree_v2",
                                      "cuMemAllocFromPoolAsync",
                                      "cuMemFreeAsync",
                                      "cuMemPoolSetAttribute",
                                      "cuMemPoolGetAttribute",
                                      "cuMemPoolSetAccess",
                                      "cuMemPoolTrimTo",
                                      "cuMemHostAlloc",
                                      "cuMemFreeHost",
                                      "cuPointerGetAttributes",
                                      "cuMemcpyHtoDAsync_v2",
                                      "cuMemcpyDtoHAsync_v2",
                                      "cuMemcpyDtoDAsync_v2",
                                      "cuMemcpyPeerAsync",
                                      "cuMemcpy3DAsync_v2",
                                      "cuStreamCreateWithPriority",
                                      "cuStreamDestroy_v2",
                                      "cuStreamSynchronize",
                                      "cuStreamQuery",
                                      "cuStreamWaitEvent",
                                      "cuEventCreate",
                                      "cuEventDestroy_v2",
                                      "cuEventRecord",
                                      "cuEventQuery",
                                      "cuEventSynchronize",
                                      "cuModuleLoadDataEx",
                                      "cuModuleUnload",
                                      "cuModuleGetFunction",
                                      "cuFuncGetAttribute",
                                      "cuFuncSetAttribute",
                                      "cuFuncGetParamInfo",
                                      "cuLaunchKernel"};

/// What gives something back: where it fails, that one stays.
bool gives_back(std::string_view function) {
  static constexpr std::string_view kGiving[] = {"cuMemFree_v2",
                                                 "cuMemFreeAsync",
                                                 "cuMemFreeHost",
                                                 "cuStreamDestroy_v2",
                                                 "cuEventDestroy_v2",
                                                 "cuModuleUnload",
                                                 "cuDevicePrimaryCtxRelease_v2"};
  return std::ranges::find(kGiving, function) != std::end(kGiving);
}

/// Runs a part of a scenario. Throws unless it succeeds or fails as a typed error; returns whether
/// it did.
bool attempt(const std::function<void()>& part) {
  try {
    part();
    return true;
  } catch (const StatusError& error) {
    const Status& status = error.status();
    CHECK(!status.ok() && !status.message().empty() && !status.operation().empty());
    return false;
  }
}

void move_between(Client& client, std::size_t device) {
  const std::vector<float> values = counting(kCount);
  const Ref<Buffer> here = put(client, memory_of(client, device), values);
  const Ref<Buffer> there = client.copy(*here, memory_of(client, 1 - device), false, 1);
  const Ref<Buffer> pinned = client.copy(*there, memory_of(client, device, "pinned_host"), false);
  const Ref<Buffer> host = client.copy(*here, memory_of(client, device, "unpinned_host"), false);
  CHECK(fetch(client, *pinned) == values);
  CHECK(fetch(client, *host) == values);
  const Ref<Buffer> back = client.copy(*pinned, memory_of(client, device), false, 2);
  CHECK(fetch(client, *back) == values);
}

void cut_boxes(Client& client, std::size_t device) {
  const std::vector<float> values = counting(64);  // 16 rows of 4
  const Ref<Buffer> rows = put(client, memory_of(client, device), values);
  // The source has one dimension, so the block's four columns of one row are one run each.
  const std::vector<std::int64_t> numbers = {1, 1, 1, 1, 8, 0, 2, 0, 8, 0, 4, 0, 32, 4, 4};
  for (Memory* target :
       {&memory_of(client, 1 - device), &memory_of(client, device, "unpinned_host")}) {
    const Ref<Buffer> made = assemble(client, {rows.get()}, *target, numbers);
    CHECK(fetch(client, *made) == (std::vector<float>{9, 10, 11, 12, 33, 34, 35, 36}));
  }
}

void cut_columns(Client& client, std::size_t device) {
  const std::vector<float> values = counting(64);
  const std::int64_t shape[] = {16, 4}, strides[] = {16, 4};
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  ExternalOwner none;  // the values are read before the call returns
  const Ref<Buffer> rows = client.put(
      memory_of(client, device), {{data, shape, strides, 4, 1}, ElementType::kFloat32}, none, {});
  const std::vector<std::int64_t> numbers = {2, 1, 1, 1, 16, 2, 0, 1, 0, 0, 1, 0, 0, 16, 2};
  for (Memory* target :
       {&memory_of(client, 1 - device), &memory_of(client, device, "unpinned_host")}) {
    const std::vector<float> made =
        fetch(client, *assemble(client, {rows.get()}, *target, numbers));
    CHECK(made.size() == 32 && made[0] == 2 && made[1] == 3 && made[31] == 63);
  }
}

void launch_on(Client& client, std::size_t device) {
  const std::vector<float> values = counting(kCount);
  const Ref<Buffer> x = put(client, memory_of(client, device), values);
  const auto function = kernel(client, device, "sum");
  const Ref<Buffer> twice = sum(client, device, function, *x, *x);
  const Ref<Buffer> thrice = sum(client, device, function, *twice, *x, 3);
  const std::vector<float> came = fetch(client, *thrice);
  CHECK(came[0] == 3 && came[kCount - 1] == 3 * values[kCount - 1]);
}

/// Uses both devices; returns whether all of it succeeded on each.
std::array<bool, 2> use(Client& client) {
  std::array<bool, 2> worked{true, true};
  for (std::size_t device = 0; device < 2; ++device) {
    for (const auto part : {&move_between, &cut_boxes, &cut_columns, &launch_on}) {
      worked[device] &= attempt([&] { part(client, device); });
    }
  }
  return worked;
}

void run(const std::vector<pjrt::Option>& options) {
  std::shared_ptr<Client> client;
  if (!attempt([&] { client = Client::make(options_with(options)); })) return;
  (void)use(*client);
  client->close();
}

std::string scenario(const char* function, std::uint64_t call, const char* code) {
  return std::string("devices=2 delay=0 fail=") + function + ":" + std::to_string(call) + ":" +
         code;
}

void check_gave_all_back(const std::string& about) {
  const std::string living = devrt_simulator_living();
  const bool is_empty = living.find(
                            "device=0 managed=0 pinned=0 registered=0 streams=0 "
                            "events=0 modules=0 communicators=0 contexts=0") == 0;
  if (!is_empty) throw std::runtime_error(about + ": " + living);
}

/// Takes and gives back memory of a device that is not the first.
void allocate_of_each_kind(const std::vector<pjrt::Option>& options) {
  const auto client = Client::make(options_with(options));
  for (const char* const kind : {"device", "pinned_host", "managed"}) {
    (void)attempt([&] { (void)memory_of(*client, 1, kind).allocate(4 * kMiB); });
  }
  client->close();
}

/// Fails each call of a function in turn, or where there are many, some of them.
void fail_each_call(const char* function, std::uint64_t count, const char* code,
                    const std::vector<pjrt::Option>& options) {
  const auto most = static_cast<std::uint64_t>(std::min(seeds(2), 50));
  const std::uint64_t step = (count + most - 1) / most;
  for (std::uint64_t call = 1; call <= count; call += step) {
    const std::string settings = scenario(function, call, code);
    configure(settings);
    try {
      run(options);
    } catch (const std::exception& error) {
      throw std::runtime_error(settings + ": " + error.what());
    }
    check_no_reports(settings);
    if (!gives_back(function)) check_gave_all_back(settings);
  }
}

void fail_every_function(const char* allocator, const char* code) {
  const std::vector<pjrt::Option> options{{"allocator", std::string(allocator)}};
  configure("devices=2 delay=0");
  const auto client = Client::make(options_with(options));
  const std::array<bool, 2> worked = use(*client);
  CHECK(worked[0] && worked[1]);
  client->close();
  check_no_reports();
  std::vector<std::pair<const char*, std::uint64_t>> counts;
  for (const char* function : kFunctions) {
    counts.emplace_back(function, devrt_simulator_count(function));
  }
  for (const auto& [function, count] : counts) {
    fail_each_call(function, count, code, options);
  }
}

/// Work that fails after so many looks at it.
class FailingEvent final : public EventSource {
 public:
  explicit FailingEvent(int looks) : looks_(looks) {}
  std::optional<Status> query() noexcept override {
    if (looks_-- > 0) return std::nullopt;
    return Status(StatusCode::kInternal, "bus");
  }
  std::optional<Status> wait_for(std::chrono::nanoseconds) noexcept override {
    looks_ = 0;
    return query();
  }
  void notify(UniqueFunction<void(const Status&)> ended) override { ended(*wait_for({})); }

 private:
  std::atomic<int> looks_;
};

}  // namespace

TEST_CASE(gpu_work_does_not_begin_on_what_fails_while_it_is_looked_at) {
  for (int looks = 0; looks < 5; ++looks) {
    const auto client = client_on("devices=2 delay=0");
    Memory& memory = memory_of(*client);
    const std::int64_t count = 4;
    const Ref<Buffer> source =
        Buffer::make(memory.shared(), ElementType::kFloat32, Dims({&count, 1}), memory.allocate(16),
                     ReadyEvent::of(std::make_shared<FailingEvent>(looks)));
    const auto function = kernel(*client, 0, "sum");
    const Ref<Buffer> result = sum(*client, 0, function, *source, *source);
    CHECK(result->ready().wait().message() == "bus");
    CHECK(devrt_simulator_count("cuLaunchKernel") == 0);
    client->close();
  }
}

TEST_CASE(gpu_call_that_fails_is_a_typed_error_and_leaks_nothing) {
  fail_every_function("cuda_async", "unknown");
}

TEST_CASE(gpu_call_that_finds_no_memory_is_a_typed_error_and_leaks_nothing) {
  fail_every_function("bfc", "out_of_memory");
}

TEST_CASE(gpu_whose_pools_are_unknown_is_not_taken_for_one_without_them) {
  const std::vector<pjrt::Option> options{{"allocator", std::string("cuda_async")}};
  std::uint64_t call = 0;
  do {
    const std::string settings = scenario("cuDeviceGetAttribute", ++call, "unknown");
    configure(settings);
    run(options);
    check_no_reports(settings);
  } while (devrt_simulator_count("cuDeviceGetAttribute") >= call);
}

TEST_CASE(gpu_context_that_could_not_be_restored_is_not_taken_for_current) {
  configure(scenario("cuCtxSetCurrent", 3, "unknown"));
  const Driver& driver = driver_in(SIMULATOR);
  CHECK(driver.call.init(0) == kSuccess);
  Context first = 0, second = 0, now = 0;
  CHECK(driver.retain(0, &first) == kSuccess && driver.retain(1, &second) == kSuccess);
  // In a thread that knows no context yet.
  std::async(std::launch::async, [&] {
    const Current outer(driver, first);
    {
      const Current inner(driver, second);
    }
    const Current again(driver, first, Current::kUnlessKnown);
    (void)driver.get_current(&now);
  }).get();
  CHECK(now == first);
}

TEST_CASE(gpu_memory_is_given_back_where_its_context_cannot_be_made_current) {
  for (const char* const allocator : {"cuda_async", "bfc", "platform"}) {
    for (const char* const function : {"cuCtxGetCurrent", "cuCtxSetCurrent"}) {
      std::uint64_t call = 0;
      do {
        const std::string settings = scenario(function, ++call, "unknown");
        configure(settings);
        const auto part = [&] { allocate_of_each_kind({{"allocator", std::string(allocator)}}); };
        // In a thread that knows no context yet: so each run makes the same calls.
        std::async(std::launch::async, [&] { (void)attempt(part); }).get();
        check_gave_all_back(std::string(allocator) + " " + settings);
      } while (devrt_simulator_count(function) >= call);
    }
  }
}

TEST_CASE(gpu_that_is_lost_midway_leaves_the_others_at_work) {
  for (int operation = 1; operation < 40; operation += 3) {
    const std::string settings = "devices=2 delay=0 lose=0:" + std::to_string(operation);
    configure(settings);
    const auto client = Client::make(options_with());
    CHECK(!use(*client)[0]);
    const std::vector<float> values = counting(kCount);
    CHECK(fetch(*client, *put(*client, memory_of(*client, 1), values)) == values);
    const Status status =
        harness::status_of([&] { (void)put(*client, memory_of(*client), values)->ready().wait(); });
    CHECK(status.code() == StatusCode::kDataLoss && status.device() == "cuda:0");
    client->close();
    check_no_reports(settings);
  }
}

}  // namespace devrt::gpu
