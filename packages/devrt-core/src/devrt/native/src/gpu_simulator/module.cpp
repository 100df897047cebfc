#include "gpu_simulator/module.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace devrt::gpu_simulator {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;  // not looked at
#endif

/// Returns how long an image is: the table of sections is what linkers write last.
std::size_t image_bytes(const void* image) {
  Elf64_Ehdr header;
  if (!image || std::memcmp(image, ELFMAG, SELFMAG) != 0) throw Failure{Code::kInvalidImage};
  std::memcpy(&header, image, sizeof(header));
  const bool is_of_host = kMachine == EM_NONE || header.e_machine == kMachine;
  if (!is_of_host) throw Failure{Code::kNoImageForDevice};  // as of a real device's
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN) {
    throw Failure{Code::kInvalidImage};
  }
  return header.e_shoff + std::size_t{header.e_shentsize} * header.e_shnum;
}

bool write_all(int file, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(file, data, bytes);
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

Module::Module(const void* image, Handle of) : context(of) {
  const std::size_t bytes = image_bytes(image);
  const int file = memfd_create("devrt_simulator_module", MFD_CLOEXEC);
  if (file < 0) throw Failure{Code::kOutOfMemory};
  if (write_all(file, static_cast<const char*>(image), bytes)) {
    library_ = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  close(file);
  if (!library_) throw Failure{Code::kInvalidImage};
}

Module::~Module() { dlclose(library_); }

void* Module::symbol(const char* name) const { return dlsym(library_, name); }

}  // namespace devrt::gpu_simulator
