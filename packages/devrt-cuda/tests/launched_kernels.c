/* Kernels of the tests of launches, as simulated devices load them. */
#include "gpu_simulator/kernel.h"

/* Adds two arrays of int32 and a number. */
void add(const devrt_simulator_launch* launch, void* const* parameters) {
  const uint64_t x = *(const uint64_t*)parameters[0];
  const uint64_t y = *(const uint64_t*)parameters[1];
  const uint64_t out = *(const uint64_t*)parameters[2];
  const int32_t more = *(const int32_t*)parameters[3];
  const size_t count = launch->block[0];
  const uint64_t at = launch->block_index[0] * count * 4;
  const int32_t* a = launch->read(launch->context, x + at, 4 * count);
  const int32_t* b = launch->read(launch->context, y + at, 4 * count);
  int32_t* to = launch->write(launch->context, out + at, 4 * count);
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i] + more;
}
const unsigned add_parameters[] = {8, 8, 8, 4, 0};

/* Adds a multiple of an array of float to another. */
void axpy(const devrt_simulator_launch* launch, void* const* parameters) {
  const uint64_t x = *(const uint64_t*)parameters[0];
  const uint64_t y = *(const uint64_t*)parameters[1];
  const uint64_t out = *(const uint64_t*)parameters[2];
  const float by = *(const float*)parameters[3];
  const size_t count = launch->block[0];
  const uint64_t at = launch->block_index[0] * count * sizeof(float);
  const float* a = launch->read(launch->context, x + at, count * sizeof(float));
  const float* b = launch->read(launch->context, y + at, count * sizeof(float));
  float* to = launch->write(launch->context, out + at, count * sizeof(float));
  for (size_t i = 0; i < count; ++i) to[i] = by * a[i] + b[i];
}
const unsigned axpy_parameters[] = {8, 8, 8, 4, 0};

/* Writes what it was launched with. */
void shape(const devrt_simulator_launch* launch, void* const* parameters) {
  const uint64_t out = *(const uint64_t*)parameters[0];
  uint32_t* to = launch->write(launch->context, out, 7 * 4);
  for (size_t i = 0; i < 3; ++i) {
    to[i] = launch->grid[i];
    to[3 + i] = launch->block[i];
  }
  to[6] = (uint32_t)launch->shared_bytes;
}
const unsigned shape_parameters[] = {8, 0};
