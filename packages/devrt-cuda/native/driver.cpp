// The driver of NVIDIA's GPUs: libcuda.so.1, as CUDA 12.0 declares it.
#include <dlfcn.h>

#include "gpu/backend.hpp"
#include "gpu/box.hpp"
#include "gpu/engine.hpp"

namespace devrt::gpu {

namespace {

/// The ABI that every function is requested in, and the least version that has them all.
constexpr int kAbi = 12000;
constexpr unsigned kMemoryType = 2;     // an attribute of a pointer
constexpr int kHost = 1;                // its value
constexpr unsigned kDevice = 2;         // another
constexpr unsigned kDeviceOrdinal = 9;  // an attribute
constexpr unsigned kRangeBegin = 11;    // another
constexpr unsigned kRangeBytes = 12;    // another

using GetProcAddress = Result (*)(const char* name, void** function, int version,
                                  std::uint64_t flags, int* found);

void* find(void* library, const char* name) {
  static constexpr char kName[] = "cuGetProcAddress_v2";
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, kName));
  void* function = nullptr;
  int found = 0;
  return get && get(name, &function, kAbi, 0, &found) == kSuccess ? function : nullptr;
}

/// What cuMemcpy3DAsync takes for each side.
struct Side3D {
  std::size_t x = 0, y = 0, z = 0, level = 0;
  int memory_type = 0;  ///< 1: the host's, 2: a device's
  const void* host = nullptr;
  const void* device = nullptr;
  void* array = nullptr;
  void* reserved = nullptr;
  std::size_t pitch = 0, height = 0;
};

struct Copy3D {
  Side3D from, to;
  std::size_t width = 0, height = 0, depth = 0;
};

