/* What a module for simulated devices is made of. A module is a shared object of the host; a kernel
 * in it is a function with the name of the kernel, and beside it the sizes of its parameters:
 *
 *   void scale(const devrt_simulator_launch* launch, void* const* parameters);
 *   const unsigned scale_parameters[] = {8, 4, 0};
 *
 * It is called once for each block of the grid and does the work of all its threads. A pointer
 * among its parameters is a device's address, which it must not dereference: `read` and `write`
 * return where the bytes are. They note that the kernel reads or writes all of them. */
#ifndef DEVRT_SIMULATOR_KERNEL_H_
#define DEVRT_SIMULATOR_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct devrt_simulator_launch {
  size_t struct_size;
  unsigned grid[3];
  unsigned block[3];
  unsigned block_index[3];
  void* shared; /* of this block */
  size_t shared_bytes;
  void* context; /* for the functions */
  const void* (*read)(void* context, uint64_t address, size_t bytes);
  void* (*write)(void* context, uint64_t address, size_t bytes);
} devrt_simulator_launch;

typedef void (*devrt_simulator_kernel)(const devrt_simulator_launch* launch,
                                       void* const* parameters);

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_SIMULATOR_KERNEL_H_ */
