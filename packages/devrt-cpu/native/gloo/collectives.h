// The C functions of the library for collectives over Gloo, which Python calls without a module of
// its own: the library is optional, and is opened when processes connect.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Why a function failed; its words are in `error`.
enum DevrtGlooStatus {
  kDevrtGlooOk = 0,
  kDevrtGlooTimedOut = 1,
  kDevrtGlooPeerLost = 2,
  kDevrtGlooStore = 3,  ///< a function of `DevrtGlooStore` failed
  kDevrtGlooOther = 4,
};

/// The job's keys. Both functions return 0, or else that they failed.
struct DevrtGlooStore {
  int (*set)(const char* key, const char* value, std::size_t size);
  /// Waits for a key; at most `size` bytes are written, and `*size` is set to their number.
  int (*get)(const char* key, char* value, std::size_t* size);
};

/// Where words of an error go: a buffer, always ended by a zero.
struct DevrtGlooError {
  char* text;
  std::size_t size;
};

struct DevrtGlooGroup;

/// Connects this process with all others. `host` is this process's address for them.
int devrt_gloo_connect(int rank, int size, const char* host, std::int64_t timeout_ms,
                       const DevrtGlooStore* store, DevrtGlooGroup** group, DevrtGlooError* error);
void devrt_gloo_close(DevrtGlooGroup* group);
/// Ends the connections, from any thread: what waits fails, here and at the other ranks.
void devrt_gloo_interrupt(DevrtGlooGroup* group);

/// Reduces `count` elements in place. `dtype` is NumPy's letter, `op` one of `+*<>`.
int devrt_gloo_all_reduce(DevrtGlooGroup* group, void* data, std::size_t count, char dtype, char op,
                          DevrtGlooError* error);
/// Gathers `size` bytes of each rank.
int devrt_gloo_all_gather(DevrtGlooGroup* group, void* in, std::size_t size, void* out,
                          DevrtGlooError* error);
/// Exchanges blocks of `size` bytes, one for each rank.
int devrt_gloo_all_to_all(DevrtGlooGroup* group, void* in, std::size_t size, void* out,
                          DevrtGlooError* error);
int devrt_gloo_broadcast(DevrtGlooGroup* group, void* data, std::size_t size, int root,
                         DevrtGlooError* error);
/// Sends to one rank and receives from another at the same time; a rank below zero is none.
int devrt_gloo_exchange(DevrtGlooGroup* group, void* in, int to, void* out, int from,
                        std::size_t size, std::uint32_t tag, DevrtGlooError* error);
}