template <class Byte>
Side3D side_3d(const BoxSide<Byte>& side) noexcept {
  Side3D made;
  made.memory_type = side.is_host ? 1 : 2;
  (side.is_host ? made.host : made.device) = side.data;
  made.pitch = side.pitch;
  made.height = side.rows;
  return made;
}

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(Loader& from) {
    names_contexts = true;
    attributes = {.multiprocessors = 16,
                  .clock_khz = 13,
                  .memory_clock_khz = 36,
                  .memory_bus_bits = 37,
                  .l2_bytes = 38,
                  .warp_size = 10,
                  .major = 75,
                  .minor = 76,
                  .managed_memory = 83,
                  .concurrent_managed = 89,
                  .memory_pools = 115,
                  .numa_node = 134,
                  .launch = {.threads_of_block = 1,
                             .first_of_block = 2,
                             .first_of_grid = 5,
                             .shared_bytes = 8,
                             .shared_bytes_on_request = 97}};
    vendor = "NVIDIA Corporation";
    dlpack = {.device = 2, .pinned = 3, .managed = 13, .default_stream = 1};
    from.find_by(&find);
    fill_devices(from);
    fill_memory(from);
    fill_work(from);
    if (!dlsym(from.handle(), "cuGetProcAddress_v2")) {
      // Without it nothing is found, and a driver before CUDA 12 has another version of it.
      call.driver_version = reinterpret_cast<decltype(call.driver_version)>(
          dlsym(from.handle(), "cuDriverGetVersion"));
    }
    from.finish(*this, kAbi, "CUDA 12.0 (driver 525)",
                "Install a later driver: https://www.nvidia.com/drivers");
  }

  std::string version_text() const override {
    return "CUDA " + std::to_string(version() / 1000) + "." + std::to_string(version() % 1000 / 10);
  }
  const char* error_name(Result result) const noexcept override {
    const char* words = nullptr;
    return error_name_ && error_name_(result, &words) == kSuccess ? words : nullptr;
  }
  const char* error_text(Result result) const noexcept override {
    const char* words = nullptr;
    return error_text_ && error_text_(result, &words) == kSuccess ? words : nullptr;
  }
  Result get_current(Context* current) const noexcept override { return get_current_(current); }
  Result set_current(Context current) const noexcept override { return set_current_(current); }
  Result retain(DeviceNumber device, Context* context) const noexcept override {
    return retain_(context, device);
  }
  Result release(DeviceNumber device) const noexcept override { return release_(device); }
  Result enable_peer(DeviceNumber, Context peer) const noexcept override {
    return enable_peer_(peer, 0);
  }
  Result copy_peer(void* to, Context to_context, const void* from, Context from_context,
                   std::size_t bytes, StreamHandle* stream) const noexcept override {
    return copy_peer_(to, to_context, from, from_context, bytes, stream);
  }
  Result copy_box(const Box& box, StreamHandle* stream) const noexcept override {
    const Copy3D copy{side_3d(box.from), side_3d(box.to), box.width, box.height, box.depth};
    return copy_3d_(&copy, stream);
  }
  Result suggest_block(FunctionHandle* function, std::size_t shared_bytes, int* grid,
                       int* block) const noexcept override {
    return suggest_block_(grid, block, function, nullptr, shared_bytes, 0);
  }
  Result launch_host(StreamHandle* stream, void (*function)(void*),
                     void* data) const noexcept override {
    return launch_host_(stream, function, data);
  }
  bool is_page_locked(const void* data) const noexcept override {
    unsigned attribute = kMemoryType;
    unsigned type = 0;  // stays so for memory that the driver does not know
    void* value = &type;
    return pointer_attributes_(1, &attribute, &value, data) == kSuccess && type == kHost;
  }
  int device_at(const void* data) const noexcept override {
    unsigned attributes[] = {kMemoryType, kDeviceOrdinal};
    unsigned type = 0;
    int ordinal = -1;
    void* values[] = {&type, &ordinal};
    const Result result = pointer_attributes_(2, attributes, values, data);
    return result == kSuccess && type == kDevice ? ordinal : -1;
  }
  native::AddressRange range_at(const void* data) const noexcept override {
    // Not cuMemGetAddressRange: of reserved addresses it knows the piece that is mapped at one.
    unsigned attributes[] = {kRangeBegin, kRangeBytes};
    native::AddressRange range;
    void* values[] = {&range.begin, &range.bytes};
    const Result result = pointer_attributes_(2, attributes, values, data);
    return result == kSuccess ? range : native::AddressRange();
  }
  std::string architecture(DeviceNumber, int major, int minor, const std::string&) const override {
    return "sm_" + std::to_string(major) + std::to_string(minor);
  }

 private:
  void fill_devices(Loader& from) {
    from.get(call.init, "cuInit");
    from.get(call.driver_version, "cuDriverGetVersion");
    from.get(error_name_, "cuGetErrorName");
    from.get(error_text_, "cuGetErrorString");
    from.get(call.device_count, "cuDeviceGetCount");
    from.get(call.device_get, "cuDeviceGet");
    from.get(call.device_name, "cuDeviceGetName");
    from.get(call.device_uuid, "cuDeviceGetUuid");
    from.get(call.device_attribute, "cuDeviceGetAttribute");
    from.get(call.device_pci_bus_id, "cuDeviceGetPCIBusId");
    from.get(call.device_total_memory, "cuDeviceTotalMem");
    from.get(call.device_can_access_peer, "cuDeviceCanAccessPeer");
    from.get(call.device_default_pool, "cuDeviceGetDefaultMemPool");
    from.get(retain_, "cuDevicePrimaryCtxRetain");
    from.get(release_, "cuDevicePrimaryCtxRelease");
    from.get(set_current_, "cuCtxSetCurrent");
    from.get(get_current_, "cuCtxGetCurrent");
    from.get(call.synchronize, "cuCtxSynchronize");
    from.get(enable_peer_, "cuCtxEnablePeerAccess");
  }

  void fill_memory(Loader& from) {
    from.get(call.memory_info, "cuMemGetInfo");
    from.get(call.allocate, "cuMemAlloc");
    from.get(call.free, "cuMemFree");
    from.get(call.allocate_from_pool, "cuMemAllocFromPoolAsync");
    from.get(call.free_async, "cuMemFreeAsync");
    from.get(call.pool_set_attribute, "cuMemPoolSetAttribute");
    from.get(call.pool_get_attribute, "cuMemPoolGetAttribute");
    from.get(call.pool_set_access, "cuMemPoolSetAccess");
    from.get(call.pool_trim, "cuMemPoolTrimTo");
    from.get(call.host_allocate, "cuMemHostAlloc");
    from.get(call.host_free, "cuMemFreeHost");
    from.get(call.allocate_managed, "cuMemAllocManaged");
    from.get(pointer_attributes_, "cuPointerGetAttributes");
  }

  void fill_work(Loader& from) {
    from.get(call.copy_to_device, "cuMemcpyHtoDAsync");
    from.get(call.copy_from_device, "cuMemcpyDtoHAsync");
    from.get(call.copy_within, "cuMemcpyDtoDAsync");
    from.get(copy_peer_, "cuMemcpyPeerAsync");
    from.get(copy_3d_, "cuMemcpy3DAsync");
    from.get(call.set_bytes, "cuMemsetD8Async");
    from.get(call.stream_create, "cuStreamCreateWithPriority");
    from.get(call.stream_destroy, "cuStreamDestroy");
    from.get(call.stream_synchronize, "cuStreamSynchronize");
    from.get(call.stream_query, "cuStreamQuery");
    from.get(call.stream_wait_event, "cuStreamWaitEvent");
    from.get(call.stream_is_capturing, "cuStreamIsCapturing");
    from.get(launch_host_, "cuLaunchHostFunc");
    from.get(call.event_create, "cuEventCreate");
    from.get(call.event_destroy, "cuEventDestroy");
    from.get(call.event_record, "cuEventRecord");
    from.get(call.event_query, "cuEventQuery");
    from.get(call.event_synchronize, "cuEventSynchronize");
    from.get(call.module_load, "cuModuleLoadDataEx");
    from.get(call.module_unload, "cuModuleUnload");
    from.get(call.module_function, "cuModuleGetFunction");
    from.get(call.function_attribute, "cuFuncGetAttribute");
    from.get(call.function_set_attribute, "cuFuncSetAttribute");
    // Since CUDA 12.4; without it the driver checks no sizes.
    call.function_parameter = reinterpret_cast<decltype(call.function_parameter)>(
        dlsym(from.handle(), "cuFuncGetParamInfo"));
    from.get(call.launch, "cuLaunchKernel");
    from.get(suggest_block_, "cuOccupancyMaxPotentialBlockSize");
  }

  Result (*error_name_)(Result, const char**) = nullptr;
  Result (*error_text_)(Result, const char**) = nullptr;
  Result (*retain_)(Context*, DeviceNumber) = nullptr;
  Result (*release_)(DeviceNumber) = nullptr;
  Result (*set_current_)(Context) = nullptr;
  Result (*get_current_)(Context*) = nullptr;
  Result (*enable_peer_)(Context, unsigned) = nullptr;
  Result (*copy_peer_)(void*, Context, const void*, Context, std::size_t, StreamHandle*) = nullptr;
  Result (*copy_3d_)(const Copy3D*, StreamHandle*) = nullptr;
  Result (*launch_host_)(StreamHandle*, void (*)(void*), void*) = nullptr;
  Result (*suggest_block_)(int*, int*, FunctionHandle*, std::size_t (*)(int), std::size_t,
                           int) = nullptr;
  Result (*pointer_attributes_)(unsigned, unsigned*, void**, const void*) = nullptr;
};

}  // namespace

std::unique_ptr<const Driver> open_driver(const std::string& library) {
  Loader loader({library.empty() ? "libcuda.so.1" : library}, "load_driver");
  return std::make_unique<CudaDriver>(loader);
}

}  // namespace devrt::gpu

namespace devrt::native {

namespace {

std::vector<pjrt::Option> engine_options(std::span<const DeviceFacts> devices,
                                         const ClientOptions& given) {
  return gpu::engine_options(devices, given, "cuda_async");
}

}  // namespace

const Platform& platform() {
  static const Platform cuda{
      .name = "cuda",
      .engine = gpu::engine_policy("cuda", "CUDA",
                                   "Install a later one: pip install --upgrade jax-cuda13-pjrt.",
                                   &engine_options)};
  return cuda;
}

std::shared_ptr<DeviceBackend> make_backend(const ClientOptions& options) {
  return gpu::make_gpu_backend(options);
}

}  // namespace devrt::native
