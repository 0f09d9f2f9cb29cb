// A management library without GPUs: the file that MUSTER_FAKE_NVML names holds the answers, in the
// format that the reader writes (health/model/gpu_readings.h). Each call rereads it. Beside values:
//
//   <symbol>.rc 15, gpu3.<symbol>.rc 15     the function fails with the code
//   <key>.rc 3                              the function that gives the value fails; of a field: it
//   <symbol>.sleep_ms, .hang 1, .crash 1    and with gpu3. before it
//   event <ms> <gpu> 0x8 79                 told that long after the event set was created
//
// `gpu*.` stands for all GPUs, `link.*.` and `field.164.*` for all links; what is said of one
// counts more.
//
// As the real one: a value that the file lacks is not supported (3); a list that is too short gives
// 7 and how many there are; a struct of a version not known gives 25; a field has a code of its
// own; an event that does not come gives 10; after a 15 every call on that GPU gives 15. Symbols in
// `<symbol>.rc` have no suffix _v2 or _v3. FAKE_NVML_OLD leaves out what a driver of 2021 lacks.
// Structs and prototypes are written again here, not shared with the program: both must be right.
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "script.inc"

typedef int nvml_return;
typedef void* nvml_device;
typedef unsigned long long u64;

enum { gpus_max = 64, key_max = 160 };
enum {
  ok = 0,
  invalid_argument = 2,
  not_supported = 3,
  not_found = 6,
  short_list = 7,
  timed_out = 10,
  lost = 15,
  wrong_version = 25
};

#include "calls.inc"

// ---- functions of one form

