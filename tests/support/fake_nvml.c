/* A stand-in for libnvidia-ml.so.1, so that nvidia-ml-py can be tried without a GPU: two GPUs. */
#include <stdio.h>
typedef struct { int index; } Device;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
static Device devices[2] = {{0}, {1}};

int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 2 ? "Invalid Argument" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
  if (index > 1) return 2;
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetUUID(Device *device, char *text, unsigned length) {
  snprintf(text, length, "GPU-00000000-0000-0000-0000-%012d", device->index);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
  char own[80];
  for (int i = 0; i < 2; i++) {
    nvmlDeviceGetUUID(&devices[i], own, sizeof own);
    int k = 0;
    while (own[k] && own[k] == uuid[k]) k++;
    if (!own[k] && !uuid[k]) { *device = &devices[i]; return 0; }
  }
  return 6; /* not found */
}
int nvmlDeviceGetName(Device *device, char *text, unsigned length) {
  (void)device;
  snprintf(text, length, "Stand-in GPU");
  return 0;
}
int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
  (void)device;
  memory->total = 16ULL << 30; memory->used = 1ULL << 30; memory->free = memory->total - memory->used;
  return 0;
}
int nvmlDeviceGetUtilizationRates(Device *device, Utilization *utilization) {
  utilization->gpu = 10 * (device->index + 1); utilization->memory = 5;
  return 0;
}
