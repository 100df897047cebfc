// The class of devrt's arrays, as native calls read arrays and make them.
#pragma once

#include "binding/python.hpp"

namespace devrt::native {

/// A slot of a Python class, by its descriptor: looked up once, as a name takes longer.
class Slot {
 public:
  Slot(nb::handle cls, const char* name)
      : descriptor_(cls.attr(name)),
        get_(reinterpret_cast<descrgetfunc>(slot_of(Py_tp_descr_get))),
        set_(reinterpret_cast<descrsetfunc>(slot_of(Py_tp_descr_set))) {
    if (!get_ || !set_) throw nb::type_error("array_caller takes a class with slots");
  }

  nb::object of(nb::handle object) const {
    nb::object value = nb::steal(get_(descriptor_.ptr(), object.ptr(), nullptr));
    if (!value.is_valid()) throw nb::python_error();
    return value;
  }

  void set(nb::handle object, nb::handle value) const {
    if (set_(descriptor_.ptr(), object.ptr(), value.ptr()) != 0) throw nb::python_error();
  }

 private:
  void* slot_of(int number) const {
    return PyType_GetSlot(reinterpret_cast<PyTypeObject*>(descriptor_.type().ptr()), number);
  }

  nb::object descriptor_;
  descrgetfunc get_;
  descrsetfunc set_;
};

/// The class of arrays, as far as calls read it and make instances of it.
class ArrayClass {
 public:
  explicit ArrayClass(nb::handle cls)
      : cls_(nb::borrow(cls)),
        allocate_(reinterpret_cast<allocfunc>(
            PyType_GetSlot(reinterpret_cast<PyTypeObject*>(cls.ptr()), Py_tp_alloc))),
        buffers(cls, "_buffers"),
        sharding(cls, "_sharding"),
        shape_(cls, "_shape"),
        committed_(cls, "_committed"),
        host_(cls, "_host"),
        shown_(cls, "_shown"),
        key_(cls, "_key") {}

  bool is_type_of(nb::handle value) const { return value.type().is(cls_); }

  /// Makes an array, as the class does where it is called.
  nb::object make(nb::handle of_buffers, nb::handle of_sharding, nb::handle shape,
                  nb::handle committed, nb::handle key) const {
    nb::object made = nb::steal(allocate_(reinterpret_cast<PyTypeObject*>(cls_.ptr()), 0));
    if (!made.is_valid()) throw nb::python_error();
    buffers.set(made, of_buffers);
    sharding.set(made, of_sharding);
    shape_.set(made, shape);
    committed_.set(made, committed);
    host_.set(made, nb::none());
    shown_.set(made, nb::none());
    key_.set(made, key);
    return made;
  }

 private:
  nb::object cls_;
  allocfunc allocate_;

 public:
  Slot buffers, sharding;

 private:
  Slot shape_, committed_, host_, shown_, key_;
};

}  // namespace devrt::native
