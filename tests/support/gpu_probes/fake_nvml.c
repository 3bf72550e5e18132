/* A stand-in for libnvidia-ml.so.1, so that nvidia-ml-py can be tried without a GPU.
 *
 * FAKE_NVML_GPUS   how many (2)
 * FAKE_NVML_MIG    this GPU is split into two MIG devices
 * FAKE_NVML_STATE  a file that is read at every call, with lines `lost INDEX`, `ecc INDEX COUNT`,
 *                  `process INDEX PID BYTES`, `holder INDEX PID BYTES` (while it locks the state file's .PID),
 *                  `xid INDEX CODE` (each code is told once), `blind 0`,
 *                  `init 0 CODE` and `count 0 CODE` (these calls fail), `handle INDEX CODE`, `mig INDEX CODE`,
 *                  `nvlink_down INDEX`; `recovery INDEX ACTION`, `remap INDEX PENDING FAILED`, `retired INDEX 1`,
 *                  `pcie INDEX GENERATION WIDTH`, `mode INDEX MODE`, `fabric INDEX STATE STATUS`, `degraded INDEX`,
 *                  `limit INDEX WATTS`, `slow INDEX BITS`; calls that do not come back while the line is there:
 *                  `hang INDEX`, `hang_init 0`, `hang_count 0`
 * FAKE_NVML_MODULE the version of the kernel module (that of this library); another one is a mismatch
 * FAKE_NVML_CARD   what it models, on x86: datacenter (Ampere or newer, driver 570), old (Volta, driver 470), geforce
 *
 * What each call answers is what NVIDIA's manual (NVML API Reference) says; test_nvml_stand_in.py compares.
 * Once `count` has failed everything does, until NVML is shut down and initialised again.
 *
 * Compiled with BARE it has only what every driver had ten years ago. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15, MISMATCH = 18, UNKNOWN = 999 };
enum { MAX = 16 };
typedef struct { int index, part; } Device; /* part: 0 for a whole GPU, else which MIG device */
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } Process;
typedef struct { Device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned counts[6], gpu_slices, compute_slices; unsigned long long megabytes; } Attributes;
typedef struct { unsigned id, scope; long long at, took; int type, answer; union { unsigned value; long long all; }; } Field;
typedef struct { unsigned version; unsigned char cluster[16]; int status; unsigned clique, state, health; } Fabric;
static Device devices[MAX][3];
#ifndef BARE
static int watched[MAX]; /* whose events were asked for */
#endif
static const char VERSION[] = "999.1";
static int users, stale; /* of this library; whether it must be initialised anew */

static int number(const char *name, int usual) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : usual;
}
static int count(void) { return number("FAKE_NVML_GPUS", 2); }

