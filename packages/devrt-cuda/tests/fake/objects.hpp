// What the fake plugin is made of: the driver, its devices, their work and memory.
#pragma once

#include <dlfcn.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/pjrt/c_api/pjrt_c_api.h"

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};

using Handle = void*;

inline bool has_fault(const char* name) {
  const char* all = std::getenv("FAKE_GPU_FAULTS");
  return all && std::strstr(all, name);
}

/// Calls a function of the driver; returns what it says.
template <class... Arguments>
int ask(const char* name, Arguments... arguments) {
  static void* const library = dlopen(std::getenv("FAKE_GPU_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  return function ? function(arguments...) : -1;
}

/// Does the same; ends the process where it fails, as a test must see that.
template <class... Arguments>
void drive(const char* name, Arguments... arguments) {
  const int result = ask(name, arguments...);
  if (result == 0) return;
  std::fprintf(stderr, "fake plugin: %s gave %d\n", name, result);
  std::abort();
}

inline PJRT_Error* fail(PJRT_Error_Code code, std::string message) {
  return new PJRT_Error{code, std::move(message)};
}

/// Work of a device, until it has ended.
struct PJRT_Event {
  std::shared_ptr<struct Work> work;
};

struct Work {
  Handle event = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  bool has_ended = false;
  bool is_without_memory = false;  // and ends so
  std::vector<std::pair<PJRT_Event_OnReadyCallback, void*>> callbacks;
  std::vector<std::shared_ptr<void>> kept;  // until it has ended

  void end() {
    decltype(callbacks) called;
    decltype(kept) released;
    {
      std::lock_guard lock(mutex);
      has_ended = true;
      called.swap(callbacks);
      released.swap(kept);
      changed.notify_all();
    }
    released.clear();
    for (auto [callback, argument] : called) callback(outcome(), argument);
  }
  PJRT_Error* outcome() const {
    if (!is_without_memory) return nullptr;
    return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory allocating 7 bytes");
  }
};

struct PJRT_Device {
  int id = 0;  // its description is the same object
  int process = 0;
  int ordinal = 0;
  Handle context = nullptr;
  Handle external = nullptr;
  Handle compute = nullptr;
  Handle kernel = nullptr;
};

/// Makes a device current while it lives.
struct Current {
  explicit Current(const PJRT_Device& device) {
    drive("cuCtxGetCurrent", &before);
    drive("cuCtxSetCurrent", device.context);
  }
  // What a thread had may be gone with the client that it worked for.
  ~Current() { (void)ask("cuCtxSetCurrent", before); }
  Handle before = nullptr;
};

inline std::shared_ptr<Work> record(const PJRT_Device& device, Handle stream,
                                    bool is_without_memory = false) {
  const Current current(device);
  auto work = std::make_shared<Work>();
  work->is_without_memory = is_without_memory;
  drive("cuEventCreate", &work->event, 2U);
  drive("cuEventRecord", work->event, stream);
  std::thread([work, device] {
    const Current in_thread(device);
    if (!has_fault("done")) drive("cuEventSynchronize", work->event);
    work->end();
  }).detach();
  return work;
}

/// Memory that a view shows, or that the plugin allocated.
struct Bytes {
  PJRT_Device* device = nullptr;
  std::uintptr_t address = 0;
  void (*on_delete)(void*, void*) = nullptr;
  void* argument = nullptr;

  ~Bytes() {
    if (on_delete) {
      on_delete(reinterpret_cast<void*>(address), argument);
      return;
    }
    const Current current(*device);
    drive("cuMemFreeAsync", address, device->compute);
  }
};
