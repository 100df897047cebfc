// What the client leaves of calls that the runtime refused for the device that was current.
#include "gate.hpp"
#include "gpu_client.hpp"

extern "C" int hipGetLastError();

namespace devrt::gpu {

constexpr Context kFirst = 1;  // what the table calls device 0, each thread's own at first

TEST_CASE(rocm_a_refused_launch_leaves_no_error_to_others) {
  ok(driver().set_current(kFirst));
  const auto client = client_on("delay=0 devices=2 wrong_contexts=0");
  const auto function = kernel(*client, 0, "sum");
  const Ref<Buffer> x = put(*client, memory_of(*client), counting(8));
  (void)fetch(*client, *sum(*client, 0, function, *x, *x));  // this thread's device is known now
  Context other = 0;
  ok(driver().retain(1, &other));
  ok(driver().set_current(other));
  (void)hipGetLastError();
  const unsigned long long launches = devrt_simulator_count("hipModuleLaunchKernel");
  const Ref<Buffer> y = sum(*client, 0, function, *x, *x);
  CHECK(devrt_simulator_count("hipModuleLaunchKernel") - launches == 2);  // refused, made again
  CHECK(hipGetLastError() == 0);
  CHECK(fetch(*client, *y)[3] == 8);
  client->close();
  ok(driver().set_current(kFirst));
  check_no_reports();
}

TEST_CASE(rocm_a_client_leaves_the_current_device_of_a_thread) {
  const auto client = client_on("delay=0 devices=2");
  Context now = 0;
  ok(driver().get_current(&now));
  CHECK(now == kFirst);
  client->close();
}

}  // namespace devrt::gpu
