/* The C struct by which a plugin lends an allocator of host memory to a client.
 *
 * MemoryKind.allocator() returns a PyCapsule named DEVRT_HOST_ALLOCATOR_CAPSULE that holds a
 * pointer to one of these. The struct and its context must live as long as the capsule does.
 */
#ifndef DEVRT_HOST_ALLOCATOR_H_
#define DEVRT_HOST_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>

#define DEVRT_HOST_ALLOCATOR_CAPSULE "devrt_host_allocator"

#ifdef __cplusplus
extern "C" {
#endif

/** A number that an allocator tells about itself; memory_stats() shows it under its name. */
typedef struct devrt_allocator_fact {
  /** Lives as long as the allocator. */
  const char* name;
  int64_t value;
} devrt_allocator_fact;

typedef struct devrt_host_allocator {
  /** sizeof(devrt_host_allocator) of the side that filled the struct. */
  size_t struct_size;
  /** Passed back to every function. */
  void* ctx;
  /** Returns `bytes` > 0 bytes at a multiple of `alignment` (a power of two), or NULL. Any thread.
   */
  void* (*allocate)(void* ctx, size_t bytes, size_t alignment);
  /** Takes back what `allocate` returned for the same `bytes`. Must not fail, nor wait for the GIL.
   */
  void (*deallocate)(void* ctx, void* data, size_t bytes);

  /* What follows may be missing (a smaller struct_size) or NULL. */

  /** Writes at most `capacity` facts to `out`; returns how many there are. Any thread. */
  size_t (*facts)(void* ctx, devrt_allocator_fact* out, size_t capacity);
  /** Gives back what is held and not in use. Any thread. */
  void (*trim)(void* ctx);
} devrt_host_allocator;

/** The least struct_size: that of a struct which ends after `deallocate`. */
#define DEVRT_HOST_ALLOCATOR_MIN_SIZE offsetof(devrt_host_allocator, facts)

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_HOST_ALLOCATOR_H_ */
