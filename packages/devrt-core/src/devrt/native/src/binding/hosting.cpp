// What a client needs of the interpreter that it lives in: the GIL, signals, and the store that its
// processes share.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "binding/python.hpp"
#include "client/release_queue.hpp"

namespace devrt::native {

namespace {

// Of clients with a distributed client. Under the GIL; never destroyed, for the exit handler.
std::vector<std::weak_ptr<Client>>& clients_with_stores() {
  static auto* clients = new std::vector<std::weak_ptr<Client>>;
  return *clients;
}

}  // namespace

/// Calls a function that waits, without the GIL.
void wait_unlocked(const std::function<void()>& wait) {
  if (GilRelease::is_active()) return wait();
  GilRelease released;
  wait();
}

/// Throws what the handlers of signals raise, with the GIL or without.
void check_signals() {
  if (GilRelease::is_active()) {
    const GilRelease::Pause pause;
    const nb::gil_scoped_acquire acquired;
    return check_signals();
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void attach_store(const std::shared_ptr<Client>& client, nb::object store) {
  auto& clients = clients_with_stores();
  std::erase_if(clients, [](const auto& each) { return each.expired(); });
  clients.push_back(client);
  PyObject* object = store.ptr();
  client->attach(object, keep_object(std::move(store)));
}

void release_stores() noexcept {
  for (const auto& each : clients_with_stores()) {
    if (const std::shared_ptr<Client> client = each.lock()) client->attach(nullptr, {});
  }
  drain_release_queue();
}

}  // namespace devrt::native
