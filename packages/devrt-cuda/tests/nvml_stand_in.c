/* The functions of libnvidia-ml.so.1 that devrt calls, on three devices that are not there: the
 * first two have four links to an NVSwitch, the first and the third two links to each other. */
#include <stdio.h>
#include <string.h>

enum { kSuccess = 0, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7 };

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} Pci;
typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  unsigned gpu, memory;
} Utilization;
typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned gpu, compute;
} Process;

static const char* const addresses[] = {"0000:3d:00.0", "0000:3e:00.0", "0000:3f:00.0"};
static int handles[3];

static int number(const int* handle) { return (int)(handle - handles); }

int nvmlInitWithFlags(unsigned flags) { return (void)flags, kSuccess; }
int nvmlInit_v2(void) { return kSuccess; }
int nvmlShutdown(void) { return kSuccess; }
const char* nvmlErrorString(int code) { return code == kNotFound ? "Not Found" : "Other"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, int** handle) {
  for (int i = 0; i < 3; ++i)
    if (!strcmp(address, addresses[i])) return *handle = &handles[i], kSuccess;
  return kNotFound;
}

int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 3, kSuccess; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, int** handle) {
  return *handle = &handles[index], kSuccess;
}
int nvmlDeviceGetName(const int* handle, char* name, unsigned size) {
  return snprintf(name, size, "NVIDIA Stand-in %d", number(handle)), kSuccess;
}
int nvmlDeviceGetPciInfo_v3(const int* handle, Pci* pci) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->bus_id, sizeof pci->bus_id, "0000%s", addresses[number(handle)]);
  return kSuccess;
}

/* Links 0 to 3 lead to the switch, 4 and 5 to the other device. */
int nvmlDeviceGetNvLinkState(const int* handle, unsigned link, unsigned* active) {
  if (link > 5) return kNotSupported;
  const int i = number(handle);
  *active = link < 4 ? i < 2 : i != 1;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(const int* handle, unsigned link, unsigned* type) {
  (void)handle;
  return *type = link < 4 ? 2 : 0, kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(const int* handle, unsigned link, Pci* pci) {
  (void)link;
  memset(pci, 0, sizeof *pci);
  const char* remote = addresses[number(handle) == 0 ? 2 : 0];
  snprintf(pci->bus_id, sizeof pci->bus_id, "0000%s", remote);
  return kSuccess;
}

int nvmlDeviceGetNumaNodeId(const int* handle, int* node) {
  if (number(handle)) return kNotSupported;
  return *node = 9, kSuccess;
}
int nvmlDeviceGetMemoryInfo(const int* handle, Memory* memory) {
  (void)handle;
  return *memory = (Memory){80ull << 30, 77ull << 30, 3ull << 30}, kSuccess;
}
int nvmlDeviceGetUtilizationRates(const int* handle, Utilization* rates) {
  if (number(handle) == 1) return kNotSupported;
  return *rates = (Utilization){37, 5}, kSuccess;
}
int nvmlDeviceGetTemperature(const int* handle, int sensor, unsigned* degrees) {
  return (void)handle, (void)sensor, *degrees = 41, kSuccess;
}
int nvmlDeviceGetPowerUsage(const int* handle, unsigned* milliwatts) {
  return (void)handle, *milliwatts = 71500, kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(const int* handle, unsigned* count, Process* found) {
  if (number(handle) == 1) return *count = 0, kSuccess;
  if (*count < 1) return *count = 1, kInsufficientSize;
  return *count = 1, *found = (Process){4242, 2ull << 30, ~0u, ~0u}, kSuccess;
}
/* The first device has a process that draws too, and one that only draws, of unknown memory. */
int nvmlDeviceGetGraphicsRunningProcesses_v3(const int* handle, unsigned* count, Process* found) {
  if (number(handle)) return *count = 0, kSuccess;
  if (*count < 2) return *count = 2, kInsufficientSize;
  found[0] = (Process){4242, 1ull << 20, ~0u, ~0u};
  found[1] = (Process){17, ~0ull, ~0u, ~0u};
  return *count = 2, kSuccess;
}
