/* A stand-in for NVIDIA's libnvidia-ml.so.1: says what the file named by FAKE_NVML_STATE says. The file may be changed
 * while the library is loaded; write another one and move it over the old one. Calls are counted by name in the file
 * named by FAKE_NVML_CALLS (records of 56 bytes of name and a 64-bit number). A function is missing, as in an old
 * driver, when this is compiled with -DFUNCTION=missing_FUNCTION.
 *
 * One item a line, words separated by spaces, # and unknown words ignored; sizes in bytes; -1 is all ones:
 *   driver VERSION | cuda NUMBER                      13000 is 13.0
 *   gpu INDEX UUID TOTAL USED RESERVED NAME…          NAME is the rest of the line
 *   set INDEX KEY NUMBER                              KEY: utilization memory-utilization (%) power power-limit (mW)
 *       temperature fan sm-clock memory-clock (MHz) throttle (bits, such as 0x40) ecc ecc-corrected remap-pending
 *       remap-failed (0 or 1) pcie-gen pcie-width nvlinks nvlinks-up nvlink-state (of those that are up)
 *       nvlink-fails (the number of the one that does); `set INDEX bus 00000000:1B:00.0`
 *   process INDEX PID USED [KIND [SLICE]]             USED -1: not available; KIND: compute graphics mps
 *   link I J LEVEL [nvlink] [no-p2p]                  LEVEL: internal single multiple hostbridge node system or a
 *       number; I and J may be *; the last line counts
 *   mig INDEX MODE [PENDING] | slice INDEX SLICE UUID TOTAL USED NAME…
 *   xid INDEX CODE                                    an event, told once, to who waits when the line is added
 *   error FUNCTION INDEX CODE                         FUNCTION with or without _v2, or * for all but nvmlInit; INDEX:
 *       3, 3.1 for slice 1 of GPU 3, 3.whole for GPU 3 without its slices, * also for functions that have no GPU
 *   reloads NUMBER                                    another number: all is uninitialized until the next nvmlInit
 * A GPU whose line is taken away is lost. Short forms of errors:
 *   init CODE | memory-v2 CODE | handle INDEX CODE | processes INDEX CODE
 * Layouts are those of nvml.h, driver 525 and newer.
 */
#include <stdio.h>
#include <string.h>

#include "fake_call.h"

