// The handlers of LAPACK's custom calls, by name.
#include "lapack/lapack.hpp"

#include <mutex>
#include <set>

#include "execution/engine.hpp"
#include "lapack/lapack_solve.hpp"
#include "lapack/lapack_spectral.hpp"
#include "lapack/sparse.hpp"
#include "lapack/tridiagonal.hpp"

namespace devrt::cpu {

namespace {

using lapack::Routine;

[[noreturn]] void raise_named(const std::string& name, const StatusError& error) {
  throw StatusError(
      Status(error.status().code(), "The custom call " + name + " failed: " + error.what()));
}

template <class T, Routine R, void (*Work)(const pjrt::ffi::CallFrame&)>
void named(const pjrt::ffi::CallFrame& frame) {
  try {
    Work(frame);
  } catch (const StatusError& error) {
    raise_named("lapack_" + lapack::name_of<T>(R) + "_ffi", error);
  }
}

template <const char* Name, void (*Work)(const pjrt::ffi::CallFrame&)>
void named_other(const pjrt::ffi::CallFrame& frame) {
  try {
    Work(frame);
  } catch (const StatusError& error) {
    raise_named(Name, error);
  }
}

struct Target {
  std::string name;
  XLA_FFI_Handler function;
};

constexpr char kSparse[] = "cpu_csr_sparse_dense_ffi";
constexpr char kTridiagonal[] = "tridiagonal_solve_perturbed_ffi";

/// What jax leaves to custom calls beside LAPACK's routines.
const std::vector<Target>& others() {
  static const auto* const all = new std::vector<Target>{
      {kSparse, &pjrt::ffi::handle<named_other<kSparse, lapack::multiply_csr>>},
      {kTridiagonal, &pjrt::ffi::handle<named_other<kTridiagonal, lapack::solve_perturbed>>}};
  return *all;
}

struct Handler {
  std::string routine;
  std::vector<Target> targets;
  std::atomic<void*>* address;
};

template <class T, Routine R, void (*Work)(const pjrt::ffi::CallFrame&)>
Handler make_handler() {
  const std::string name = lapack::name_of<T>(R);
  const XLA_FFI_Handler function = &pjrt::ffi::handle<named<T, R, Work>>;
  Handler handler{name, {{"lapack_" + name + "_ffi", function}}, &lapack::address_of<T>(R)};
  if (R == Routine::kTrsm) handler.targets.push_back({"blas_" + name + "_ffi", function});
  return handler;
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
    for (const Target& target : handler.targets) names.push_back(target.name);
  }
  for (const Target& target : others()) names.push_back(target.name);
  return names;
}

void provide_lapack(const std::string& library, const std::map<std::string, void*>& addresses) {
  static std::mutex mutex;
  static auto* const known = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (known->contains(library)) return;
  set_addresses(addresses);
  const auto api = native::load_engine(library);
  for (const Handler& handler : handlers()) {
    for (const Target& target : handler.targets) {
      pjrt::ffi::register_handler(*api, "Host", target.name, target.function);
    }
  }
  for (const Target& target : others()) {
    pjrt::ffi::register_handler(*api, "Host", target.name, target.function);
  }
  known->insert(library);
}

}  // namespace devrt::cpu
