// The driver of a vendor's GPUs: the functions that this client calls, by neutral names.
//
// A vendor's package fills the table from the vendor's library, and says in a few virtual functions
// what the vendors do differently. No vendor's header is needed to build it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/device_backend.hpp"
#include "devrt/base/status.hpp"

namespace devrt::gpu {

struct Box;

/// What a driver's function returns; 0 is success. The vendors number the ones used here alike.
using Result = int;
using DeviceNumber = int;
using Context = std::intptr_t;  ///< a context, or where the driver has none to speak of, a device
struct StreamHandle;
struct EventHandle;
struct PoolHandle;
struct ModuleHandle;
struct FunctionHandle;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kNotReady = 600;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;

/// How memory pools name their attributes; the same for both vendors.
enum class PoolAttribute : int {
  kReuseAllowInternalDependencies = 3,
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kUsedCurrent = 7,
};

/// Who may use the memory of a pool.
struct PoolAccess {
  int location_type = 1;  ///< a device
  int device = 0;
  int flags = 3;  ///< reads and writes
};

struct Uuid {
  unsigned char bytes[16];
};

/// The functions that have one form in both drivers.
struct Functions {
  Result (*init)(unsigned flags);
  Result (*driver_version)(int* version);
  Result (*device_count)(int* count);
  Result (*device_get)(DeviceNumber* device, int ordinal);
  Result (*device_name)(char* name, int length, DeviceNumber device);
  Result (*device_uuid)(Uuid* uuid, DeviceNumber device);
  Result (*device_attribute)(int* value, int attribute, DeviceNumber device);
  Result (*device_pci_bus_id)(char* id, int length, DeviceNumber device);
  Result (*device_total_memory)(std::size_t* bytes, DeviceNumber device);
  Result (*device_can_access_peer)(int* can, DeviceNumber device, DeviceNumber peer);
  Result (*device_default_pool)(PoolHandle** pool, DeviceNumber device);
  Result (*synchronize)();
  Result (*memory_info)(std::size_t* free, std::size_t* total);
  Result (*allocate)(void** data, std::size_t bytes);
  Result (*free)(void* data);
  Result (*allocate_from_pool)(void** data, std::size_t bytes, PoolHandle* pool, StreamHandle*);
  Result (*free_async)(void* data, StreamHandle* stream);
  Result (*pool_set_attribute)(PoolHandle* pool, PoolAttribute attribute, void* value);
  Result (*pool_get_attribute)(PoolHandle* pool, PoolAttribute attribute, void* value);
  Result (*pool_set_access)(PoolHandle* pool, const PoolAccess* access, std::size_t count);
  Result (*pool_trim)(PoolHandle* pool, std::size_t keep_bytes);
  Result (*host_allocate)(void** data, std::size_t bytes, unsigned flags);
  Result (*host_free)(void* data);
  Result (*allocate_managed)(void** data, std::size_t bytes, unsigned flags);
  Result (*copy_to_device)(void* to, const void* from, std::size_t bytes, StreamHandle* stream);
  Result (*copy_from_device)(void* to, const void* from, std::size_t bytes, StreamHandle* stream);
  Result (*copy_within)(void* to, const void* from, std::size_t bytes, StreamHandle* stream);
  Result (*set_bytes)(void* data, unsigned char value, std::size_t bytes, StreamHandle* stream);
  Result (*stream_create)(StreamHandle** stream, unsigned flags, int priority);
  Result (*stream_destroy)(StreamHandle* stream);
  Result (*stream_synchronize)(StreamHandle* stream);
  Result (*stream_query)(StreamHandle* stream);
  Result (*stream_wait_event)(StreamHandle* stream, EventHandle* event, unsigned flags);
  Result (*stream_is_capturing)(StreamHandle* stream, int* status);
  Result (*event_create)(EventHandle** event, unsigned flags);
  Result (*event_destroy)(EventHandle* event);
  Result (*event_record)(EventHandle* event, StreamHandle* stream);
  Result (*event_query)(EventHandle* event);
  Result (*event_synchronize)(EventHandle* event);
  Result (*module_load)(ModuleHandle** module, const void* image, unsigned num_options,
                        int* options, void** values);
  Result (*module_unload)(ModuleHandle* module);
  Result (*module_function)(FunctionHandle** function, ModuleHandle* module, const char* name);
  Result (*function_attribute)(int* value, int attribute, FunctionHandle* function);
  /// Null where a function needs no permission for large shared memory.
  Result (*function_set_attribute)(FunctionHandle* function, int attribute, int value);
  /// Null where the driver does not tell what parameters a function has.
  Result (*function_parameter)(FunctionHandle* function, std::size_t index, std::size_t* offset,
                               std::size_t* bytes);
  Result (*launch)(FunctionHandle* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   StreamHandle* stream, void** parameters, void** extra);
};

/// The attributes that limit a launch; those along x, y and z follow one another. -1 for none.
struct LaunchNumbers {
  int threads_of_block = -1;
  int first_of_block = -1;
  int first_of_grid = -1;
  int shared_bytes = -1;
  int shared_bytes_on_request = -1;  ///< with `function_set_attribute`
};

/// How a vendor numbers the attributes of its devices; -1 where it has none.
struct AttributeNumbers {
  int multiprocessors = -1;
  int clock_khz = -1;
  int memory_clock_khz = -1;
  int memory_bus_bits = -1;
  int l2_bytes = -1;
  int warp_size = -1;
  int major = -1;
  int minor = -1;
  int managed_memory = -1;
  int concurrent_managed = -1;  ///< the host may use it while the device works
  int memory_pools = -1;
  int numa_node = -1;
  LaunchNumbers launch;
};

/// The types of devices by which DLPack knows a vendor's memory: its extension's, and the host's,
/// where it has none for the vendor.
struct DlpackTypes {
  int device = 12;
  int pinned = 1;
  int managed = 12;
  /// What the vendor's protocols call the default stream.
  int default_stream = 0;
};

/// One library, loaded for the rest of the process.
class Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  Functions call{};
  AttributeNumbers attributes{};
  DlpackTypes dlpack{};
  std::string_view vendor;  ///< as XLA names it
  /// Whether a call that names a stream, an event or a kernel of a context that is not current does
  /// its work there all the same, or is refused and leaves no error behind but what
  /// `forget_refusal` takes away.
  bool names_contexts = false;

