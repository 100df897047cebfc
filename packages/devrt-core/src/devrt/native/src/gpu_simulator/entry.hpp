// What each function of a simulated driver goes through: whether it may run at all, and its count.
#pragma once

#include <functional>
#include <span>

#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {

/// The models that a driver's library has, the default one first. Defined by the library.
std::span<const Model> models();
/// What the simulated plugin is for, as the vendor's real one says it. Defined by the library.
std::string_view platform_name();
/// Makes a device the calling thread's own, as the driver's call for that does. Defined by the
/// library.
void choose_device(Machine& machine, int device);
/// Returns which device is the calling thread's own. Defined by the library.
int chosen_device(Machine& machine);

/// Runs a call of a driver's function on the machine and returns how it ended: as the settings want
/// it to fail, refused in a forked child, after the process's exit, before `initialize`, or within
/// a function that a stream calls.
Code enter(const char* function, const std::function<void(Machine&, const Call&)>& body);

/// Is what `enter` requires before all other calls.
Code initialize(const char* function);

/// Runs a call that needs no machine that is initialised.
Code enter_early(const char* function, const std::function<void(const Settings&)>& body);

}  // namespace devrt::gpu_simulator
