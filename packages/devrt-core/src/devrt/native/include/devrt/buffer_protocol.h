/* The buffer protocol of Python classes on Python 3.11, which reads `__buffer__` from 3.12 on only.
 *
 * Plain C, for one file of a module: the slot lies in a struct that the limited API does not show,
 * so that this header is included with Py_LIMITED_API undefined. The module stays an abi3 one: the
 * struct is that of 3.11, where alone it is touched, and every function called is of the stable
 * ABI.
 */
#pragma once

#include <Python.h>

#if defined(Py_LIMITED_API)
#error "undefine Py_LIMITED_API in the file that includes devrt/buffer_protocol.h"
#endif

/* Asks `_exported` for the object that shows the data, and shows that. The view refers to it, so
 * that releasing the view needs nothing of the class. */
static int devrt_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  static PyObject* name;
  view->obj = NULL;
  if (!name && !(name = PyUnicode_InternFromString("_exported"))) return -1;
  PyObject* asked = PyLong_FromLong(flags);
  if (!asked) return -1;
  PyObject* shown = PyObject_CallMethodObjArgs(self, name, asked, NULL);
  Py_DECREF(asked);
  if (!shown) return -1;
  int status = PyObject_GetBuffer(shown, view, flags);
  Py_DECREF(shown);
  return status;
}

static inline void devrt_export_class(PyObject* cls) {
  PyBufferProcs* slots = ((PyTypeObject*)cls)->tp_as_buffer;
  if (slots && !slots->bf_getbuffer) slots->bf_getbuffer = devrt_get_buffer;
}

/* Lets `memoryview` and its like take instances of `devrt.contract.BufferExporter`. Called when a
 * backend's module is imported, with the GIL; classes that derive from it later inherit the slot.
 * Returns 0, or -1 with a Python error. */
static inline int devrt_export_buffers(void) {
  if (Py_Version >> 16 != 0x030B) return 0;
  PyObject* contract = PyImport_ImportModule("devrt.contract");
  PyObject* base = contract ? PyObject_GetAttrString(contract, "BufferExporter") : NULL;
  PyObject* classes = base ? PyObject_CallMethod(base, "__subclasses__", NULL) : NULL;
  if (classes) {
    devrt_export_class(base);
    for (Py_ssize_t i = 0; i < PyList_Size(classes); ++i) {
      devrt_export_class(PyList_GetItem(classes, i));
    }
  }
  Py_XDECREF(contract);
  Py_XDECREF(base);
  Py_XDECREF(classes);
  return classes ? 0 : -1;
}
