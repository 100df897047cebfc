// The simulated library for collectives, by the names of NCCL.
#define DEVRT_COLLECTIVES(name) nccl##name
#include "gpu_simulator/collective_exports.inc"
