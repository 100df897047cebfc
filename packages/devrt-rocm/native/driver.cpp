// The driver of AMD's GPUs: HIP's runtime, from 5.2 on.
#include <dlfcn.h>

#include <array>

#include "gpu/backend.hpp"
#include "gpu/box.hpp"
#include "gpu/engine.hpp"
#include "kfd.hpp"

namespace devrt::gpu {

namespace {

constexpr int kFloor = 50200000;   // HIP 5.2
constexpr int kByAddresses = 4;    // a copy's direction is what the addresses say
constexpr int kDeviceOrdinal = 9;  // an attribute of a pointer, in all versions

/// What hipStreamAddCallback calls, given on to what hipLaunchHostFunc would call.
struct HostCall {
  void (*function)(void*);
  void* data;
};

void call_host(StreamHandle*, Result, void* given) {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(given));
  call->function(call->data);
}

class HipDriver final : public Driver {
 public:
  explicit HipDriver(Loader& from) {
    attributes = {.multiprocessors = 63,
                  .clock_khz = 5,
                  .memory_clock_khz = 60,
                  .memory_bus_bits = 59,
                  .l2_bytes = 19,
                  .warp_size = 87,
                  .major = 23,
                  .minor = 61,
                  .managed_memory = 24,
                  .concurrent_managed = 9,
                  .memory_pools = 88,
                  .numa_node = -1,
                  .launch = {.threads_of_block = 56,
                             .first_of_block = 26,
                             .first_of_grid = 29,
                             .shared_bytes = 74,
                             .shared_bytes_on_request = -1}};
    // Copies, records and waits go by the stream. So does a launch, but for runtimes that refuse a
    // stream of another device than the current one.
    names_contexts = true;
    vendor = "Advanced Micro Devices, Inc";
    dlpack = {.device = 10, .pinned = 11, .managed = 11, .default_stream = 0};
    fill_devices(from);
    fill_memory(from);
    fill_work(from);
    from.get_optional(launch_host_, "hipLaunchHostFunc");
    from.get(last_error_, "hipGetLastError");
    // Needed for arrays whose interface does not say which device they are on.
    from.get_optional(pointer_attribute_, "hipPointerGetAttribute");
    from.get_optional(properties_, "hipGetDevicePropertiesR0600");
    from.get_optional(address_range_, "hipMemGetAddressRange");
    if (!launch_host_) from.get(add_callback_, "hipStreamAddCallback");
    from.finish(*this, kFloor, "HIP 5.2", "Install a later ROCm: https://rocm.docs.amd.com");
  }

