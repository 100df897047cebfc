// Python's own kind of built-in function around C++ objects, which is called with no more than
// that.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "binding/python.hpp"

namespace devrt::native {

/// Calls what makes a Python object; returns null, with the Python error, for what it throws.
template <class Make>
PyObject* to_python(const Make& make) noexcept {
  try {
    return nb::object(make()).release().ptr();
  } catch (const StatusError& error) {
    set_python_error(error.status());
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  }
  return nullptr;
}

/// Makes a built-in function of a definition, which must live as long as the process, that owns an
/// object. nanobind's own functions look at every argument before they call anything.
template <class Target>
nb::object make_builtin(PyMethodDef& definition, std::unique_ptr<Target> target) {
  const nb::capsule owner(target.get(),
                          [](void* owned) noexcept { delete static_cast<Target*>(owned); });
  (void)target.release();
  nb::object made = nb::steal(PyCFunction_New(&definition, owner.ptr()));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

/// Returns the object that such a function owns, as it gets it for `self`.
template <class Target>
Target* target_of(PyObject* self) noexcept {
  return static_cast<Target*>(PyCapsule_GetPointer(self, nullptr));
}

/// Returns the object of a function if it was made of that definition; null for any other value.
template <class Target>
Target* find_target(nb::handle value, const PyMethodDef& definition) noexcept {
  if (!PyCFunction_CheckExact(value.ptr()) ||
      PyCFunction_GetFunction(value.ptr()) != definition.ml_meth) {
    return nullptr;
  }
  return target_of<Target>(PyCFunction_GetSelf(value.ptr()));
}

}  // namespace devrt::native
