// Status values and the one exception that native code throws.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace devrt {

/// Status codes as absl, gRPC and the PJRT C API number them.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// A finer cause within a code; maps to the `reason` of `devrt.errors.from_status`.
enum class Reason { kNone, kDeleted, kClosed, kType, kForked, kPeer, kInterface };

/// Returns the name that `devrt.errors.from_status` knows the reason by.
constexpr const char* reason_name(Reason reason) noexcept {
  switch (reason) {
    case Reason::kDeleted:
      return "deleted";
    case Reason::kClosed:
      return "closed";
    case Reason::kType:
      return "type";
    case Reason::kForked:
      return "forked";
    case Reason::kPeer:
      return "peer";
    case Reason::kInterface:
      return "interface";
    case Reason::kNone:
      break;
  }
  return "";
}

struct MemoryReport;  // memory_report.hpp

/// An outcome: OK (one null pointer), or a code and the facts; cheap to copy, immutable once
/// shared.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message) : detail_(std::make_shared<Detail>()) {
    detail_->code = code;
    detail_->message = std::move(message);
  }

  /// Sets the reason, while the status is still a temporary.
  Status&& because(Reason reason) && {
    if (detail_) detail_->reason = reason;
    return std::move(*this);
  }
  /// Names what was being done, while the status is still a temporary.
  Status&& during(std::string operation) && {
    if (detail_) detail_->operation = std::move(operation);
    return std::move(*this);
  }
  /// Names the device it happened on, while the status is still a temporary.
  Status&& on(std::string device) && {
    if (detail_) detail_->device = std::move(device);
    return std::move(*this);
  }

  /// Adds what lives in a memory that is full, while the status is still a temporary.
  Status&& with(std::shared_ptr<const MemoryReport> report) && {
    if (detail_) detail_->report = std::move(report);
    return std::move(*this);
  }

  /// Returns the same error in other words.
  Status reworded(std::string message) const {
    Status other(code(), std::move(message));
    return std::move(other).because(reason()).during(operation()).on(device()).with(facts().report);
  }

  bool ok() const noexcept { return !detail_; }
  StatusCode code() const noexcept { return detail_ ? detail_->code : StatusCode::kOk; }
  Reason reason() const noexcept { return detail_ ? detail_->reason : Reason::kNone; }
  const std::string& message() const noexcept { return facts().message; }
  const std::string& operation() const noexcept { return facts().operation; }
  const std::string& device() const noexcept { return facts().device; }
  /// Returns what lives in the memory that was full, or null.
  const MemoryReport* report() const noexcept { return facts().report.get(); }

 private:
  struct Detail {
    StatusCode code = StatusCode::kOk;
    Reason reason = Reason::kNone;
    std::string message;
    std::string operation;
    std::string device;
    std::shared_ptr<const MemoryReport> report;
  };

  const Detail& facts() const noexcept {
    static const Detail empty;
    return detail_ ? *detail_ : empty;
  }

  std::shared_ptr<Detail> detail_;
};

/// The exception that carries a status; the language binding translates it in exactly one place.
class __attribute__((visibility("default"))) StatusError : public std::exception {
 public:
  explicit StatusError(Status status) noexcept : status_(std::move(status)) {}
  const Status& status() const noexcept { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

/// Throws the status if it is an error.
inline void raise_if_error(Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}

/// Throws INVALID_ARGUMENT with `message`.
[[noreturn]] inline void raise_invalid(std::string message, std::string operation = {},
                                       std::string device = {}) {
  throw StatusError(Status(StatusCode::kInvalidArgument, std::move(message))
                        .during(std::move(operation))
                        .on(std::move(device)));
}

}  // namespace devrt
