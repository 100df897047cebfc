// Launches, and memory that is shared with other libraries: what waits for what. The client is
// never reported; with a fault planted in it, it is under each seed. Gates hold streams back until
// the host has given all of the work, so that a wait that is missing, or one of the host's, is
// seen.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "client/external.hpp"
#include "driver_api.hpp"
#include "faulty_backend.hpp"
#include "gate.hpp"

namespace devrt::gpu {

namespace {

constexpr std::size_t kBytes = kCount * sizeof(float);

std::shared_ptr<Client> faulty_client(Fault fault, int seed) {
  // Without links: peers may use each other's memory.
  configure("devices=2 links=0 delay=150 seed=" + std::to_string(seed));
  ClientOptions options = options_with();
  options.backend = std::make_shared<FaultyBackend>(make_gpu_backend(options), fault);
  return Client::make(std::move(options));
}

/// Waits up to a second for what another thread does.
template <class Condition>
void await_soon(const Condition& condition) {
  for (int i = 0; i < 10'000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Returns the stream of copies to device 0.
::Stream copying_stream(const Client& client) {
  return reinterpret_cast<::Stream>(
      *client.backend().stream_handle({0, native::Lane::kToDevice, 0}));
}

/// Returns an array to copy to a device. It has to outlive the copy also where a fault is planted
/// that frees too early: the memory would be gone for this process.
Ref<Buffer> page_locked(Client& client) {
  Ref<Buffer> made = put(client, memory_of(client, 0, "pinned_host"), counting(kCount));
  raise_if_error(made->ready().wait());
  // As long as the thread that filled it is there, it begins the copy, too, maybe behind the gate.
  await_soon([&] { return client.local_devices()[0]->queue().is_idle(); });
  return made;
}

/// Another library: the context of device 0, a stream, and memory of its own.
struct Library {
  Library() {
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    ok(cuStreamCreateWithPriority(&stream, 1, 0));
    ok(cuMemAlloc_v2(&memory, kBytes));
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    (void)cuCtxSetCurrent(context);
    (void)cuStreamSynchronize(stream);
    (void)cuMemFree_v2(memory);
    (void)cuStreamDestroy_v2(stream);
    (void)cuCtxSetCurrent(nullptr);
    (void)cuDevicePrimaryCtxRelease_v2(0);
  }
  std::shared_ptr<OtherStream> seen_by(const Client& client) const {
    return client.backend().other_stream(0, reinterpret_cast<std::intptr_t>(stream),
                                         StreamProtocol::kDlpack, true);
  }

  ::Context context = nullptr;
  ::Stream stream = nullptr;
  ::Pointer memory = 0;
};

void launch(Client& client, bool keeps) {
  const auto function = kernel(client, 0, "sum");
  const Ref<Buffer> pinned = page_locked(client);
  Gate gate(copying_stream(client));  // its end waits for the stream
  Ref<Buffer> x = client.copy(*pinned, memory_of(client), false);
  Ref<Buffer> y = sum(client, 0, function, *x, *x);
  if (!keeps) x.reset();  // its memory stays until the launch has ended
  const Ref<Buffer> z = sum(client, 0, function, *y, *y, 2);
  y.reset();
  gate.open();
  CHECK(fetch(client, *z) == [] {
    std::vector<float> values = counting(kCount);
    for (float& value : values) value *= 4;
    return values;
  }());
}

void launch_on_kept(Client& client) { launch(client, true); }
void launch_on_freed(Client& client) { launch(client, false); }

/// Returns how many allocations of device memory there are: "device=2 managed=...".
int living_allocations() { return std::atoi(std::strchr(devrt_simulator_living(), '=') + 1); }

void import(Client& client) {
  const Library library;
  Gate gate(library.stream);
  ok(cuMemsetD8Async(library.memory, 1, kBytes, library.stream));
  const auto count = static_cast<std::int64_t>(kCount);
  const std::int64_t stride = sizeof(float);
  External external;
  external.array.type = ElementType::kFloat32;
  external.array.view = {reinterpret_cast<const std::byte*>(library.memory),
                         {&count, 1},
                         {&stride, 1},
                         sizeof(float),
                         1};
  external.ready = library.seen_by(client)->record();
  const Ref<Buffer> seen = client.take_over(memory_of(client), std::move(external), 0);
  const Ref<Buffer> there = client.copy(*seen, memory_of(client, 1), false);
  gate.open();
  const std::vector<float> came = fetch(client, *there);
  CHECK(came.front() == came.back() && came.front() != 0);
  raise_if_error(seen->ready().wait());
}

void lend(Client& client) {
  const Library library;
  const Ref<Buffer> pinned = page_locked(client);
  Gate gate(copying_stream(client));
  Ref<Buffer> x = client.copy(*pinned, memory_of(client), false);
  const std::shared_ptr<OtherStream> consumer = library.seen_by(client);
  CHECK(consumer->wait(x->ready()));
  ok(cuCtxSetCurrent(library.context));
  const auto address = reinterpret_cast<::Pointer>(x->storage()->data());
  ok(cuMemcpyDtoDAsync_v2(library.memory, address, kBytes, library.stream));
  x->storage()->used_until(consumer->record_if_there());
  const int before = living_allocations();
  x.reset();
  gate.open();
  // Another thread may free it. Not after the library's end, which waits for its stream.
  await_soon([&] { return living_allocations() != before; });
  // What is put now may get the same memory.
  (void)fetch(client, *put(client, memory_of(client), counting(kCount)));
}

std::string reports_of(void (*scenario)(Client&), Fault fault, int seed) {
  {
    const auto client = faulty_client(fault, seed);
    try {
      scenario(*client);
    } catch (const StatusError&) {  // the device may be lost by then
      if (fault == Fault::kNone) throw;
    } catch (const std::runtime_error&) {  // values may be wrong
      if (fault == Fault::kNone) throw;
    }
    client->close();
  }
  return devrt_simulator_reports(1);
}

bool has_line(const std::string& reports, std::initializer_list<const char*> words) {
  for (std::size_t begin = 0; begin < reports.size();) {
    const std::size_t end = reports.find('\n', begin);
    const std::string line = reports.substr(begin, end - begin);
    const auto has = [&](const char* word) { return line.find(word) != std::string::npos; };
    if (std::all_of(words.begin(), words.end(), has)) return true;
    begin = end + 1;
  }
  return false;
}

struct Planted {
  void (*scenario)(Client&);
  Fault fault;
  std::initializer_list<const char*> words;  ///< of one line of the reports
};

void check(const Planted& planted) {
  for (int seed = 0; seed < seeds(5); ++seed) {
    const std::string about = "seed " + std::to_string(seed) + ": ";
    const std::string right = reports_of(planted.scenario, Fault::kNone, seed);
    if (!right.empty()) throw std::runtime_error(about + "reported without a fault: " + right);
    const std::string wrong = reports_of(planted.scenario, planted.fault, seed);
    if (!has_line(wrong, planted.words)) throw std::runtime_error(about + "not found: " + wrong);
  }
}

}  // namespace

TEST_CASE(gpu_launch_without_a_wait_for_its_arrays_is_found) {
  // A race with the copy; about once in 1,000 the kernels end before it began: reads of memory that
  // nothing wrote.
  check({&launch_on_kept, Fault::kNoWait, {"cuLaunchKernel"}});
}

TEST_CASE(gpu_memory_that_is_freed_before_a_launch_has_ended_is_found) {
  check({&launch_on_freed, Fault::kEndsAtOnce, {"free", "cuLaunchKernel", "cuMemFreeAsync"}});
}

TEST_CASE(gpu_launch_on_the_wrong_device_is_found) {
  check({&launch_on_kept, Fault::kOtherDevice, {"cuLaunchKernel", "no access"}});
}

TEST_CASE(gpu_array_that_another_library_reads_too_early_is_found) {
  check({&lend, Fault::kConsumerFirst, {"race", "cuMemcpyDtoDAsync", "cuMemcpyHtoDAsync"}});
}

TEST_CASE(gpu_array_of_another_library_that_is_read_too_early_is_found) {
  check({&import, Fault::kProducerLast, {"race", "cuMemcpyPeerAsync", "cuMemsetD8Async"}});
}

TEST_CASE(gpu_memory_that_is_freed_while_another_library_reads_it_is_found) {
  check({&lend, Fault::kUnseenUse, {"free while in use", "cuMemFreeAsync", "cuMemcpyDtoDAsync"}});
}

}  // namespace devrt::gpu