#define NUMBER(symbol, key)                                  \
  nvml_return symbol(nvml_device device, unsigned* out) {    \
    int gpu;                                                 \
    const nvml_return rc = enter_gpu(#symbol, device, &gpu); \
    return rc != ok ? rc : give_number(gpu, key, out);       \
  }

#define TEXT(symbol, key)                                            \
  nvml_return symbol(nvml_device device, char* out, unsigned room) { \
    int gpu;                                                         \
    const nvml_return rc = enter_gpu(#symbol, device, &gpu);         \
    return rc != ok ? rc : give_text(gpu, key, out, room);           \
  }

#define PAIR(symbol, first_key, second_key)                                   \
  nvml_return symbol(nvml_device device, unsigned* first, unsigned* second) { \
    int gpu;                                                                  \
    nvml_return rc = enter_gpu(#symbol, device, &gpu);                        \
    if (rc == ok) rc = give_number(gpu, first_key, first);                    \
    return rc != ok ? rc : give_number(gpu, second_key, second);              \
  }

// The key has a name for each value of an index.
#define INDEXED(symbol, prefix, ...)                                      \
  nvml_return symbol(nvml_device device, unsigned which, unsigned* out) { \
    static const char* const names[] = {__VA_ARGS__};                     \
    char key[key_max];                                                    \
    int gpu;                                                              \
    const nvml_return rc = enter_gpu(#symbol, device, &gpu);              \
    if (rc != ok) return rc;                                              \
    if (which >= sizeof names / sizeof names[0]) return invalid_argument; \
    snprintf(key, sizeof key, prefix "%s", names[which]);                 \
    return give_number(gpu, key, out);                                    \
  }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom_image")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
PAIR(nvmlDeviceGetEccMode, "ecc.current", "ecc.pending")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired.pending")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.gen")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.max_gen")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.max_width")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replay")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
PAIR(nvmlDeviceGetMigMode, "mig.current", "mig.pending")
NUMBER(nvmlDeviceGetPowerUsage, "power.draw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power.enforced")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power.default")
INDEXED(nvmlDeviceGetClockInfo, "clock.", "graphics", "sm", "mem", "video")
INDEXED(nvmlDeviceGetMaxClockInfo, "clock.max.", "graphics", "sm", "mem", "video")
INDEXED(nvmlDeviceGetApplicationsClock, "clock.app.", "graphics", "sm", "mem", "video")
INDEXED(nvmlDeviceGetDefaultApplicationsClock, "clock.default.", "graphics", "sm", "mem", "video")
INDEXED(nvmlDeviceGetTemperature, "temp.", "gpu")
INDEXED(nvmlDeviceGetTemperatureThreshold, "temp.", "shutdown", "slowdown", "memory_max", "gpu_max")

// ---- the node

nvml_return nvmlInit_v2(void) {
  const nvml_return rc = enter("nvmlInit");
  const char* value;
  const nvml_return told = value_of(-1, "init", &value);
  return rc != ok ? rc : told == not_supported ? ok : told;
}

nvml_return nvmlShutdown(void) {
  return enter("nvmlShutdown");
}

const char* nvmlErrorString(nvml_return rc) {
  static char text[32];
  snprintf(text, sizeof text, "fake error %d", rc);
  return text;
}

nvml_return nvmlSystemGetDriverVersion(char* out, unsigned room) {
  const nvml_return rc = enter("nvmlSystemGetDriverVersion");
  return rc != ok ? rc : give_text(-1, "driver", out, room);
}

nvml_return nvmlSystemGetNVMLVersion(char* out, unsigned room) {
  const nvml_return rc = enter("nvmlSystemGetNVMLVersion");
  return rc != ok ? rc : give_text(-1, "nvml", out, room);
}

nvml_return nvmlSystemGetCudaDriverVersion(int* out) {
  const nvml_return rc = enter("nvmlSystemGetCudaDriverVersion");
  return rc != ok ? rc : give_number(-1, "cuda", (unsigned*)out);
}

nvml_return nvmlDeviceGetCount_v2(unsigned* out) {
  const nvml_return rc = enter("nvmlDeviceGetCount");
  return rc != ok ? rc : give_number(-1, "count", out);
}

nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device* device) {
  unsigned count = 0;
  if (index >= gpus_max) return invalid_argument;
  int gpu;
  nvml_return rc = enter_gpu("nvmlDeviceGetHandleByIndex", &devices[index], &gpu);
  if (rc == ok) rc = give_number(-1, "count", &count);
  if (rc != ok) return rc;
  if (index >= count) return invalid_argument;
  const char* value;
  rc = value_of(gpu, "handle", &value);
  if (rc != ok && rc != not_supported) return rc;
  *device = &devices[index];
  return ok;
}

nvml_return nvmlDeviceValidateInforom(nvml_device device) {
  int gpu;
  const char* value;
  const nvml_return rc = enter_gpu("nvmlDeviceValidateInforom", device, &gpu);
  return rc != ok ? rc : value_of(gpu, "inforom", &value);
}

// ---- structs without a version

struct pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

nvml_return nvmlDeviceGetPciInfo_v3(nvml_device device, struct pci_info* out) {
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetPciInfo", device, &gpu);
  if (rc != ok) return rc;
  memset(out, 0, sizeof *out);
  out->pci_device_id = number_or_0(gpu, "pci_id");
  return give_text(gpu, "bdf", out->bus_id, sizeof out->bus_id);
}

nvml_return nvmlDeviceGetRemappedRows(nvml_device device, unsigned* corrected,
                                      unsigned* uncorrected, unsigned* pending, unsigned* failure) {
  int gpu;
  nvml_return rc = enter_gpu("nvmlDeviceGetRemappedRows", device, &gpu);
  if (rc == ok) rc = give_number(gpu, "remap.corr", corrected);
  if (rc == ok) rc = give_number(gpu, "remap.unc", uncorrected);
  if (rc == ok) rc = give_number(gpu, "remap.pending", pending);
  return rc != ok ? rc : give_number(gpu, "remap.failure", failure);
}

nvml_return nvmlDeviceGetRowRemapperHistogram(nvml_device device, unsigned* banks) {
  static const char* const keys[] = {"remap.banks.max", "remap.banks.high", "remap.banks.partial",
                                     "remap.banks.low", "remap.banks.none"};
  int gpu;
  nvml_return rc = enter_gpu("nvmlDeviceGetRowRemapperHistogram", device, &gpu);
  for (int i = 0; i < 5 && rc == ok; ++i) rc = give_number(gpu, keys[i], &banks[i]);
  return rc;
}

struct memory {
  u64 total, free, used;
};

nvml_return nvmlDeviceGetMemoryInfo(nvml_device device, struct memory* out) {
  int gpu;
  nvml_return rc = enter_gpu("nvmlDeviceGetMemoryInfo", device, &gpu);
  if (rc == ok) rc = give_big(gpu, "memory.total", &out->total);
  if (rc == ok) rc = give_big(gpu, "memory.used", &out->used);
  if (rc == ok) out->free = out->total - out->used;
  return rc;
}

nvml_return nvmlDeviceGetTotalEccErrors(nvml_device device, int error, int counter, u64* out) {
  char key[key_max];
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetTotalEccErrors", device, &gpu);
  snprintf(key, sizeof key, "ecc.%s.%s", error == 0 ? "cor" : "unc",
           counter == 0 ? "volatile" : "aggregate");
  return rc != ok ? rc : give_big(gpu, key, out);
}

nvml_return nvmlDeviceGetMemoryErrorCounter(nvml_device device, int error, int counter,
                                            int location, u64* out) {
  char key[key_max];
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetMemoryErrorCounter", device, &gpu);
  if (rc != ok) return rc;
  if (location != 2 && location != 7) return not_supported;
  snprintf(key, sizeof key, "ecc.%s.%s.%s", location == 2 ? "dram" : "sram",
           error == 0 ? "cor" : "unc", counter == 0 ? "volatile" : "aggregate");
  return give_big(gpu, key, out);
}

// ---- lists: room for fewer than there are gives their number

static nvml_return retired(nvml_device device, int cause, unsigned* count, u64* addresses) {
  unsigned have = 0;
  int gpu;
  nvml_return rc = enter_gpu("nvmlDeviceGetRetiredPages", device, &gpu);
  if (rc == ok) rc = give_number(gpu, cause == 0 ? "retired.sbe" : "retired.dbe", &have);
  if (rc != ok) return rc;
  const unsigned room = *count;
  *count = have;
  if (room < have) return short_list;
  for (unsigned i = 0; i < have; ++i) addresses[i] = 0x1000ull * i;
  return ok;
}

nvml_return nvmlDeviceGetRetiredPages(nvml_device device, int cause, unsigned* count,
                                      u64* addresses) {
  return retired(device, cause, count, addresses);
}

struct process_v1 {
  unsigned pid;
  u64 used_memory;
};
struct process {
  unsigned pid;
  u64 used_memory;
  unsigned gpu_instance, compute_instance;
};

// The nth "pid:bytes" of the list. Whether there is one.
static int process_at(const char* list, unsigned n, struct process_v1* process) {
  for (unsigned i = 0; *list != '\0'; ++i) {
    char* end;
    const u64 pid = strtoull(list, &end, 10);
    if (end == list || *end != ':') return 0;
    const u64 used = strtoull(end + 1, &end, 10);
    if (i == n) {
      process->pid = (unsigned)pid;
      process->used_memory = used;
      return 1;
    }
    list = end + (*end == ' ');
  }
  return 0;
}

static nvml_return processes(nvml_device device, unsigned* count, struct process_v1* old,
                             struct process* list) {
  struct process_v1 one;
  const char* value;
  int gpu;
  nvml_return rc = enter_gpu("nvmlDeviceGetComputeRunningProcesses", device, &gpu);
  if (rc == ok) rc = value_of(gpu, "procs", &value);
  if (rc != ok) return rc;
  unsigned have = 0;
  while (process_at(value, have, &one)) ++have;
  const unsigned room = *count;
  *count = have;
  if (room < have) return short_list;
  for (unsigned i = 0; i < have; ++i) {
    process_at(value, i, &one);
    if (old != NULL) old[i] = one;
    if (list != NULL) list[i] = (struct process){one.pid, one.used_memory, ~0u, ~0u};
  }
  return ok;
}

nvml_return nvmlDeviceGetComputeRunningProcesses(nvml_device device, unsigned* count,
                                                 struct process_v1* list) {
  return processes(device, count, list, NULL);
}

// ---- links

static void link_key(char* key, unsigned link, const char* name) {
  snprintf(key, key_max, "link.%u.%s", link, name);
}

nvml_return nvmlDeviceGetNvLinkState(nvml_device device, unsigned link, unsigned* out) {
  char key[key_max];
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetNvLinkState", device, &gpu);
  if (rc != ok) return rc;
  const unsigned count = number_or_0(gpu, "field.91");
  if (link >= (count == 0 ? 18 : count)) return invalid_argument;
  link_key(key, link, "state");
  return give_number(gpu, key, out);
}

nvml_return nvmlDeviceGetNvLinkErrorCounter(nvml_device device, unsigned link, int counter,
                                            u64* out) {
  static const char* const names[] = {"replay", "recovery", "crc_flit", "crc_data"};
  char key[key_max];
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetNvLinkErrorCounter", device, &gpu);
  if (rc != ok) return rc;
  if (counter < 0 || counter > 3) return invalid_argument;
  link_key(key, link, names[counter]);
  return give_big(gpu, key, out);
}

nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, unsigned link,
                                                struct pci_info* out) {
  char key[key_max];
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetNvLinkRemotePciInfo", device, &gpu);
  if (rc != ok) return rc;
  link_key(key, link, "remote");
  return give_text(gpu, key, out->bus_id, sizeof out->bus_id);
}