  std::string version_text() const override {
    return "HIP " + std::to_string(version() / 10000000) + "." +
           std::to_string(version() / 100000 % 100);
  }
  const char* error_name(Result result) const noexcept override { return error_name_(result); }
  const char* error_text(Result result) const noexcept override { return error_text_(result); }
  Result get_current(Context* current) const noexcept override {
    DeviceNumber device = 0;
    const Result result = get_device_(&device);
    *current = context_of(device);
    return result;
  }
  Result set_current(Context current) const noexcept override {
    return set_device_(device_of(current));
  }
  /// HIP keeps the last error of a thread until it is read.
  void forget_refusal() const noexcept override { (void)last_error_(); }
  Result retain(DeviceNumber device, Context* context) const noexcept override {
    *context = context_of(device);
    return Current(*this, *context).result();  // HIP makes what it needs with the first call
  }
  Result release(DeviceNumber) const noexcept override { return kSuccess; }
  Result enable_peer(DeviceNumber peer, Context) const noexcept override {
    return enable_peer_(peer, 0);
  }
  Result copy_peer(void* to, Context to_context, const void* from, Context from_context,
                   std::size_t bytes, StreamHandle* stream) const noexcept override {
    return copy_peer_(to, device_of(to_context), from, device_of(from_context), bytes, stream);
  }
  Result copy_box(const Box& box, StreamHandle* stream) const noexcept override {
    Result result = kSuccess;
    for (std::size_t z = 0; z < box.depth && result == kSuccess; ++z) {
      result = copy_2d_(box.to.at(z, 0), box.to.pitch, box.from.at(z, 0), box.from.pitch, box.width,
                        box.height, kByAddresses, stream);
    }
    return result;
  }
  Result suggest_block(FunctionHandle* function, std::size_t shared_bytes, int* grid,
                       int* block) const noexcept override {
    return suggest_block_(grid, block, function, shared_bytes, 0);
  }
  Result launch_host(StreamHandle* stream, void (*function)(void*),
                     void* data) const noexcept override {
    if (launch_host_) return launch_host_(stream, function, data);
    auto given = std::unique_ptr<HostCall>(new (std::nothrow) HostCall{function, data});
    if (!given) return kOutOfMemory;
    const Result result = add_callback_(stream, &call_host, given.get(), 0);
    if (result == kSuccess) (void)given.release();  // the callback has it now
    return result;
  }
  bool is_page_locked(const void* data) const noexcept override {
    // The attributes of pointers have other numbers in other versions.
    void* device = nullptr;
    return host_device_pointer_(&device, const_cast<void*>(data), 0) == kSuccess;
  }
  int device_at(const void* data) const noexcept override {
    int ordinal = -1;
    const Result result =
        pointer_attribute_ ? pointer_attribute_(&ordinal, kDeviceOrdinal, const_cast<void*>(data))
                           : kNoDevice;
    return result == kSuccess ? ordinal : -1;
  }
  native::AddressRange range_at(const void* data) const noexcept override {
    // The attribute of pointers has 32 bits for it.
    void* begin = nullptr;
    std::size_t bytes = 0;
    const Result result =
        address_range_ ? address_range_(&begin, &bytes, const_cast<void*>(data)) : kNoDevice;
    if (result != kSuccess) return {};
    return {reinterpret_cast<std::uintptr_t>(begin), bytes};
  }
  std::string architecture(DeviceNumber device, int, int, const std::string& pci) const override;
  /// HIP's 16 bytes are digits already, or end early where the device has no number of its own.
  std::string uuid_text(const Uuid& uuid) const override {
    const std::string digits(reinterpret_cast<const char*>(uuid.bytes), sizeof uuid.bytes);
    return digits.find('\0') == std::string::npos ? "GPU-" + digits : std::string();
  }
  std::string compute_capability(int major, int minor,
                                 const std::string& architecture) const override {
    return architecture.empty() ? Driver::compute_capability(major, minor, architecture)
                                : architecture;
  }

 private:
  // A context is the device's number and 1: 0 is none, and HIP always has a current device.
  static Context context_of(DeviceNumber device) noexcept { return device + 1; }
  static DeviceNumber device_of(Context context) noexcept {
    return static_cast<DeviceNumber>(context - 1);
  }

  void fill_devices(Loader& from) {
    from.get(call.init, "hipInit");
    from.get(call.driver_version, "hipDriverGetVersion");
    from.get(error_name_, "hipGetErrorName");
    from.get(error_text_, "hipGetErrorString");
    from.get(call.device_count, "hipGetDeviceCount");
    from.get(call.device_get, "hipDeviceGet");
    from.get(call.device_name, "hipDeviceGetName");
    from.get(call.device_uuid, "hipDeviceGetUuid");
    from.get(call.device_attribute, "hipDeviceGetAttribute");
    from.get(call.device_pci_bus_id, "hipDeviceGetPCIBusId");
    from.get(call.device_total_memory, "hipDeviceTotalMem");
    from.get(call.device_can_access_peer, "hipDeviceCanAccessPeer");
    from.get(call.device_default_pool, "hipDeviceGetDefaultMemPool");
    from.get(set_device_, "hipSetDevice");
    from.get(get_device_, "hipGetDevice");
    from.get(call.synchronize, "hipDeviceSynchronize");
    from.get(enable_peer_, "hipDeviceEnablePeerAccess");
  }

  void fill_memory(Loader& from) {
    from.get(call.memory_info, "hipMemGetInfo");
    from.get(call.allocate, "hipMalloc");
    from.get(call.free, "hipFree");
    from.get(call.allocate_from_pool, "hipMallocFromPoolAsync");
    from.get(call.free_async, "hipFreeAsync");
    from.get(call.pool_set_attribute, "hipMemPoolSetAttribute");
    from.get(call.pool_get_attribute, "hipMemPoolGetAttribute");
    from.get(call.pool_set_access, "hipMemPoolSetAccess");
    from.get(call.pool_trim, "hipMemPoolTrimTo");
    from.get(call.host_allocate, "hipHostMalloc");
    from.get(call.host_free, "hipHostFree");
    from.get(host_device_pointer_, "hipHostGetDevicePointer");
    from.get(call.allocate_managed, "hipMallocManaged");
  }

