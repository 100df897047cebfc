// What the simulator's parts speak of, in the terms of no vendor: results, handles, devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace devrt::gpu_simulator {

/// An address as the devices see it. Pinned and managed memory has one address for all.
using Address = std::uint64_t;
/// What a driver gives out for a stream, an event, ...: never used twice, so that the use of one
/// that was destroyed is noticed. 0 is none, or the default stream.
using Handle = std::uint64_t;

/// How a call ended, by the number that both vendors' drivers give it.
enum class Code : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoImageForDevice = 209,
  kDeviceLost = 214,
  kPeerAccessUnsupported = 217,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAccessAlreadyEnabled = 704,
  kContextDestroyed = 709,
  kHostAlreadyRegistered = 712,
  kHostNotRegistered = 713,
  kNotPermitted = 800,
  kNotSupported = 801,
  kUnknown = 999,
};

/// What a code is called where tests configure the simulator: "out_of_memory".
std::string_view code_name(Code code);

/// How a call fails: thrown within the simulator, returned by the driver's function.
struct Failure {
  Code code;
};

/// A call of a driver's function.
struct Call {
  const char* function;
  std::uint64_t number;
};

/// The facts of a kind of device that is sold. A driver's library has a few.
struct Model {
  std::string_view key;   ///< what tests call it
  std::string_view name;  ///< as the real driver gives it; the simulator adds that it is none
  std::string_view architecture;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  int l2_bytes = 0;
  int warp = 32;
  int threads_per_multiprocessor = 2048;
  int shared_bytes_per_block = 0;  ///< what a kernel may opt in to
};

/// What tests choose. `parse_settings` has the names.
struct Settings {
  std::string model;  ///< the key; the first model where it is empty
  int devices = 1;
  int group = 0;  ///< devices of a group have links to each other; 0: all are one group
  bool links = true;
  std::size_t memory = std::size_t{1} << 30;  ///< of each device
  std::uint64_t seed = 0;
  unsigned delay_us = 20;      ///< how long an operation waits at most, at random, before it runs
  int driver_version = 0;      ///< 0: the library's own
  std::string plugin_devices;  ///< how the plugin lists them: "reversed", "others", or in order
  bool pools = true;
  bool managed = true;         ///< whether the host may use managed memory while a device works
  bool uninitialised = true;   ///< whether reads of bytes that nothing wrote are reported
  bool wrong_contexts = true;  ///< whether calls that a current context refuses are reported
  bool print = false;          ///< reports go to the standard error stream as well
  bool explain_faults = false;
  std::size_t out_of_memory_from = 0;  ///< allocations of so many bytes or more fail; 0: none
  std::set<std::string, std::less<>> missing;
  struct Failure {
    std::uint64_t call = 0;
    Code code = Code::kUnknown;
  };
  std::multimap<std::string, Failure, std::less<>> failures;  ///< by function
  std::map<int, std::uint64_t> lost;  ///< by device: the operation at which it is lost, from 1
};

/// Reads "name=value" separated by blanks. Throws std::invalid_argument that names what is wrong.
Settings parse_settings(std::string_view text);

}  // namespace devrt::gpu_simulator