struct field_value {
  unsigned field, scope;
  long long timestamp, latency_us;
  int type;
  nvml_return rc;
  u64 value;
};

nvml_return nvmlDeviceGetFieldValues(nvml_device device, int count, struct field_value* fields) {
  char key[key_max];
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetFieldValues", device, &gpu);
  if (rc != ok) return rc;
  for (int i = 0; i < count; ++i) {
    struct field_value* one = &fields[i];
    const char* value;
    snprintf(key, sizeof key, "field.%u.%u", one->field, one->scope);
    one->rc = number_of(gpu, key, &one->value);
    if (one->rc == not_supported && one->scope == 0 &&
        value_of(gpu, key, &value) == not_supported) {
      snprintf(key, sizeof key, "field.%u", one->field);
      one->rc = number_of(gpu, key, &one->value);
    }
    one->type = (long long)one->value < 0 ? 4 : 3;  // signed or unsigned, 64 bits
  }
  return ok;
}

// ---- throttling, fabric: names that differ by age

static nvml_return clock_reasons(const char* symbol, nvml_device device, u64* out) {
  int gpu;
  const nvml_return rc = enter_gpu(symbol, device, &gpu);
  return rc != ok ? rc : give_big(gpu, "clocks.reasons", out);
}

nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device, u64* out) {
  return clock_reasons("nvmlDeviceGetCurrentClocksEventReasons", device, out);
}

