#include "gpu/other_stream.hpp"

#include <string>

#include "gpu/engine.hpp"

namespace devrt::gpu {

namespace {

// Handles that stand for streams that nobody makes or destroys; those of threads differ by thread.
constexpr std::intptr_t kDefault = 0;
constexpr std::intptr_t kLegacy = 1;
constexpr std::intptr_t kOfThread = 2;

// Below it nothing has an address: such a handle would be followed to where nothing is.
constexpr std::intptr_t kLeastHandle = 4096;
constexpr Result kInvalidHandle = 400;

std::intptr_t number_of(const StreamHandle* handle) {
  return reinterpret_cast<std::intptr_t>(handle);
}

}  // namespace

StreamHandle* handle_of(const GpuDevice& device, std::optional<std::intptr_t> number,
                        native::StreamProtocol protocol) {
  const std::intptr_t usual = device.driver().dlpack.default_stream;
  std::intptr_t chosen = number.value_or(usual);
  // Where the default stream is 0, the interface of arrays may still call it 1, as elsewhere.
  const bool has_null_default = usual == kDefault;
  if (has_null_default && chosen == kLegacy &&
      protocol == native::StreamProtocol::kArrayInterface) {
    chosen = kDefault;
  }
  const bool is_allowed =
      chosen >= kLeastHandle || chosen == usual || (!has_null_default && chosen == kOfThread);
  if (!is_allowed) {
    throw StatusError(Status(StatusCode::kInvalidArgument,
                             "The stream " + std::to_string(chosen) + " is none of " +
                                 device.name() + "'s: the default stream is " +
                                 std::to_string(usual) +
                                 (has_null_default ? "" : ", that of the thread 2") +
                                 ", and -1 asks for no order. Pass another stream's handle as it "
                                 "is.")
                          .during("exchange")
                          .on(device.name()));
  }
  return reinterpret_cast<StreamHandle*>(chosen);
}

bool ForeignStream::is_capturing() const noexcept {
  int status = 0;
  // Queried even for the default stream: what is given to it would end the captures of others.
  return device_->driver().call.stream_is_capturing(handle_, &status) != kSuccess || status != 0;
}

bool ForeignStream::wait(const ReadyEvent& event) {
  if (!event.source()) return false;
  Dependencies dependencies;
  device_->add_dependencies(event, dependencies);
  if (!dependencies.empty()) return false;  // nobody would tell the other library of a failure
  const Current current(device_->driver(), device_->context());
  check_handle(
      "It was destroyed, or is no stream's handle. Pass that of the stream that is to wait.");
  if (is_capturing()) return false;  // a graph must not wait for an event from outside
  return order_stream(device_->driver(), handle_, event);
}

ReadyEvent ForeignStream::record() {
  const Current current(device_->driver(), device_->context());
  device_->check(current.result(), "set_current");
  check_handle(
      "The array's owner gives it: it was destroyed, or is no stream's handle. Have the "
      "owner give the handle of the stream that fills the array.");
  return device_->record_other(handle_);
}

void ForeignStream::check_handle(const char* remedy) const {
  const Driver& driver = device_->driver();
  int status = 0;
  const Result result = driver.call.stream_is_capturing(handle_, &status);
  if (result == kSuccess) return;
  if (result != kInvalidHandle) return device_->check(result, "stream_is_capturing");
  const char* name = driver.error_name(result);
  throw StatusError(
      Status(StatusCode::kInvalidArgument, "The stream " + std::to_string(number_of(handle_)) +
                                               " is none of " + device_->name() + "'s (" +
                                               (name ? name : "an invalid handle") + "). " + remedy)
          .during("exchange")
          .on(device_->name()));
}

bool ForeignStream::is_there() const noexcept {
  const std::intptr_t number = number_of(handle_);
  if (number == kOfThread) return thread_ == std::this_thread::get_id();
  return is_kept_ || number <= kLegacy;
}

ReadyEvent ForeignStream::record_if_there() noexcept {
  if (device_->is_forked() || !is_there()) return {};
  try {
    const Current current(device_->driver(), device_->context());
    return is_capturing() ? ReadyEvent() : device_->record_other(handle_);
  } catch (...) {
    return {};  // the device is lost, or no event can be had
  }
}

}  // namespace devrt::gpu
