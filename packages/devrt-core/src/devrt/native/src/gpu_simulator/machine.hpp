// The simulated machine: devices, contexts, and everything that a driver's calls make on them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gpu_simulator/allocation.hpp"
#include "gpu_simulator/collective_round.hpp"
#include "gpu_simulator/collectives.hpp"
#include "gpu_simulator/copy.hpp"
#include "gpu_simulator/memory.hpp"
#include "gpu_simulator/module.hpp"
#include "gpu_simulator/pool.hpp"
#include "gpu_simulator/rank_link.hpp"
#include "gpu_simulator/report.hpp"
#include "gpu_simulator/stream.hpp"
#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

struct Device {
  Handle context = 0;  ///< the primary one; 0 while nobody retains it
  int retained = 0;
  Code error = Code::kSuccess;  ///< one that stays
  std::uint64_t operations = 0;
  std::size_t allocated = 0;  ///< outside of pools
  std::set<int> peers;        ///< whose memory it may reach
  Handle default_pool = 0;
  Clock past;  ///< what streams that were destroyed had been given
  Clock own;   ///< how far its streams, all that there were, have been given work
};

struct PointerFacts {
  AllocationRef allocation;  ///< null: memory that the driver does not know
  Handle context = 0;
};

class KernelRun;

/// Every function may throw `Failure`. Thread-safe.
class Machine : public std::enable_shared_from_this<Machine> {
 public:
  Machine(Settings settings, const Model& model);

  /// Ends the threads; work that has not begun is dropped.
  void stop();

  // Devices and contexts (machine.cpp).
  const Settings& settings() const noexcept { return settings_; }
  const Model& model() const noexcept { return model_; }
  int device_count() const noexcept { return settings_.devices; }
  void check_device(int device) const;
  bool are_linked(int device, int peer) const;
  Handle retain(int device);
  void release(const Call& call, int device);
  void set_current(Handle context);
  Handle current() const noexcept;
  /// Has this thread's calls go to a device, whose context is made if there is none.
  void use(int device);
  /// Returns the device of the calling thread's context.
  int current_device();
  /// Returns the device of a context.
  int device_of(Handle context);
  void synchronize_device();
  void enable_peer(int peer);
  std::string reports(bool clear);
  std::string living();
  void lose(int device);
  bool is_device_address(Address address) const noexcept {
    return memory_.is_device_address(address);
  }
  /// Whether this thread runs a function that a stream calls, which may call no driver.
  static bool& in_host_function() noexcept;
  Code refuse_in_host_function(const Call& call);

  // Memory (machine_memory.cpp).
  Address allocate(const Call& call, Space space, std::size_t bytes);
  void free(const Call& call, Address address);
  void free_host(const Call& call, Address address);
  void register_host(const Call& call, Address address, std::size_t bytes);
  void unregister_host(const Call& call, Address address);
  void memory_info(std::size_t* free, std::size_t* total);
  PointerFacts pointer(Address address);

  // Pools (machine_pools.cpp).
  Handle default_pool(int device);
  Handle make_pool(int device);
  void destroy_pool(Handle pool);
  /// Runs a function on a pool, under the lock.
  void with_pool(Handle pool, const std::function<void(Pool&)>& body);
  Address allocate_async(const Call& call, Handle pool, std::size_t bytes, Handle stream);
  void free_async(const Call& call, Address address, Handle stream);

  // Streams and events (machine_streams.cpp, machine_events.cpp).
  Handle make_stream(bool is_blocking);
  void destroy_stream(const Call& call, Handle stream);
  void synchronize_stream(const Call& call, Handle stream);
  void query_stream(const Call& call, Handle stream);
  void wait_event(const Call& call, Handle stream, Handle event);
  void check_stream(const Call& call, Handle stream);
  Handle make_event(bool has_time);
  void destroy_event(const Call& call, Handle event);
  void record(const Call& call, Handle event, Handle stream);
  void query_event(const Call& call, Handle event);
  void synchronize_event(const Call& call, Handle event);
  float elapsed_ms(const Call& call, Handle start, Handle end);
  /// Calls a function of the host's in stream order, with how the work before it ended.
  void call_host(const Call& call, Handle stream, bool even_if_failed,
                 std::function<void(Code)> function);

  /// Runs a function of the host's in stream order that uses the device's memory, as a program of a
  /// compiler's. It may wait for others in other streams, and is called too where the device has
  /// failed.
  void run(const Call& call, Handle stream, std::function<void(Code, KernelRun&)> work);

  // Work (machine_copies.cpp, machine_kernels.cpp).
  void copy(const Call& call, const Copy& copy, Handle stream);
  void fill(const Call& call, Address address, int value, std::size_t bytes, Handle stream);
  Handle load_module(const void* image);
  void unload_module(const Call& call, Handle module);
  Handle function(const Call& call, Handle module, const char* name);
  void check_function(Handle function);
  std::size_t parameter_bytes(Handle function, std::size_t index);
  void launch(const Call& call, const Launch& launch, Handle function, Handle stream);

