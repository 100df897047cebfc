/* The C struct by which a plugin lends an allocator of host memory to a client.
 *
 * MemoryKind.allocator() returns a PyCapsule named DEVRT_HOST_ALLOCATOR_CAPSULE that holds a
 * pointer to one of these. The struct and its context must live as long as the capsule does.
 */
#ifndef DEVRT_HOST_ALLOCATOR_H_
#define DEVRT_HOST_ALLOCATOR_H_

#include <stddef.h>

#define DEVRT_HOST_ALLOCATOR_CAPSULE "devrt_host_allocator"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct devrt_host_allocator {
  /** sizeof(devrt_host_allocator) of the side that filled the struct. */
  size_t struct_size;
  /** Passed back to both functions. */
  void* ctx;
  /** Returns `bytes` > 0 bytes at a multiple of `alignment` (a power of two), or NULL. Any thread.
   */
  void* (*allocate)(void* ctx, size_t bytes, size_t alignment);
  /** Takes back what `allocate` returned for the same `bytes`. Must not fail, nor wait for the GIL.
   */
  void (*deallocate)(void* ctx, void* data, size_t bytes);
} devrt_host_allocator;

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_HOST_ALLOCATOR_H_ */