  void fill_work(Loader& from) {
    from.get(call.copy_to_device, "hipMemcpyHtoDAsync");
    from.get(call.copy_from_device, "hipMemcpyDtoHAsync");
    from.get(call.copy_within, "hipMemcpyDtoDAsync");
    from.get(copy_peer_, "hipMemcpyPeerAsync");
    from.get(copy_2d_, "hipMemcpy2DAsync");
    from.get(call.set_bytes, "hipMemsetD8Async");
    from.get(call.stream_create, "hipStreamCreateWithPriority");
    from.get(call.stream_destroy, "hipStreamDestroy");
    from.get(call.stream_synchronize, "hipStreamSynchronize");
    from.get(call.stream_query, "hipStreamQuery");
    from.get(call.stream_wait_event, "hipStreamWaitEvent");
    from.get(call.stream_is_capturing, "hipStreamIsCapturing");
    from.get(call.event_create, "hipEventCreateWithFlags");
    from.get(call.event_destroy, "hipEventDestroy");
    from.get(call.event_record, "hipEventRecord");
    from.get(call.event_query, "hipEventQuery");
    from.get(call.event_synchronize, "hipEventSynchronize");
    from.get(call.module_load, "hipModuleLoadDataEx");
    from.get(call.module_unload, "hipModuleUnload");
    from.get(call.module_function, "hipModuleGetFunction");
    from.get(call.function_attribute, "hipFuncGetAttribute");
    from.get(call.launch, "hipModuleLaunchKernel");
    from.get(suggest_block_, "hipModuleOccupancyMaxPotentialBlockSize");
  }

  const char* (*error_name_)(Result) = nullptr;
  const char* (*error_text_)(Result) = nullptr;
  Result (*set_device_)(DeviceNumber) = nullptr;
  Result (*get_device_)(DeviceNumber*) = nullptr;
  Result (*last_error_)() = nullptr;
  Result (*enable_peer_)(DeviceNumber, unsigned) = nullptr;
  Result (*copy_peer_)(void*, int, const void*, int, std::size_t, StreamHandle*) = nullptr;
  Result (*copy_2d_)(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, int,
                     StreamHandle*) = nullptr;
  Result (*launch_host_)(StreamHandle*, void (*)(void*), void*) = nullptr;
  Result (*host_device_pointer_)(void**, void*, unsigned) = nullptr;
  Result (*pointer_attribute_)(void*, int, void*) = nullptr;
  Result (*properties_)(void*, int) = nullptr;
  Result (*address_range_)(void**, std::size_t*, void*) = nullptr;
  Result (*suggest_block_)(int*, int*, FunctionHandle*, std::size_t, int) = nullptr;
  Result (*add_callback_)(StreamHandle*, void (*)(StreamHandle*, Result, void*), void*,
                          unsigned) = nullptr;
};

/// The struct that the runtime of ROCm 6 and 7 fills, of which only the name matters here: it is
/// followed by features, as in gfx90a:sramecc+:xnack-.
struct alignas(std::size_t) Properties {
  std::array<char, 1160> before;
  std::array<char, 256> architecture;
  std::array<char, 56> after;
};
static_assert(sizeof(Properties) == 1472);

/// ROCm 5 has another struct.
std::string HipDriver::architecture(DeviceNumber device, int, int, const std::string& pci) const {
  Properties properties{};
  if (properties_ && properties_(&properties, device) == kSuccess) {
    const std::string name(properties.architecture.data());
    if (!name.empty()) return name.substr(0, name.find(':'));
  }
  return kfd_architecture(kKfdNodes, pci);
}

}  // namespace

std::unique_ptr<const Driver> open_driver(const std::string& library) {
  std::vector<std::string> names{library};
  if (library.empty()) names = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
  Loader loader(names, "load_driver");
  return std::make_unique<HipDriver>(loader);
}

}  // namespace devrt::gpu

namespace devrt::native {

namespace {

/// The plugin takes no pool on ROCm: its memory and the client's come from two.
std::vector<pjrt::Option> engine_options(std::span<const DeviceFacts> devices,
                                         const ClientOptions& given) {
  return gpu::engine_options(devices, given, "");
}

}  // namespace

const Platform& platform() {
  static const Platform rocm{
      .name = "rocm",
      .engine = gpu::engine_policy("rocm", "ROCM",
                                   "Install a later one: pip install --upgrade jax-rocm7-pjrt.",
                                   &engine_options)};
  return rocm;
}

std::shared_ptr<DeviceBackend> make_backend(const ClientOptions& options) {
  return gpu::make_gpu_backend(options);
}

}  // namespace devrt::native
