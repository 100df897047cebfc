// Tables of drivers that a backend's author left something out of.
#include "gpu/box.hpp"
#include "gpu/driver.hpp"
#include "harness.hpp"

namespace devrt::gpu {

namespace {

int one(int* found) {
  *found = 1;
  return kSuccess;
}

/// A table with one function, over a library that is there.
class SparseDriver final : public Driver {
 public:
  explicit SparseDriver(Loader& loader) {
    call.driver_version = &one;
    loader.finish(*this, 0, "1.0", "Install a later one.");
  }
  std::string version_text() const override { return "1.0"; }
  const char* error_name(Result) const noexcept override { return nullptr; }
  const char* error_text(Result) const noexcept override { return nullptr; }
  Result get_current(Context*) const noexcept override { return kSuccess; }
  Result set_current(Context) const noexcept override { return kSuccess; }
  Result retain(DeviceNumber, Context*) const noexcept override { return kSuccess; }
  Result release(DeviceNumber) const noexcept override { return kSuccess; }
  Result enable_peer(DeviceNumber, Context) const noexcept override { return kSuccess; }
  Result copy_peer(void*, Context, const void*, Context, std::size_t,
                   StreamHandle*) const noexcept override {
    return kSuccess;
  }
  Result copy_box(const Box&, StreamHandle*) const noexcept override { return kSuccess; }
  Result suggest_block(FunctionHandle*, std::size_t, int*, int*) const noexcept override {
    return kSuccess;
  }
  Result launch_host(StreamHandle*, void (*)(void*), void*) const noexcept override {
    return kSuccess;
  }
  bool is_page_locked(const void*) const noexcept override { return false; }
  int device_at(const void*) const noexcept override { return -1; }
  native::AddressRange range_at(const void*) const noexcept override { return {}; }
  std::string architecture(DeviceNumber, int, int, const std::string&) const override { return ""; }
};

}  // namespace

TEST_CASE(gpu_table_that_lacks_functions_is_refused_with_their_names) {
  Loader loader({"libc.so.6"}, "load_driver");
  const Status status = harness::status_of([&] { const SparseDriver driver(loader); });
  const std::string& message = status.message();
  CHECK(status.code() == StatusCode::kInternal);
  CHECK(message.find(" has no init, device_count, ") != std::string::npos);
  CHECK(message.find("function_set_attribute") == std::string::npos);  // may be missing
}

}  // namespace devrt::gpu
