// Collectives over Gloo between processes that find each other through the job's keys.
#include "collectives.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct DevrtGlooGroup {
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::chrono::milliseconds timeout;
};

namespace {

using Reduce = gloo::AllreduceOptions::Func;

/// Gloo's own operations have small numbers; its slots are 64 bits.
constexpr std::uint64_t kSlot = std::uint64_t{0x7d} << 56;
constexpr std::uint64_t kInterruptSlot = std::uint64_t{0x7e} << 56;  // on which nothing is sent
constexpr std::size_t kLongestAddress = 1 << 16;

/// A key that could not be set, or did not come.
struct StoreError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The job's keys, as Gloo asks for them.
class Store : public gloo::rendezvous::Store {
 public:
  explicit Store(const DevrtGlooStore& functions) : functions_(functions) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (functions_.set(key.c_str(), data.data(), data.size()) != 0) throw StoreError(key);
  }
  std::vector<char> get(const std::string& key) override {
    std::vector<char> value(kLongestAddress);
    std::size_t size = value.size();
    if (functions_.get(key.c_str(), value.data(), &size) != 0) throw StoreError(key);
    value.resize(size);
    return value;
  }
  void wait(const std::vector<std::string>&) override {}  // `get` waits
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {}

 private:
  const DevrtGlooStore& functions_;
};

void report(DevrtGlooError* error, const char* words) {
  if (error->size == 0) return;
  const std::size_t length = std::min(std::strlen(words), error->size - 1);
  std::memcpy(error->text, words, length);
  error->text[length] = '\0';
}

/// Returns whether the words of an error say that a wait took too long: it has no type of its own.
bool is_late(const char* words) {
  const auto has = [&](const char* part) { return std::strstr(words, part) != nullptr; };
  return has("imed out") || has("Read timeout") || has("Write timeout");
}

/// Calls a function; returns the status of what it throws.
template <class Function>
int guarded(DevrtGlooError* error, Function function) noexcept {
  try {
    function();
    return kDevrtGlooOk;
  } catch (const StoreError& failed) {
    report(error, failed.what());
    return kDevrtGlooStore;
  } catch (const gloo::IoException& failed) {
    report(error, failed.what());
    return is_late(failed.what()) ? kDevrtGlooTimedOut : kDevrtGlooPeerLost;
  } catch (const std::exception& failed) {
    report(error, failed.what());
    return kDevrtGlooOther;
  } catch (...) {
    report(error, "an exception of no known type");
    return kDevrtGlooOther;
  }
}

template <class T, class Combine>
Reduce elementwise(Combine combine) {
  return [combine](void* out, const void* a, const void* b, std::size_t count) {
    const T* left = static_cast<const T*>(a);
    const T* right = static_cast<const T*>(b);
    std::transform(left, left + count, right, static_cast<T*>(out), combine);
  };
}

template <class T>
Reduce reduction(char op) {
  if (op == '+') return elementwise<T>([](T a, T b) { return static_cast<T>(a + b); });
  if (op == '*') return elementwise<T>([](T a, T b) { return static_cast<T>(a * b); });
  if constexpr (requires(T a) { a < a; }) {
    // Not std::min: a NaN of either side is the result, as in NumPy.
    if (op == '<') return elementwise<T>([](T a, T b) { return a < b || a != a ? a : b; });
    if (op == '>') return elementwise<T>([](T a, T b) { return a > b || a != a ? a : b; });
  }
  throw std::invalid_argument("no such reduction");
}

template <class T>
void all_reduce(const DevrtGlooGroup& group, void* data, std::size_t count, char op) {
  gloo::AllreduceOptions options(group.context);
  options.setOutput(static_cast<T*>(data), count);
  options.setReduceFunction(reduction<T>(op));
  options.setTimeout(group.timeout);
  gloo::allreduce(options);
}

void all_reduce_of(const DevrtGlooGroup& group, void* data, std::size_t count, char dtype,
                   char op) {
  switch (dtype) {
    case 'b':
      return all_reduce<std::int8_t>(group, data, count, op);
    case 'h':
      return all_reduce<std::int16_t>(group, data, count, op);
    case 'i':
      return all_reduce<std::int32_t>(group, data, count, op);
    case 'l':
    case 'q':
      return all_reduce<std::int64_t>(group, data, count, op);
    case 'B':
      return all_reduce<std::uint8_t>(group, data, count, op);
    case 'H':
      return all_reduce<std::uint16_t>(group, data, count, op);
    case 'I':
      return all_reduce<std::uint32_t>(group, data, count, op);
    case 'L':
    case 'Q':
      return all_reduce<std::uint64_t>(group, data, count, op);
    case 'f':
      return all_reduce<float>(group, data, count, op);
    case 'd':
      return all_reduce<double>(group, data, count, op);
    case 'F':
      return all_reduce<std::complex<float>>(group, data, count, op);
    case 'D':
      return all_reduce<std::complex<double>>(group, data, count, op);
    default:
      throw std::invalid_argument("no such dtype");
  }
}