  const std::string& library() const noexcept { return library_; }
  int version() const noexcept { return version_; }

  virtual std::string version_text() const = 0;
  virtual const char* error_name(Result result) const noexcept = 0;
  virtual const char* error_text(Result result) const noexcept = 0;
  /// What work of this thread goes to: a context, or a device.
  virtual Result get_current(Context* current) const noexcept = 0;
  virtual Result set_current(Context current) const noexcept = 0;
  /// Has the driver forget that it refused a call for the context that was current. Others may ask
  /// it how its last call in this thread ended.
  virtual void forget_refusal() const noexcept {}
  virtual Result retain(DeviceNumber device, Context* context) const noexcept = 0;
  virtual Result release(DeviceNumber device) const noexcept = 0;
  /// Lets the current device reach the memory of another.
  virtual Result enable_peer(DeviceNumber peer, Context peer_context) const noexcept = 0;
  virtual Result copy_peer(void* to, Context to_context, const void* from, Context from_context,
                           std::size_t bytes, StreamHandle* stream) const noexcept = 0;
  /// Copies rows, or planes of rows, which the current device can reach: its own, those of peers,
  /// and page-locked ones.
  virtual Result copy_box(const Box& box, StreamHandle* stream) const noexcept = 0;
  /// Finds the size of block that keeps the current device busiest, and of the grid that fills it.
  virtual Result suggest_block(FunctionHandle* function, std::size_t shared_bytes, int* grid,
                               int* block) const noexcept = 0;
  /// Calls a function of the host in a stream's order; it must not call the driver.
  virtual Result launch_host(StreamHandle* stream, void (*function)(void*),
                             void* data) const noexcept = 0;
  /// Returns whether the driver knows the address as one of page-locked memory.
  virtual bool is_page_locked(const void* data) const noexcept = 0;
  /// Returns the number of the device that an address belongs to; -1 for the host's and unknown
  /// ones.
  virtual int device_at(const void* data) const noexcept = 0;
  /// Returns the allocation, or the reserved addresses, that an address lies in; no bytes where the
  /// driver does not tell.
  virtual native::AddressRange range_at(const void* data) const noexcept = 0;
  /// Returns what kernels are compiled for ("sm_90"); empty where the driver does not tell.
  virtual std::string architecture(DeviceNumber device, int major, int minor,
                                   const std::string& pci) const = 0;
  /// Returns a UUID as the vendor's tools write it: "GPU-" and groups of hexadecimal digits.
  virtual std::string uuid_text(const Uuid& uuid) const;
  /// Returns what XLA calls a device's capability.
  virtual std::string compute_capability(int major, int minor,
                                         const std::string& /*architecture*/) const {
    return major < 0 ? std::string() : std::to_string(major) + "." + std::to_string(minor);
  }

