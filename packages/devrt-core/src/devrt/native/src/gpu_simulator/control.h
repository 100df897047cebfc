/* What a test says to a simulated driver beside the driver's own functions. A library that stands
 * in for a driver exports these, found by dlsym:
 *
 *   devrt_simulator_configure  begins a new machine; what the last one gave out is void. Takes
 *                              "name=value" separated by blanks; returns null, or what is wrong.
 *   devrt_simulator_reports    what was found wrong with the client, a line each; forgets them if
 *                              `clear` is not 0.
 *   devrt_simulator_count      how often a function of the driver was called since then, by its
 *                              exported name; of all for "".
 *   devrt_simulator_calls_here how many calls this thread has made in all.
 *   devrt_simulator_living     what is not released: "device=0 managed=0 pinned=0 registered=0
 *                              streams=0 events=0 modules=0 communicators=0 contexts=0".
 *   devrt_simulator_lose       a device is lost now.
 *   devrt_simulator_compile_with  names the PJRT plugin of a compiler for the CPU. The library is a
 *                              PJRT plugin too, for its simulated devices: that compiler runs their
 *                              programs. The first one named is used.
 *
 * Strings stay until the thread's next call. The settings:
 *
 *   model=KEY        the kind of device (the library has a table of a few)
 *   devices=N        how many (1); group=N: only devices of a group of N have links to each other
 *   links=0          no device has a link; pools=0: no memory pools
 *   managed=0        the host may not use managed memory while a device works
 *   memory=BYTES     of each device (1 GiB, whatever the model has)
 *   seed=N delay=US  each operation waits up to so many microseconds (20), by the seed
 *   driver_version=N what the driver says; missing=FUNCTION: it lacks this one (repeat for more)
 *   plugin_devices=reversed  the plugin has the devices from the last to the first; =others: it
 *                    says numbers that are none of the driver's
 *   fail=FUNCTION:N:CODE  the N-th call fails, with a name of `settings.cpp` (repeat for more)
 *   oom=BYTES        allocations of this size or more fail
 *   lose=DEVICE:N    the device is lost at its N-th operation
 *   uninitialised=0  reads of bytes that nothing wrote are not reported
 *   wrong_contexts=0 calls that are refused since another context is current are not reported
 *   print=1          reports go to the standard error stream as well
 *   explain_faults=1 says on the standard error stream that a fault is of a device's address */
#ifndef DEVRT_SIMULATOR_CONTROL_H_
#define DEVRT_SIMULATOR_CONTROL_H_

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((visibility("default"))) const char* devrt_simulator_configure(const char* settings);
__attribute__((visibility("default"))) const char* devrt_simulator_reports(int clear);
__attribute__((visibility("default"))) unsigned long long devrt_simulator_count(
    const char* function);
__attribute__((visibility("default"))) unsigned long long devrt_simulator_calls_here(void);
__attribute__((visibility("default"))) const char* devrt_simulator_living(void);
__attribute__((visibility("default"))) void devrt_simulator_lose(int device);
__attribute__((visibility("default"))) void devrt_simulator_compile_with(const char* library);

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_SIMULATOR_CONTROL_H_ */
