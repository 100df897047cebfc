// What callers and machines may get wrong: each is an error with a code, an operation and, where it
// is of one, a device.
#include <functional>

#include "gpu_client.hpp"

namespace devrt::gpu {

namespace {

void check_error(const char* about, const std::function<void()>& action, StatusCode code,
                 const char* operation, const char* device, const char* words) {
  const Status status = harness::status_of(action);
  const bool is_right = status.code() == code && status.operation() == operation &&
                        status.device() == device &&
                        status.message().find(words) != std::string::npos;
  if (is_right) return;
  throw std::runtime_error(std::string(about) + " gave code " +
                           std::to_string(static_cast<int>(status.code())) + ", operation '" +
                           status.operation() + "', device '" + status.device() +
                           "': " + status.message());
}

void make(const std::string& settings, const char* allowed = nullptr) {
  std::vector<pjrt::Option> own;
  if (allowed) own.emplace_back("allowed_devices", std::string(allowed));
  (void)client_on(settings, std::move(own));
}

/// Loads the driver anew, as the first client of a process does.
void open_with(const std::string& settings) {
  configure(settings);
  (void)open_driver(SIMULATOR);
}

using enum StatusCode;
constexpr char kLoad[] = "load_driver", kMake[] = "make_gpu_client", kLaunch[] = "launch",
               kCompile[] = "compile";

}  // namespace

TEST_CASE(gpu_driver_names_every_function_that_it_lacks) {
  (void)devrt_simulator_configure("missing=cuMemPoolTrimTo missing=cuLaunchHostFunc");
  const Status status = harness::status_of([] { (void)open_driver(SIMULATOR); });
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("lacks cuMemPoolTrimTo, cuLaunchHostFunc.") != std::string::npos);
  CHECK(status.message().find(SIMULATOR) != std::string::npos);
}

TEST_CASE(gpu_driver_that_is_too_old_is_refused_with_both_versions) {
  (void)devrt_simulator_configure("driver_version=11080");
  const Status status = harness::status_of([] { (void)open_driver(SIMULATOR); });
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("CUDA 11.8") != std::string::npos);
  CHECK(status.message().find("CUDA 12.0") != std::string::npos);
}

TEST_CASE(gpu_clients_that_cannot_be_made) {
  check_error(
      "no driver", [] { (void)open_driver("/no/such.so"); }, kUnavailable, kLoad, "",
      "/no/such.so");
  check_error(
      "an old driver", [] { open_with("driver_version=11080"); }, kFailedPrecondition, kLoad, "",
      "CUDA 11.8");
  check_error(
      "a driver without a function", [] { open_with("missing=cuMemPoolTrimTo"); },
      kFailedPrecondition, kLoad, "", "cuMemPoolTrimTo");
  check_error("no device", [] { open_with("devices=0"); }, kUnavailable, kLoad, "", "no device");
  check_error(
      "a number out of range", [] { make("devices=2", "2"); }, kInvalidArgument, kMake, "",
      "device 2");
  check_error(
      "a number that is none", [] { make("devices=2", "one"); }, kInvalidArgument, kMake, "",
      "'one'");
  check_error(
      "none that is allowed", [] { make("devices=2", ","); }, kInvalidArgument, kMake, "",
      "none of the 2 devices");
  check_error(
      "a pool where there is none",
      [] { (void)client_on("pools=0", {{"allocator", std::string("cuda_async")}}); },
      kUnimplemented, kMake, "cuda:0", "bfc");
}

TEST_CASE(gpu_launches_that_cannot_be) {
  const auto client = client_on("devices=2");
  Device& device = *client->local_devices()[0];
  const auto fill = kernel(*client, 0, "fill");
  const Ref<Buffer> here = put(*client, memory_of(*client), counting(8));
  const Ref<Buffer> there = put(*client, memory_of(*client, 1), counting(8));
  const auto launch = [&](const Buffer* array, LaunchShape shape, std::size_t parameters = 2) {
    std::vector<KernelArgument> arguments;
    arguments.emplace_back(array);
    while (arguments.size() < parameters) arguments.emplace_back(scalar(32));
    (void)launch_kernel(device, fill, shape, arguments, 0);
  };
  const auto refused = [&](const char* about, const std::function<void()>& action,
                           const char* words) {
    check_error(about, action, kInvalidArgument, kLaunch, "cuda:0", words);
  };
  refused("another device's array", [&] { launch(there.get(), {}); }, "cuda:1");
  refused("an empty grid", [&] { launch(here.get(), {.grid = {0, 1, 1}}); }, "grid.x");
  refused("too many threads", [&] { launch(here.get(), {.block = {64, 64, 1}}); }, "threads");
  refused(
      "too much shared memory", [&] { launch(here.get(), {.shared_bytes = 1U << 30}); },
      "shared_bytes");
  refused("a parameter too many", [&] { launch(here.get(), {}, 3); }, "2 parameters");
  check_error(
      "a kernel that is not there", [&] { (void)kernel(*client, 0, "none"); }, kNotFound,
      "function", "cuda:0", "'none'");
  check_error(
      "no image", [&] { (void)load_kernels(*client, device, "no image"); }, kInvalidArgument,
      kCompile, "cuda:0", "compile failed");
  raise_if_error(here->ready().wait());
  raise_if_error(there->ready().wait());
  client->close();
  check_error(
      "a closed client", [&] { launch(here.get(), {}); }, kFailedPrecondition, kLaunch, "",
      "closed");
  check_no_reports();
}

TEST_CASE(gpu_errors_after_which_a_device_takes_no_more_work) {
  for (const Result lost : {700, 702, 710, 714, 715, 716, 717, 718, 719}) CHECK(is_lost(lost));
  // Too many peers, and memory that is page-locked already or is not: refused, and no more.
  for (const Result refused : {0, 2, 46, 704, 709, 711, 712, 713, 720}) CHECK(!is_lost(refused));
}

TEST_CASE(gpu_errors_of_the_driver_s_have_the_code_of_their_cause) {
  for (const Result program : {218, 222}) CHECK(code_of(program) == kInvalidArgument);
  for (const Result machine : {34, 35, 221, 223}) CHECK(code_of(machine) == kFailedPrecondition);
  for (const Result busy : {46, 100, 802, 804}) CHECK(code_of(busy) == kUnavailable);
}

TEST_CASE(gpu_memory_and_devices_that_are_gone) {
  const auto client = client_on("devices=2 memory=67108864");
  const std::vector<float> values = counting(1000);
  const Ref<Buffer> good = put(*client, memory_of(*client, 1), values);
  const Ref<Buffer> lost = put(*client, memory_of(*client), values);
  CHECK(fetch(*client, *lost) == values);
  check_error(
      "full memory", [&] { (void)memory_of(*client).allocate(std::size_t{128} << 20); },
      kResourceExhausted, "allocate", "cuda:0", "out of memory");
  devrt_simulator_lose(0);
  check_error(
      "a lost device", [&] { (void)fetch(*client, *lost); }, kDataLoss, "copy_from_device",
      "cuda:0", "client without it");
  for (const auto& action : std::vector<std::function<void()>>{
           [&] { raise_if_error(put(*client, memory_of(*client), values)->ready().wait()); },
           [&] { (void)kernel(*client, 0, "fill"); }}) {
    check_error("what follows", action, kDataLoss, "use", "cuda:0", "client without it");
  }
  CHECK(fetch(*client, *good) == values);  // the other goes on
  CHECK(fetch(*client, *put(*client, memory_of(*client, 1), values)) == values);
  client->close();
}

}  // namespace devrt::gpu