  /// Returns the error of a call; OK for success.
  Status status(Result result, const char* operation, const std::string& device = {}) const;
  /// Throws the error of a call.
  void check(Result result, const char* operation, const std::string& device = {}) const {
    if (result != kSuccess) [[unlikely]]
      raise_if_error(status(result, operation, device));
  }

 protected:
  friend class Loader;
  std::string library_;
  int version_ = 0;
};

/// Fills a table from a shared library; notes what it lacks.
class Loader {
 public:
  /// How a library gives its functions out; by dlsym if null.
  using Find = void* (*)(void* library, const char* name);

  /// Opens the first of the libraries that is there. Throws UNAVAILABLE with the loader's words.
  explicit Loader(const std::vector<std::string>& libraries, const char* operation);

  void* handle() const noexcept { return handle_; }
  const std::string& library() const noexcept { return library_; }
  void find_by(Find find) noexcept { find_ = find; }
  /// Returns a function's address, or null, which is not noted.
  void* look_up(const char* name) const noexcept;

  template <class Function>
  void get(Function*& slot, const char* name) {
    slot = reinterpret_cast<Function*>(look_up(name));
    if (!slot) missing_.emplace_back(name);
  }
  /// The same of a function that the client can do without; messages say that it is not there.
  template <class Function>
  void get_optional(Function*& slot, const char* name) {
    slot = reinterpret_cast<Function*>(look_up(name));
    if (!slot) absent_.emplace_back(name);
  }

  /// Starts the driver and reads its version. Throws FAILED_PRECONDITION that names the functions
  /// that are missing, or for a version below `floor`.
  void finish(Driver& driver, int floor, std::string_view floor_text,
              std::string_view remedy) const;

 private:
  void* handle_ = nullptr;
  std::string library_;
  const char* operation_;
  Find find_ = nullptr;
  std::vector<std::string> missing_;
  std::vector<std::string> absent_;
};

/// Loads a driver: that in `library`, or the vendor's own if it is empty. Defined by the backend.
std::unique_ptr<const Driver> open_driver(const std::string& library);
/// Returns the same, loaded once for the process.
const Driver& driver_in(const std::string& library);

/// Returns the loaded driver that knows an address as one of a device's; null if none does.
const Driver* driver_at(const void* data) noexcept;

/// Returns what devrt calls an error of a driver.
StatusCode code_of(Result result) noexcept;
/// Returns whether a device takes no more work after it.
bool is_lost(Result result) noexcept;
/// Returns whether a call was refused for the context that was current.
bool is_of_other_context(Result result) noexcept;

/// Makes a context current in this thread, and what was there again at its end.
///
/// Others in the process have their own idea of what is current, so it is looked at each time.
class Current {
 public:
  enum When {
    kAlways,
    /// Not within another one of it; nor where this thread had the context last, which is for calls
    /// that `GpuDevice::call` makes, since others may have changed it.
    kUnlessKnown
  };

  Current(const Driver& driver, Context context, When when = kAlways) noexcept : driver_(driver) {
    const bool is_known = held_ == context || (driver.names_contexts && known_ == context);
    if (when == kUnlessKnown && is_known) return;
    result_ = driver_.get_current(&before_);
    if (result_ != kSuccess) return;  // what was there could not be made current again
    if (before_ != context) {
      result_ = driver_.set_current(context);
      // A thread that had none keeps this one: the next call has less to do.
      is_changed_ = result_ == kSuccess && before_ != 0;
    }
    known_ = result_ == kSuccess ? context : 0;
    if (result_ == kSuccess) held_ = context;
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    held_ = outer_;
    if (!is_changed_) return;
    const bool is_restored = driver_.set_current(before_) == kSuccess;
    known_ = is_restored ? before_ : 0;
    if (!is_restored) held_ = -1;  // the outer one's is not current any more
  }
  Result result() const noexcept { return result_; }

 private:
  const Driver& driver_;
  Context before_ = 0;
  Result result_ = kSuccess;
  bool is_changed_ = false;
  const Context outer_ = held_;
  /// What the innermost of these in the thread has made current; -1 for none.
  static inline constinit thread_local Context held_ = -1;
  /// What the thread had last, as far as it is known here.
  static inline constinit thread_local Context known_ = 0;
};

}  // namespace devrt::gpu
