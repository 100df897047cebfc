// The handlers of LAPACK's custom calls, by name.
#include "lapack.hpp"

#include <mutex>
#include <set>

#include "lapack_solve.hpp"
#include "lapack_spectral.hpp"

namespace devrt::cpu {

namespace {

using lapack::Routine;

template <class T, Routine R, void (*Work)(const pjrt::ffi::CallFrame&)>
void named(const pjrt::ffi::CallFrame& frame) {
  try {
    Work(frame);
  } catch (const StatusError& error) {
    const Status& status = error.status();
    throw StatusError(Status(status.code(), "The custom call lapack_" + lapack::name_of<T>(R) +
                                                "_ffi failed: " + error.what()));
  }
}

struct Handler {
  std::string routine;
  std::vector<std::string> targets;
  XLA_FFI_Handler function;
  std::atomic<void*>* address;
};

template <class T, Routine R, void (*Work)(const pjrt::ffi::CallFrame&)>
Handler make_handler() {
  const std::string name = lapack::name_of<T>(R);
  std::vector<std::string> targets = {"lapack_" + name + "_ffi"};
  if (R == Routine::kTrsm) targets.push_back("blas_" + name + "_ffi");  // its name until 2025
  return {name, std::move(targets), &pjrt::ffi::handle<named<T, R, Work>>,
          &lapack::address_of<T>(R)};
}

template <class T>
void append_handlers(std::vector<Handler>& to) {
  to.push_back(make_handler<T, Routine::kGees, lapack::gees<T>>());
  to.push_back(make_handler<T, Routine::kGeev, lapack::geev<T>>());
  to.push_back(make_handler<T, Routine::kGehrd, lapack::gehrd<T>>());
  to.push_back(make_handler<T, Routine::kGeqp3, lapack::geqp3<T>>());
  to.push_back(make_handler<T, Routine::kGeqrf, lapack::geqrf<T>>());
  to.push_back(make_handler<T, Routine::kGesdd, lapack::gesdd<T>>());
  to.push_back(make_handler<T, Routine::kGesvd, lapack::gesvd<T>>());
  to.push_back(make_handler<T, Routine::kGetrf, lapack::getrf<T>>());
  to.push_back(make_handler<T, Routine::kGtsv, lapack::gtsv<T>>());
  to.push_back(make_handler<T, Routine::kOrgqr, lapack::orgqr<T>>());
  to.push_back(make_handler<T, Routine::kOrmqr, lapack::ormqr<T>>());
  to.push_back(make_handler<T, Routine::kPotrf, lapack::potrf<T>>());
  to.push_back(make_handler<T, Routine::kSyevd, lapack::syevd<T>>());
  to.push_back(make_handler<T, Routine::kSytrd, lapack::sytrd<T>>());
  to.push_back(make_handler<T, Routine::kTrsm, lapack::trsm<T>>());
}

const std::vector<Handler>& handlers() {
  static const auto* const all = [] {
    auto* made = new std::vector<Handler>;
    append_handlers<float>(*made);
    append_handlers<double>(*made);
    append_handlers<std::complex<float>>(*made);
    append_handlers<std::complex<double>>(*made);
    return made;
  }();
  return *all;
}

void set_addresses(const std::map<std::string, void*>& addresses) {
  for (const Handler& handler : handlers()) {
    const auto found = addresses.find(handler.routine);
    if (found == addresses.end() || !found->second) {
      raise_invalid("The LAPACK library has no routine '" + handler.routine + "'.",
                    "compile_and_load");
    }
  }
  for (const Handler& handler : handlers()) {
    void* none = nullptr;
    handler.address->compare_exchange_strong(none, addresses.at(handler.routine));
  }
}

}  // namespace

std::vector<std::string> lapack_routines() {
  std::vector<std::string> names;
  for (const Handler& handler : handlers()) names.push_back(handler.routine);
  return names;
}

std::vector<std::string> lapack_custom_calls() {
  std::vector<std::string> names;
  for (const Handler& handler : handlers()) {
    names.insert(names.end(), handler.targets.begin(), handler.targets.end());
  }
  return names;
}

void provide_lapack(const std::string& library, const std::map<std::string, void*>& addresses) {
  static std::mutex mutex;
  static auto* const known = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (known->contains(library)) return;
  set_addresses(addresses);
  const auto api = pjrt::Api::load(library);
  for (const Handler& handler : handlers()) {
    for (const std::string& target : handler.targets) {
      pjrt::ffi::register_handler(*api, "Host", target, handler.function);
    }
  }
  known->insert(library);
}

}  // namespace devrt::cpu