/* The n-th line `word INDEX a b` of the state file; 0 if there is none. */
static int state(const char *word, int index, int nth, long long *a, long long *b) {
  const char *path = getenv("FAKE_NVML_STATE");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[200], found[50];
  int which, hit = 0;
  while (file && !hit && fgets(line, sizeof line, file)) {
    long long x = 0, y = 0;
    if (sscanf(line, "%49s %d %lld %lld", found, &which, &x, &y) < 2) continue;
    if (strcmp(found, word) || which != index || nth--) continue;
    *a = x; *b = y; hit = 1;
  }
  if (file) fclose(file);
  return hit;
}
static int code(const char *word, int index) {
  long long a, b;
  return state(word, index, 0, &a, &b) ? (int)a : OK;
}
static void hang(const char *word, int index) {
  long long a, b;
  while (state(word, index, 0, &a, &b)) usleep(20000);
}
#ifndef BARE
static int is(const char *card) {
  const char *text = getenv("FAKE_NVML_CARD");
  return !strcmp(text && *text ? text : "datacenter", card);
}
#endif
/* Whether a process of fake_cuda.c lives, in whatever PID namespace. */
static int lives(long long pid) {
  char path[500];
  snprintf(path, sizeof path, "%s.%lld", getenv("FAKE_NVML_STATE"), pid);
  int file = open(path, O_RDONLY), locked = file >= 0 && flock(file, LOCK_EX | LOCK_NB);
  if (file >= 0) close(file);
  return locked;
}
/* The n-th `holder` of a GPU. */
static int holder(int index, int nth, long long *pid, long long *bytes) {
  for (int line = 0; state("holder", index, line, pid, bytes); line++)
    if (lives(*pid) && !nth--) return 1;
  return 0;
}
static unsigned long long used(Device *device) {
  unsigned long long total = (unsigned long long)(device->part ? device->part : 1) << 30;
  long long pid, bytes;
  for (int nth = 0; holder(device->index, nth, &pid, &bytes); nth++) total += bytes;
  return total;
}
static int trouble(Device *device) {
  long long a, b;
  if (!users) return UNINITIALIZED;
  if (stale) return UNKNOWN;
  hang("hang", device->index);
  if (state("blind", 0, 0, &a, &b)) return UNKNOWN;
  return state("lost", device->index, 0, &a, &b) ? LOST : OK;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  hang("hang_init", 0);
  const char *module = getenv("FAKE_NVML_MODULE");
  if (module && *module && strcmp(module, VERSION)) return MISMATCH;
  if (code("init", 0)) return code("init", 0);
  if (!users++) stale = 0;
  return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { users--; return OK; }
const char *nvmlErrorString(int code) {
  return code == LOST ? "GPU is lost" : code == UNKNOWN ? "Unknown Error" : "Stand-in Error";
}
int nvmlDeviceGetCount_v2(unsigned *found) {
  if (!users) return UNINITIALIZED;
  hang("hang_count", 0);
  if (code("count", 0)) stale = 1;
  *found = count();
  return code("count", 0) ? code("count", 0) : stale ? UNKNOWN : OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
  if ((int)index >= count()) return INVALID;
  for (int part = 0; part < 3; part++) devices[index][part] = (Device){(int)index, part};
  *device = &devices[index][0];
  return code("handle", index) ? code("handle", index) : trouble(*device);
}
int nvmlDeviceGetUUID(Device *device, char *text, unsigned length) {
  if (device->part) snprintf(text, length, "MIG-%08d-0000-0000-0000-%012d", device->part, device->index);
  else snprintf(text, length, "GPU-00000000-0000-0000-0000-%012d", device->index);
  return OK;
}
int nvmlDeviceGetName(Device *device, char *text, unsigned length) {
  snprintf(text, length, "Stand-in GPU");
  (void)device;
  return OK;
}
int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
  memory->total = (device->part ? 4ULL : 16ULL) << 30;
  memory->used = used(device) + (512ULL << 20);
  memory->free = memory->total - memory->used;
  return trouble(device);
}
#ifndef BARE
int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *memory) { /* what the driver keeps is no job's */
  memory->total = (device->part ? 4ULL : 16ULL) << 30;
  memory->reserved = 512ULL << 20;
  memory->used = used(device);
  memory->free = memory->total - memory->used - memory->reserved;
  return trouble(device);
}
#endif
int nvmlDeviceGetUtilizationRates(Device *device, Utilization *utilization) {
  utilization->gpu = 10 * (device->index + 1);
  utilization->memory = 5;
  return device->part ? UNSUPPORTED : trouble(device);
}
#ifndef BARE
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "%s", VERSION); return OK; }
int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *degrees) {
  (void)sensor;
  *degrees = 40 + device->index;
  return trouble(device);
}
int nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) {
  *milliwatts = 100500;
  return device->part ? UNSUPPORTED : trouble(device);
}
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *milliwatts) {
  *milliwatts = (code("limit", device->index) ? code("limit", device->index) : 400) * 1000;
  return trouble(device);
}
int nvmlDeviceGetPowerManagementDefaultLimit(Device *device, unsigned *milliwatts) {
  *milliwatts = 400000;
  return trouble(device);
}
int nvmlDeviceGetTemperatureThreshold(Device *device, int kind, unsigned *degrees) {
  *degrees = 91;
  return kind == 1 ? trouble(device) : UNSUPPORTED;
}
int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *millijoules) {
  *millijoules = 7000500;
  return trouble(device);
}
int nvmlDeviceGetClockInfo(Device *device, int kind, unsigned *mhz) {
  *mhz = kind == 1 ? 1410 : 1593;
  return trouble(device);
}
int nvmlDeviceGetTotalEccErrors(Device *device, int kind, int counter, unsigned long long *errors) {
  long long a, b;
  (void)counter;
  *errors = kind == 1 && state("ecc", device->index, 0, &a, &b) ? a : 0;
  return is("geforce") ? UNSUPPORTED : trouble(device);
}
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *reasons) {
  *reasons = 0x1 | (device->index ? 0 : 0x44) | code("slow", device->index);
  return trouble(device);
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *found, Process *processes) {
  unsigned room = *found;
  long long pid, bytes;
  if (trouble(device)) return trouble(device);
  for (*found = 0; state("process", device->index, *found, &pid, &bytes); ++*found)
    if (*found < room) processes[*found] = (Process){pid, bytes, 0, 0};
  for (int nth = 0; holder(device->index, nth, &pid, &bytes) && !kill((pid_t)pid, 0); nth++, ++*found)
    if (*found < room) processes[*found] = (Process){pid, bytes, 0, 0};
  return *found > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetMigMode(Device *device, unsigned *now, unsigned *next) {
  *now = *next = number("FAKE_NVML_MIG", -1) == device->index;
  return is("datacenter") ? code("mig", device->index) : UNSUPPORTED;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *most) { (void)device; *most = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **mig) {
  if (index > 1) return NOT_FOUND;
  *mig = &devices[device->index][index + 1];
  return OK;
}
int nvmlDeviceGetAttributes_v2(Device *device, Attributes *attributes) {
  (void)device;
  attributes->gpu_slices = 1;
  attributes->megabytes = 4864;
  return OK;
}
/* NVLink between neighbours: 0-1, 2-3, ... by two links each, unless `nvlink_down INDEX`; four GPUs a socket. */
int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *active) {
  long long a, b;
  if (is("geforce")) return UNSUPPORTED;
  if (link >= 4) return INVALID;
  *active = link < 2 && (device->index ^ 1) < count() && !state("nvlink_down", device->index, 0, &a, &b)
            && !state("nvlink_down", device->index ^ 1, 0, &a, &b);
  return trouble(device);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device *device, unsigned link, int *type) {
  (void)link;
  *type = 0;
  return trouble(device);
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, unsigned link, Pci *pci) {
  (void)link;
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", (device->index ^ 1) + 1);
  return trouble(device);
}
int nvmlDeviceGetTopologyCommonAncestor(Device *a, Device *b, int *level) {
  *level = a->index / 4 == b->index / 4 ? 30 : 50;
  return OK;
}
/* The manual: for platforms where the GPU's memory is a node of the machine (Grace). x86 is none. */
int nvmlDeviceGetNumaNodeId(Device *device, int *node) { (void)device; (void)node; return UNSUPPORTED; }
int nvmlDeviceGetPciInfo_v3(Device *device, Pci *pci) {
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", device->index + 1);
  return OK;
}
int nvmlDeviceGetMinorNumber(Device *device, unsigned *minor) { *minor = device->index; return OK; }
int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
  *major = 9;
  *minor = 0;
  return trouble(device);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Device *device, unsigned *value) { (void)device; *value = 4; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(Device *device, unsigned *value) { (void)device; *value = 16; return OK; }
/* Now: the generation falls while nothing is to be done, the width does not. */
int nvmlDeviceGetCurrPcieLinkGeneration(Device *device, unsigned *value) {
  long long a, b;
  *value = state("pcie", device->index, 0, &a, &b) ? a : 1;
  return trouble(device);
}
int nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *value) {
  long long a, b;
  *value = state("pcie", device->index, 0, &a, &b) ? b : 16;
  return trouble(device);
}
/* Ampere and newer replace rows, older ones retire pages. */
int nvmlDeviceGetRemappedRows(Device *device, unsigned *corr, unsigned *unc, unsigned *pending, unsigned *failed) {
  long long a = 0, b = 0;
  *corr = *unc = 0;
  state("remap", device->index, 0, &a, &b);
  *pending = a; *failed = b;
  return is("datacenter") ? trouble(device) : UNSUPPORTED;
}
int nvmlDeviceGetRetiredPagesPendingStatus(Device *device, int *pending) {
  *pending = code("retired", device->index);
  return is("old") ? trouble(device) : UNSUPPORTED;
}
int nvmlDeviceGetComputeMode(Device *device, int *mode) { *mode = code("mode", device->index); return trouble(device); }
/* The call succeeds; each field has an answer of its own. */
int nvmlDeviceGetFieldValues(Device *device, int fields, Field *values) {
  for (int field = 0; field < fields; field++) {
    values[field].type = 1;
    values[field].value = code("recovery", device->index);
    values[field].answer = values[field].id == 230 && is("datacenter") ? OK : UNSUPPORTED;
  }
  return trouble(device);
}
/* Hopper and newer. Without NVSwitches the state says that there are none. */
int nvmlDeviceGetGpuFabricInfoV(Device *device, Fabric *fabric) {
  long long state_now = 0, status = 0, a, b;
  state("fabric", device->index, 0, &state_now, &status);
  fabric->state = state_now; fabric->status = status;
  fabric->health = state("degraded", device->index, 0, &a, &b) ? 1 : 2;
  return is("datacenter") ? trouble(device) : UNSUPPORTED;
}
int nvmlEventSetCreate(void **set) { memset(watched, 0, sizeof watched); *set = devices; return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, void *set) {
  (void)set;
  if (types != 8) return INVALID;
  watched[device->index] = !trouble(device);
  return trouble(device);
}
int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout) {
  static int told[MAX];
  long long code, b;
  (void)set; (void)timeout;
  for (int index = 0; index < count() && index < MAX; index++)
    if (state("xid", index, told[index], &code, &b)) {
      told[index]++;
      *event = (Event){&devices[index][0], 8, code, 0, 0};
      return OK;
    }
  /* The manual: "GPU_IS_LOST if a GPU has fallen off the bus". It is so again at each call. */
  for (int index = 0; index < count() && index < MAX; index++)
    if (watched[index] && state("lost", index, 0, &code, &b)) return LOST;
  return TIMEOUT;
}
#endif