  // Collectives (machine_collectives.cpp).
  /// Connects devices; returns the communicator of each.
  std::vector<Handle> make_clique(std::vector<int> devices);
  /// Connects devices with those of other processes, and sets the communicator of each; waits for
  /// the others.
  void join_groups(const std::vector<RankJoin>& joins);
  /// Destroys a communicator; one that `aborts` has the work that waits for others end.
  void end_rank(const Call& call, Handle rank, bool aborts);
  /// Returns the library's result of a part that failed after its call; 0 for none.
  int rank_error(const Call& call, Handle rank);
  void start_collectives(const CollectiveParts& parts);

 private:
  using Lock = std::unique_lock<std::mutex>;
  friend class KernelRun;

  Handle new_handle() { return last_handle_ += 16; }
  [[noreturn]] void refuse_handle(const Call& call, Handle handle, const char* what);
  int usable_device();  // current_device(), under the lock
  /// Throws the error that a device keeps. A lost one does nothing more, and the host now knows.
  void check_health(int device);

  MomentRef host_moment(const Call& call);
  MomentRef moment_on(const Call& call, Stream& stream);
  StreamRef stream_of(const Call& call, Handle handle, bool of_current);
  Event& event_of(const Call& call, Handle handle);
  StreamRef new_stream(int device, bool is_blocking, Handle handle);
  std::vector<Point> join_default(Stream& stream);
  void enqueue(const StreamRef& stream, MomentRef moment, std::vector<Point> waits,
               std::function<void(Code)> run, bool even_if_failed = false);
  void submit(const Call& call, const StreamRef& stream, std::function<void(Code)> run,
              bool even_if_failed = false);
  static void work(std::shared_ptr<Machine> machine, StreamRef stream);
  void perform(const StreamRef& stream, const Operation& operation);
  Code begin_work(int device);
  bool has_failed(int device);
  void wait_for(Lock& lock, const Point& point);
  void wait_for_device(Lock& lock, int device);
  void trim_pools();

  bool can_reach(int device, const Allocation& allocation) const;
  std::size_t free_bytes(int device) const;
  void check_size(std::size_t bytes) const;
  AllocationRef owned(const Call& call, Address address, bool of_host);
  void retire(const AllocationRef& allocation);
  void note(Allocation& allocation, Access access);
  AllocationRef operand(const Call& call, const CopySide& side, std::size_t last, int device);
  void note_rows(const Copy& copy, const CopySide& side, Allocation& allocation, bool writes,
                 const MomentRef& moment);
  void move(const Copy& copy, const AllocationRef& to, const AllocationRef& from,
            const MomentRef& moment);
  /// Has reads of what a failed device was to write be no finding.
  void leave(Allocation& allocation, std::size_t begin, std::size_t end);
  void leave_rows(const Copy& copy, const AllocationRef& to);
  void note_read(Allocation& allocation, std::size_t begin, std::size_t end, const Moment& moment);
  void end_ranks();
  RankPart rank_part(const CollectivePart& given);
  CollectiveSide collective_side(const Call& call, int device, Address address, std::size_t bytes);
  void start_round(const RoundRef& round);
  int run_round(const Round& round);
  std::vector<Piece> read_pieces(const Round& round);
  int exchange(const Round& round, std::vector<Piece>& pieces);
  void write_results(const Round& round, const std::vector<Piece>& pieces);
  /// Takes the results of a rank that was broken off as written: nobody knows what is there.
  void leave_results(const Round& round, std::size_t rank);
  /// Finds a kernel that can be launched so.
  Kernel kernel_for(const Call& call, const Launch& launch, Handle handle);
  void launch_in_program(const Call& call, const Launch& launch, Handle handle);
  void run_kernel(const Kernel& kernel, const Launch& launch,
                  std::vector<std::vector<std::byte>>& parameters, const MomentRef& moment);

  const Settings settings_;
  const Model& model_;
  // Held while simulated memory is read or written, and where a device fails, which uses none from
  // then on: the host may have others use what its work used. Locked before `state_`.
  std::mutex bytes_;
  mutable std::mutex state_;
  bool is_stopped_ = false;
  Handle last_handle_ = 0x51000000;
  std::size_t actors_ = 1;
  Clock host_;  // what the host knows to be over
  std::uint64_t host_time_ = 0;
  int running_kernels_ = 0;  // given to a stream, and not complete
  std::vector<Device> devices_;
  Memory memory_;
  Reports reports_;
  std::map<Handle, std::unique_ptr<Pool>> pools_;
  std::map<Handle, StreamRef> streams_;
  std::map<Handle, StreamRef> default_streams_;  // by context
  std::vector<StreamRef> destroyed_streams_;     // that still have work
  std::map<Handle, Event> events_;
  std::map<Handle, std::shared_ptr<Module>> modules_;
  std::map<Handle, Kernel> kernels_;
  std::map<Handle, CliqueRank> ranks_;
};

}  // namespace devrt::gpu_simulator