template <class Options>
void move_bytes(const DevrtGlooGroup& group, Options& options, void* in, std::size_t in_size,
                void* out, std::size_t out_size) {
  options.setInput(static_cast<std::uint8_t*>(in), in_size);
  options.setOutput(static_cast<std::uint8_t*>(out), out_size);
  options.setTimeout(group.timeout);
}

void check_done(bool done) {
  if (!done) throw gloo::IoException("the exchange was ended");
}

}  // namespace

int devrt_gloo_connect(int rank, int size, const char* host, std::int64_t timeout_ms,
                       const DevrtGlooStore* store, DevrtGlooGroup** group, DevrtGlooError* error) {
  return guarded(error, [&] {
    gloo::transport::tcp::attr where;
    where.hostname = host;
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(where);
    auto made = std::make_unique<DevrtGlooGroup>();
    made->timeout = std::chrono::milliseconds(timeout_ms);
    made->context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    made->context->setTimeout(made->timeout);
    Store keys(*store);
    made->context->connectFullMesh(keys, device);
    *group = made.release();
  });
}

void devrt_gloo_close(DevrtGlooGroup* group) { delete group; }

void devrt_gloo_interrupt(DevrtGlooGroup* group) {
  // A wait that is over its time ends all connections of its group; Gloo has no other way to. One
  // on a connection that is closed already ends none, so each rank's is tried.
  DevrtGlooError unread{nullptr, 0};
  for (int rank = 0; rank < group->context->size; ++rank) {
    if (rank == group->context->rank) continue;
    guarded(&unread, [&] {
      char nothing = 0;
      const auto never = group->context->createUnboundBuffer(&nothing, sizeof(nothing));
      never->recv(rank, kInterruptSlot);
      never->waitRecv(std::chrono::milliseconds(1));
    });
  }
}

int devrt_gloo_all_reduce(DevrtGlooGroup* group, void* data, std::size_t count, char dtype, char op,
                          DevrtGlooError* error) {
  return guarded(error, [&] { all_reduce_of(*group, data, count, dtype, op); });
}

int devrt_gloo_all_gather(DevrtGlooGroup* group, void* in, std::size_t size, void* out,
                          DevrtGlooError* error) {
  return guarded(error, [&] {
    gloo::AllgatherOptions options(group->context);
    move_bytes(*group, options, in, size, out,
               size * static_cast<std::size_t>(group->context->size));
    gloo::allgather(options);
  });
}

int devrt_gloo_all_to_all(DevrtGlooGroup* group, void* in, std::size_t size, void* out,
                          DevrtGlooError* error) {
  return guarded(error, [&] {
    gloo::AlltoallOptions options(group->context);
    const std::size_t all = size * static_cast<std::size_t>(group->context->size);
    move_bytes(*group, options, in, all, out, all);
    gloo::alltoall(options);
  });
}

int devrt_gloo_broadcast(DevrtGlooGroup* group, void* data, std::size_t size, int root,
                         DevrtGlooError* error) {
  return guarded(error, [&] {
    gloo::BroadcastOptions options(group->context);
    options.setOutput(static_cast<std::uint8_t*>(data), size);
    options.setRoot(root);
    options.setTimeout(group->timeout);
    gloo::broadcast(options);
  });
}

int devrt_gloo_exchange(DevrtGlooGroup* group, void* in, int to, void* out, int from,
                        std::size_t size, std::uint32_t tag, DevrtGlooError* error) {
  return guarded(error, [&] {
    const auto sent = group->context->createUnboundBuffer(in, size);
    const auto received = group->context->createUnboundBuffer(out, size);
    if (from >= 0) received->recv(from, kSlot | tag);
    if (to >= 0) sent->send(to, kSlot | tag);
    if (to >= 0) check_done(sent->waitSend(group->timeout));
    if (from >= 0) check_done(received->waitRecv(group->timeout));
  });
}
