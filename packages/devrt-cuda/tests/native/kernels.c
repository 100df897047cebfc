/* Kernels of the tests, as modules for simulated devices have them. */
#include "gpu_simulator/kernel.h"

/* Adds a value to bytes: block i those that its threads have. */
void add(const devrt_simulator_launch* launch, void* const* parameters) {
  const uint64_t data = *(const uint64_t*)parameters[0];
  const unsigned value = *(const unsigned*)parameters[1];
  const size_t count = launch->block[0];
  const uint64_t begin = data + launch->block_index[0] * count;
  const unsigned char* from = launch->read(launch->context, begin, count);
  unsigned char* to = launch->write(launch->context, begin, count);
  for (size_t i = 0; i < count; ++i) to[i] = (unsigned char)(from[i] + value);
}
const unsigned add_parameters[] = {8, 4, 0};

/* Fills bytes. */
void fill(const devrt_simulator_launch* launch, void* const* parameters) {
  const uint64_t data = *(const uint64_t*)parameters[0];
  const uint64_t count = *(const uint64_t*)parameters[1];
  unsigned char* to = launch->write(launch->context, data, count);
  for (uint64_t i = 0; i < count; ++i) to[i] = 7;
}
const unsigned fill_parameters[] = {8, 8, 0};

/* Adds two arrays of float, and leaves both as they are. */
void sum(const devrt_simulator_launch* launch, void* const* parameters) {
  const uint64_t count = *(const uint64_t*)parameters[3];
  const size_t bytes = count * sizeof(float);
  const float* a = launch->read(launch->context, *(const uint64_t*)parameters[0], bytes);
  const float* b = launch->read(launch->context, *(const uint64_t*)parameters[1], bytes);
  float* to = launch->write(launch->context, *(const uint64_t*)parameters[2], bytes);
  for (uint64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}
const unsigned sum_parameters[] = {8, 8, 8, 8, 0};
