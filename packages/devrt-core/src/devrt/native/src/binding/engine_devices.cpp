// The engine of a client that is one of a job's: its store is Python's.
#include "binding/engine_devices.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binding/call_gate.hpp"
#include "binding/signals.hpp"
#include "devrt/base/fork_guard.hpp"
#include "execution/engine.hpp"

namespace devrt::native {

namespace {

constexpr char kJoining[] = "compile_and_load";

[[noreturn]] void cancel(const char* why) {
  throw StatusError(Status(StatusCode::kCancelled, why).during(kJoining));
}

/// The keys of a job as a `devrt.native.engine_job.PluginKeys` has them.
class PythonStore final : public pjrt::KeyValueStore {
 public:
  explicit PythonStore(nb::object keys) : keys_(keys.ptr()), owner_(keep_object(std::move(keys))) {
    use_call_gate();
  }

  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    return ask("get", key, [&] { return nb::object(nb::int_(timeout.count())); });
  }
  std::string try_get(std::string_view key) override {
    return ask("try_get", key, [] { return nb::none(); });
  }
  void set(std::string_view key, std::string_view value) override {
    (void)ask("set", key, [&] { return nb::object(nb::bytes(value.data(), value.size())); });
  }

 private:
  /// Calls a method of the keys, in whatever thread the plugin asks.
  template <class Argument>
  std::string ask(const char* method, std::string_view key, const Argument& argument) {
    if (fork_.is_child()) cancel("this process was forked from one of the job, and is none of it");
    if (!call_gate().enter()) cancel("the process's Python interpreter ends");
    std::pair<StatusCode, std::string> answer;
    {
      const GilHold hold;
      answer = ask_python(method, key, argument);
    }
    call_gate().leave();
    if (answer.first == StatusCode::kOk) return std::move(answer.second);
    throw StatusError(Status(answer.first, std::move(answer.second)).during(kJoining));
  }

  template <class Argument>
  std::pair<StatusCode, std::string> ask_python(const char* method, std::string_view key,
                                                const Argument& argument) noexcept try {
    const nb::object found =
        keys_.attr("answer")(nb::str(method), nb::bytes(key.data(), key.size()), argument());
    const nb::bytes value = nb::cast<nb::bytes>(found[1]);
    return {static_cast<StatusCode>(nb::cast<int>(found[0])),
            std::string(value.c_str(), value.size())};
  } catch (nb::python_error& error) {
    std::pair<StatusCode, std::string> failed(StatusCode::kInternal, error.what());
    error.discard_as_unraisable("a plugin's keys");
    return failed;
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, error.what()};
  }

  const nb::handle keys_;
  const ExternalOwner owner_;
  const ForkGuard fork_;
};

/// What a plugin says of devices: its numbers of this process's, and of those of all.
struct KnownDevices {
  std::vector<std::int64_t> mine;
  std::vector<pjrt::DeviceNumber> all;
};

}  // namespace

nb::object engine_devices(Client& client, const std::string& library) {
  const auto numbers = std::make_shared<std::vector<std::int64_t>>();
  call_apart([=, on = client.shared()] { *numbers = on->engine(library)->numbers(); });
  return to_tuple(*numbers);
}

nb::object join_engine(Client& client, const std::string& library, nb::object keys) {
  const auto known = std::make_shared<KnownDevices>();
  const auto store = std::make_shared<PythonStore>(std::move(keys));
  call_apart([=, on = client.shared()] {
    const std::shared_ptr<Engine> engine = on->engine(library, store);
    *known = {engine->numbers(), engine->client().all_numbers()};
  });
  nb::list all;
  for (const pjrt::DeviceNumber& device : known->all) {
    all.append(nb::make_tuple(device.process, device.id));
  }
  return nb::make_tuple(to_tuple(known->mine), all);
}

}  // namespace devrt::native