struct fabric_v1 {
  unsigned char cluster[16];
  nvml_return status;
  unsigned clique;
  unsigned char state;
};

static void give_cluster(int gpu, unsigned char* cluster) {
  const char* value;
  memset(cluster, 0, 16);
  if (value_of(gpu, "fabric.cluster", &value) != ok) return;
  for (int i = 0; i < 16; ++i) {
    unsigned byte;
    if (sscanf(value + 2 * i, "%2x", &byte) != 1) return;
    cluster[i] = (unsigned char)byte;
  }
}

static nvml_return give_fabric(int gpu, struct fabric_v1* out) {
  unsigned state = 0;
  const nvml_return rc = give_number(gpu, "fabric.state", &state);
  if (rc != ok) return rc;
  give_cluster(gpu, out->cluster);
  out->state = (unsigned char)state;
  out->status = (nvml_return)number_or_0(gpu, "fabric.status");
  out->clique = number_or_0(gpu, "fabric.clique");
  return ok;
}

nvml_return nvmlDeviceGetGpuFabricInfo(nvml_device device, struct fabric_v1* out) {
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetGpuFabricInfo", device, &gpu);
  return rc != ok ? rc : give_fabric(gpu, out);
}

// ---- events

struct event_data {
  nvml_device device;
  u64 type, data;
  unsigned gpu_instance, compute_instance;
};

static struct {
  int is_made;
  int next;  // event line
  struct timespec began;
  u64 types[gpus_max];
} events;

