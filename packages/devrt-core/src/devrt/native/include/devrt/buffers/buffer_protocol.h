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
#error "undefine Py_LIMITED_API in the file that includes devrt/buffers/buffer_protocol.h"
#endif

/* Asks `_exported` for the object that shows the data, and shows that. The view refers to it, so
 * that releasing the view needs nothing of the class. Text says why nothing shows the data: NumPy
 * asks in every reading and drops the error, so that it is to cost little. */
static int devrt_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  static PyObject* name;
  view->obj = NULL;
  if (!name && !(name = PyUnicode_InternFromString("_exported"))) return -1;
  PyObject* wanted = PyLong_FromLong(flags);
  if (!wanted) return -1;
  PyObject* shown = PyObject_CallMethodObjArgs(self, name, wanted, NULL);
  Py_DECREF(wanted);
  if (!shown) return -1;
  int status = -1;
  if (PyUnicode_Check(shown)) {
    PyErr_SetObject(PyExc_BufferError, shown);
  } else {
    status = PyObject_GetBuffer(shown, view, flags);
  }
  Py_DECREF(shown);
  return status;
}

/* Fills the slot of a class and of all that derive from it. Returns 0, or -1 with an error. */
static inline int devrt_export_class(PyObject* cls) {
  PyBufferProcs* slots = ((PyTypeObject*)cls)->tp_as_buffer;
  if (slots && !slots->bf_getbuffer) slots->bf_getbuffer = devrt_get_buffer;
  PyObject* classes = PyObject_CallMethod(cls, "__subclasses__", NULL);
  int status = classes ? 0 : -1;
  for (Py_ssize_t i = 0; status == 0 && i < PyList_Size(classes); ++i) {
    status = devrt_export_class(PyList_GetItem(classes, i));
  }
  Py_XDECREF(classes);
  return status;
}

/* Lets `memoryview` and its like take instances of `devrt.contract.BufferExporter`. Called when a
 * backend's module is imported, with the GIL; classes that derive from it later inherit the slot.
 * Returns 0, or -1 with a Python error. */
static inline int devrt_export_buffers(void) {
  if (Py_Version >> 16 != 0x030B) return 0;
  PyObject* contract = PyImport_ImportModule("devrt.contract");
  PyObject* base = contract ? PyObject_GetAttrString(contract, "BufferExporter") : NULL;
  int status = base ? devrt_export_class(base) : -1;
  Py_XDECREF(contract);
  Py_XDECREF(base);
  return status;
}
