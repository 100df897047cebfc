// Kernels as the client sees them: modules that a device has loaded, functions in them, launches.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/client.hpp"

namespace devrt::native {

/// How many threads a launch has, and the memory that those of a block share.
struct LaunchShape {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
};

/// A number that a kernel gets by value.
struct KernelScalar {
  std::array<std::byte, 16> bytes{};
  std::size_t size = 0;
};
/// An array that a launch makes, and the kernel fills.
struct KernelOutput {
  ElementType type;
  Dims shape;
};
/// One parameter: an array, a number, or an array to be made.
using KernelArgument = std::variant<const Buffer*, KernelScalar, KernelOutput>;

/// A function of a loaded module. Thread-safe.
class KernelFunction {
 public:
  virtual ~KernelFunction() = default;
  /// Throws INVALID_ARGUMENT unless the device can launch it so, with parameters of these sizes.
  virtual void check(const LaunchShape& shape, std::span<const std::size_t> sizes) const = 0;
  /// Starts it in the order of a queue; the values of the parameters are read at once.
  virtual ReadyEvent launch(const Queue& queue, const LaunchShape& shape,
                            std::span<void*> parameters) = 0;
  /// Starts it on a stream of another's, as the driver's handle, on which nothing is recorded: the
  /// caller keeps it, and what it uses, until that work has ended.
  virtual void launch_in(void* stream, const LaunchShape& shape, std::span<void*> parameters) = 0;
  /// Returns whether its device is the one that the driver's calls of this thread go to.
  virtual bool is_current() const noexcept = 0;
  /// Returns what the compiler made of it, by the drivers' names; without what it does not say.
  virtual std::vector<std::pair<std::string, std::int64_t>> attributes() const = 0;
  /// Returns the block that keeps the device busiest, and the least grid of it that fills it.
  virtual std::pair<int, int> suggest_block(std::size_t shared_bytes) const = 0;
};

/// An image that a device has loaded. It is unloaded with its last function, behind the last
/// launch.
class KernelModule {
 public:
  virtual ~KernelModule() = default;
  /// Throws NOT_FOUND for a name that it does not have.
  virtual std::shared_ptr<KernelFunction> function(const std::string& name) = 0;
};

/// Loads an image on a device of a client.
std::shared_ptr<KernelModule> load_kernels(const Client& client, const Device& device,
                                           const std::string& image);

/// Starts a kernel on a device behind what fills its arrays. Returns the arrays that it makes, in
/// the order of its parameters; they are ready when it has ended.
std::vector<Ref<Buffer>> launch_kernel(Device& device,
                                       const std::shared_ptr<KernelFunction>& function,
                                       const LaunchShape& shape,
                                       std::span<KernelArgument> arguments, std::int64_t stream);

}  // namespace devrt::native
