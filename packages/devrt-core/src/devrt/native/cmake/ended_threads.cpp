// Compiled into every backend module, and linked with --wrap=__gxx_personality_v0.
//
// Once the interpreter goes, CPython before 3.14 ends a daemon thread that asks for the GIL by
// pthread_exit, and glibc ends a thread by unwinding its stack. C++ frames in the way would run
// their destructors and release Python objects without the GIL. The unwinder asks the personality
// routine of each such frame what to do, and this one lets the thread sleep at the first frame of
// the module until the process is gone, as CPython itself does since 3.14.
//
// Source: the Itanium C++ ABI, "Exception Handling", level I (forced unwinding) and level II.
#include <dlfcn.h>
#include <unistd.h>
#include <unwind.h>

extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class kind,
                                                _Unwind_Exception* thrown,
                                                _Unwind_Context* context);

/// Returns whether the interpreter is going; needs no GIL. The stable ABI has no name for it.
static int devrt_interpreter_is_going() {
  using Query = int (*)();
  void* found = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
  if (!found) found = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
  return found ? reinterpret_cast<Query>(found)() : 0;
}

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class kind,
                                                _Unwind_Exception* thrown,
                                                _Unwind_Context* context) {
  // The thread that ends the interpreter is never ended so; pthread_cancel comes here as well.
  if ((actions & _UA_FORCE_UNWIND) != 0 && devrt_interpreter_is_going()) {
    for (;;) pause();
  }
  return __real___gxx_personality_v0(version, actions, kind, thrown, context);
}

}  // extern "C"