typedef struct { u64 total, free, used; } nvmlMemory_t;
typedef struct { unsigned int version; u64 total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned int pid; u64 usedGpuMemory; } nvmlProcessInfo_v1_t;
typedef struct {
    unsigned int pid;
    u64 usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
#define MIG_SLICES_AT_MOST 7

static int answer_text(char *where, unsigned int room, const char *text) {
    if (strlen(text) >= room) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(where, text);
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code) {
    return code == NVML_ERROR_UNINITIALIZED ? "Uninitialized" : "Stand-in error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    ENTER(ANY);
    return answer_text(version, length, s->driver);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *number) {
    ENTER(ANY);
    *number = s->cuda;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *number) {
    ENTER(ANY);
    *number = s->cuda;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER(ANY);
    return answer(count, (u64)s->count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle) {
    ENTER((int)index);
    if ((int)index >= s->count) return NVML_ERROR_INVALID_ARGUMENT;
    if (!s->gpus[index].self.present) return NVML_ERROR_GPU_IS_LOST;
    *handle = handle_of((int)index, ANY);
    return NVML_SUCCESS;
}

static const memory_owner *owner_of(const gpu *g, nvmlDevice_t handle) {
    return handle->slice == ANY ? &g->self : &g->slices[handle->slice];
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int length) {
    ENTER_DEVICE(handle);
    return answer_text(name, length, owner_of(g, handle)->name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int length) {
    ENTER_DEVICE(handle);
    return answer_text(uuid, length, owner_of(g, handle)->uuid);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *info) {
    ENTER_DEVICE(handle);
    memset(info, 0, sizeof *info);
    snprintf(info->busId, sizeof info->busId, "%s", g->bus);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%.15s", strlen(g->bus) > 4 ? g->bus + 4 : g->bus);
    sscanf(g->bus, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory) {
    ENTER_DEVICE(handle);
    const memory_owner *owner = owner_of(g, handle);
    memory->total = owner->total;
    memory->used = owner->used + owner->reserved; /* the first version counts the driver's reserve as used */
    memory->free = owner->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory) {
    ENTER_DEVICE(handle);
    const memory_owner *owner = owner_of(g, handle);
    memory->total = owner->total;
    memory->reserved = owner->reserved;
    memory->used = owner->used;
    memory->free = owner->total - owner->used - owner->reserved;
    return NVML_SUCCESS;
}

/* Real drivers measure neither on a GPU in MIG mode nor on its slices. */
#define NOT_IN_MIG(handle) if (g->mig || (handle)->slice != ANY) return NVML_ERROR_NOT_SUPPORTED

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *rates) {
    ENTER_DEVICE(handle);
    NOT_IN_MIG(handle);
    rates->gpu = (unsigned int)g->values[UTILIZATION];
    rates->memory = (unsigned int)g->values[MEMORY_UTILIZATION];
    return NVML_SUCCESS;
}

ONE_VALUE(nvmlDeviceGetPowerUsage, POWER)
ONE_VALUE(nvmlDeviceGetEnforcedPowerLimit, POWER_LIMIT)
ONE_VALUE(nvmlDeviceGetCurrPcieLinkGeneration, PCIE_GEN)
ONE_VALUE(nvmlDeviceGetCurrPcieLinkWidth, PCIE_WIDTH)

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, int sensor, unsigned int *celsius) {
    ENTER_DEVICE(handle);
    return sensor ? NVML_ERROR_INVALID_ARGUMENT : answer(celsius, g->values[TEMPERATURE]);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, int type, unsigned int *mhz) {
    ENTER_DEVICE(handle);
    return answer(mhz, g->values[type == 2 ? MEMORY_CLOCK : SM_CLOCK]);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t handle, u64 *reasons) {
    ENTER_DEVICE(handle);
    *reasons = g->values[THROTTLE];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t handle, u64 *reasons) {
    ENTER_DEVICE(handle);
    *reasons = g->values[THROTTLE];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, int type, int counter, u64 *count) {
    ENTER_DEVICE(handle);
    (void)counter;
    *count = g->values[type == 1 ? ECC : ECC_CORRECTED];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(
    nvmlDevice_t handle, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed
) {
    ENTER_DEVICE(handle);
    *corrected = *uncorrected = 0;
    *pending = (unsigned int)g->values[REMAP_PENDING];
    return answer(failed, g->values[REMAP_FAILED]);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned int number, unsigned int *active) {
    ENTER_DEVICE(handle);
    if (!g->values[NVLINKS]) return NVML_ERROR_NOT_SUPPORTED;
    if (number >= g->values[NVLINKS]) return NVML_ERROR_INVALID_ARGUMENT;
    if (number == g->values[NVLINK_FAILS]) return NVML_ERROR_UNKNOWN;
    return answer(active, number < g->values[NVLINKS_UP] ? g->values[NVLINK_STATE] : 0);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t handle, nvmlDevice_t other, unsigned int *level) {
    ENTER_DEVICE(handle);
    return answer(level, (u64)s->links[handle->gpu][other->gpu].level);
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t handle, nvmlDevice_t other, int what, unsigned int *status) {
    ENTER_DEVICE(handle);
    const gpu_link *found = &s->links[handle->gpu][other->gpu];
    return answer(status, (u64)(what == 2 ? found->nvlink : found->p2p));
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned int *now, unsigned int *pending) {
    ENTER_DEVICE(handle);
    if (!g->has_mig) return NVML_ERROR_NOT_SUPPORTED;
    *now = (unsigned int)g->mig;
    return answer(pending, (u64)g->mig_pending);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int *count) {
    ENTER_DEVICE(handle);
    return answer(count, g->has_mig ? MIG_SLICES_AT_MOST : 0);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index, nvmlDevice_t *slice) {
    ENTER_DEVICE(handle);
    if (!g->mig || index >= MAX_SLICES || !g->slices[index].present) return NVML_ERROR_NOT_FOUND;
    *slice = handle_of(handle->gpu, (int)index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id) {
    ENTER_DEVICE(handle);
    return handle->slice == ANY ? NVML_ERROR_NOT_SUPPORTED : answer(id, (u64)handle->slice + 1);
}

/* A whole GPU lists the processes of its slices too. The layout differs: version 1 says nothing of slices. */
static int list_processes(const state *s, nvmlDevice_t handle, int kind, unsigned int *count, void *list, int version) {
    const unsigned int whole = 0xffffffffu;
    unsigned int room = *count, found = 0;
    for (int i = 0; i < s->process_count; i++) {
        const process *p = &s->processes[i];
        if (p->gpu != handle->gpu || p->kind != kind || (handle->slice != ANY && p->slice != handle->slice)) continue;
        if (list && found < room && version == 1)
            ((nvmlProcessInfo_v1_t *)list)[found] = (nvmlProcessInfo_v1_t){p->pid, p->used};
        else if (list && found < room)
            ((nvmlProcessInfo_t *)list)[found] = (nvmlProcessInfo_t){
                p->pid, p->used, p->slice == ANY ? whole : (unsigned int)p->slice + 1, p->slice == ANY ? whole : 0};
        found++;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESSES(function, kind, version) \
    nvmlReturn_t function(nvmlDevice_t handle, unsigned int *count, void *list) { \
        ENTER_DEVICE(handle); \
        return list_processes(s, handle, kind, count, list, version); \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses, COMPUTE, 1)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE, 2)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE, 3)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS, 1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS, 2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS, 3)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, MPS, 1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS, 2)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS, 3)
