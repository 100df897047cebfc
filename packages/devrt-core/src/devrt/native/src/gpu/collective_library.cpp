#include "gpu/collective_library.hpp"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

namespace devrt::gpu {

namespace {

constexpr const char* kOpening = "collectives";
/// The first that has averages and bfloat16.
constexpr int kLeastVersion = 21000;
constexpr const char* kLeastText = "2.10";
/// Versions before 2.9 had another form.
constexpr int kFirstLong = 10000;
/// The result of a rank whose peer, in another process, is gone.
constexpr Result kRemoteError{6};

StatusCode status_code(Result result) {
  constexpr Result kInvalidArgument = 4;
  if (result == kInvalidArgument) return StatusCode::kInvalidArgument;
  return result == kRemoteError ? StatusCode::kUnavailable : StatusCode::kInternal;
}

}  // namespace

CollectiveLibrary::CollectiveLibrary(const native::CollectiveSource& source) : source_(source) {
  handle_ = dlopen(source_.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) {
    const char* words = dlerror();
    throw StatusError(
        Status(StatusCode::kUnavailable, "The library for collectives cannot be loaded: " +
                                             std::string(words ? words : source_.library) + ".")
            .during(kOpening));
  }
  get(call.version, "GetVersion");
  get(call.error_text, "GetErrorString");
  get(call.connect_all, "CommInitAll");
  get(call.make_id, "GetUniqueId");
  get(call.connect_rank, "CommInitRank");
  get(call.destroy, "CommDestroy");
  get(call.abort, "CommAbort");
  get(call.async_error, "CommGetAsyncError");
  get(call.group_start, "GroupStart");
  get(call.group_end, "GroupEnd");
  get(call.all_reduce, "AllReduce");
  get(call.reduce_scatter, "ReduceScatter");
  get(call.all_gather, "AllGather");
  get(call.broadcast, "Broadcast");
  get(call.send, "Send");
  get(call.receive, "Recv");
  check_complete();
}

template <class Function>
void CollectiveLibrary::get(Function*& slot, const char* name) {
  const std::string whole = source_.prefix + name;
  slot = reinterpret_cast<Function*>(dlsym(handle_, whole.c_str()));
  if (!slot) missing_ += (missing_.empty() ? "" : ", ") + whole;
}

void CollectiveLibrary::check_complete() {
  // The version first: an older library lacks functions because it is older.
  if (call.version) (void)call.version(&version_);
  const std::string which = "The library for collectives " + source_.library;
  if (call.version && version_ < kLeastVersion) {
    throw StatusError(Status(StatusCode::kFailedPrecondition,
                             which + " is of version " + version_text() + ", and " + kLeastText +
                                 " is the least that devrt works with. Install a later one.")
                          .during(kOpening));
  }
  if (!missing_.empty()) {
    throw StatusError(Status(StatusCode::kFailedPrecondition,
                             which + " lacks " + missing_ + ". Install another version of it.")
                          .during(kOpening));
  }
}

std::string CollectiveLibrary::version_text() const {
  const int unit = version_ < kFirstLong ? 1000 : kFirstLong;
  return std::to_string(version_ / unit) + "." + std::to_string(version_ % unit / 100) + "." +
         std::to_string(version_ % 100);
}

std::string CollectiveLibrary::new_id() const {
  GroupId id{};
  check(call.make_id(&id), kOpening);
  return {id.bytes, sizeof(id.bytes)};
}

Status CollectiveLibrary::status(Result result, const char* operation) const {
  if (result == kSuccess) return {};
  const char* words = call.error_text(result);
  return Status(status_code(result), std::string(operation) + " failed in " + source_.library +
                                         " " + version_text() + ": " + (words ? words : "error") +
                                         " (" + std::to_string(result) + ").")
      .because(result == kRemoteError ? Reason::kPeer : Reason::kNone)
      .during(operation);
}

const CollectiveLibrary& collective_library(const native::CollectiveSource& source) {
  static std::mutex mutex;
  // Never closed: its threads may run until the process ends.
  static auto& loaded = *new std::map<std::string, std::unique_ptr<const CollectiveLibrary>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<const CollectiveLibrary>& found = loaded[source.library];
  if (!found) found = std::make_unique<const CollectiveLibrary>(source);
  return *found;
}

}  // namespace devrt::gpu
