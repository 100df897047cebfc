// What the functions that make clients have in common.
#pragma once

#include <chrono>
#include <string>

#include "binding/python.hpp"

namespace devrt::native {

/// Returns what `traceback_in_buffers` says; throws INVALID_ARGUMENT on other words.
Traceback to_traceback_mode(const std::string& name);
/// Returns at least one millisecond for what is above zero, a year at most, and else zero.
std::chrono::milliseconds to_milliseconds(double seconds);
/// Lets a client wait, and hear of signals, as Python does.
void join_python(ClientOptions& options);
/// Returns an exchange that calls a function of Python with this node's devices, as pairs of a
/// number and a kind, for the nodes' facts (`devrt.native.nodes.NodeFacts`); of None none.
NodesExchange to_exchange(nb::handle function);

/// Binds `make_client`, which takes the driver's own options too.
void bind_make_client(nb::module_& module);

}  // namespace devrt::native
