/* The buffer protocol of arrays, on Python 3.11. */
#undef Py_LIMITED_API
#include "devrt/buffers/buffer_protocol.h"
#include "internal.h"

int devrt_lend_buffer_protocol(void) {
  PyGILState_STATE state = PyGILState_Ensure();
  int status = devrt_export_buffers();
  if (status != 0) PyErr_WriteUnraisable(NULL);
  PyGILState_Release(state);
  return status;
}
