/* The fake plugin's kernels, as modules for simulated devices have them. */
#include "gpu_simulator/kernel.h"

/* One block adds all elements. */
void add(const devrt_simulator_launch* launch, void* const* parameters) {
  const uint64_t count = *(const uint64_t*)parameters[3];
  const size_t bytes = count * sizeof(float);
  const float* a = launch->read(launch->context, *(const uint64_t*)parameters[0], bytes);
  const float* b = launch->read(launch->context, *(const uint64_t*)parameters[1], bytes);
  float* to = launch->write(launch->context, *(const uint64_t*)parameters[2], bytes);
  for (uint64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}
const unsigned add_parameters[] = {8, 8, 8, 8, 0};