static long long ms_since(const struct timespec* began) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - began->tv_sec) * 1000 + (now.tv_nsec - began->tv_nsec) / 1000000;
}

nvml_return nvmlEventSetCreate(void** set) {
  const nvml_return rc = enter("nvmlEventSetCreate");
  if (rc != ok) return rc;
  memset(&events, 0, sizeof events);
  events.is_made = 1;
  clock_gettime(CLOCK_MONOTONIC, &events.began);
  *set = &events;
  return ok;
}

nvml_return nvmlEventSetFree(void* set) {
  const nvml_return rc = enter("nvmlEventSetFree");
  if (set != (void*)&events || !events.is_made) return invalid_argument;
  events.is_made = 0;
  return rc;
}

nvml_return nvmlDeviceGetSupportedEventTypes(nvml_device device, u64* out) {
  int gpu;
  const nvml_return rc = enter_gpu("nvmlDeviceGetSupportedEventTypes", device, &gpu);
  return rc != ok ? rc : give_big(gpu, "events", out);
}

nvml_return nvmlDeviceRegisterEvents(nvml_device device, u64 types, void* set) {
  int gpu;
  u64 supported = 0;
  nvml_return rc = enter_gpu("nvmlDeviceRegisterEvents", device, &gpu);
  if (rc == ok) rc = give_big(gpu, "events", &supported);
  if (rc != ok) return rc;
  if (set != (void*)&events || !events.is_made) return invalid_argument;
  if ((types & ~supported) != 0) return not_supported;
  events.types[gpu] |= types;
  return ok;
}

// The next event that somebody registered for; the others happen unseen.
static int next_event(struct script_event* event) {
  while (script_event(events.next, event)) {
    if (event->gpu >= 0 && event->gpu < gpus_max && (events.types[event->gpu] & event->type) != 0)
      return 1;
    ++events.next;
  }
  return 0;
}

// A driver wakes whoever waits as soon as there is something, and so does a change of the script.
static int watch_script(void) {
  const char* path = getenv("MUSTER_FAKE_NVML");
  const char* end = path == NULL ? NULL : strrchr(path, '/');
  if (end == NULL) return -1;
  char folder[4096];
  snprintf(folder, sizeof folder, "%.*s/", (int)(end - path), path);
  const int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (changes >= 0) inotify_add_watch(changes, folder, IN_MOVED_TO | IN_CLOSE_WRITE);
  return changes;
}

// One for the process's life, as a driver has one queue for an event set.
static int script_changes(void) {
  static int changes = -1;
  if (changes < 0) changes = watch_script();
  return changes;
}

// Until there may be another event. 0: the time is over.
static int wait_for_script(int changes, long long until) {
  const long long left = until - ms_since(&events.began);
  struct pollfd one = {changes, POLLIN, 0};
  if (left <= 0 || poll(&one, 1, (int)left) <= 0) return 0;
  char told[4096];
  while (read(changes, told, sizeof told) > 0) continue;
  script_read();
  return 1;
}

static nvml_return wait_event(void* set, struct event_data* out, unsigned timeout_ms) {
  struct script_event event;
  const int changes = script_changes();
  const nvml_return rc = enter("nvmlEventSetWait");
  const int is_waited_for = rc == ok && set == (void*)&events && events.is_made;
  const long long until = ms_since(&events.began) + timeout_ms;
  int is_there = 0;
  while (is_waited_for) {
    is_there = next_event(&event) && event.ms <= until;
    if (is_there || !wait_for_script(changes, until)) break;
  }
  if (rc != ok) return rc;
  if (!is_waited_for) return invalid_argument;
  if (!is_there) return timed_out;
  sleep_ms(event.ms - ms_since(&events.began));
  ++events.next;
  out->device = &devices[event.gpu];
  out->type = event.type;
  out->data = event.data;
  return ok;
}

nvml_return nvmlEventSetWait(void* set, struct event_data* out, unsigned timeout_ms) {
  return wait_event(set, out, timeout_ms);
}

#ifndef FAKE_NVML_OLD
#include "newer.inc"
#endif
