/* A stand-in for NVIDIA's libnvidia-ml.so.1: says what the file named by FAKE_NVML_STATE says, read at each call.
 *
 * One item a line, words separated by spaces, the rest of the line being a name:
 *   init CODE | driver VERSION | cuda NUMBER | gpu INDEX UUID TOTAL USED RESERVED NAME… | memory-v2 CODE
 *   handle INDEX CODE | process INDEX PID USED | processes INDEX CODE          (bytes; USED -1: not available)
 * Layouts are those of nvml.h, driver 525 and newer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS 16
#define NVML_SUCCESS 0
#define NVML_ERROR_UNINITIALIZED 1
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_UNKNOWN 999

typedef int nvmlReturn_t;
typedef struct { int index; } device;
typedef device *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    char uuid[96], name[96];
    unsigned long long total, used, reserved;
    int handle_code, processes_code, present;
} gpu;

typedef struct {
    int init_code, cuda, memory_v2_code, count;
    char driver[80];
    gpu gpus[MAX_GPUS];
} state;

static device handles[MAX_GPUS];

static FILE *open_state(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    return path ? fopen(path, "r") : NULL;
}

static int read_state(state *s) {
    char line[512];
    FILE *file = open_state();
    memset(s, 0, sizeof *s);
    if (!file) return NVML_ERROR_UNKNOWN;
    while (fgets(line, sizeof line, file)) {
        int index, code;
        gpu g;
        memset(&g, 0, sizeof g);
        sscanf(line, "init %d", &s->init_code);
        sscanf(line, "driver %79s", s->driver);
        sscanf(line, "cuda %d", &s->cuda);
        sscanf(line, "memory-v2 %d", &s->memory_v2_code);
        if (sscanf(line, "gpu %d %95s %llu %llu %llu %95[^\n]", &index, g.uuid, &g.total, &g.used, &g.reserved, g.name) == 6
            && index >= 0 && index < MAX_GPUS) {
            g.present = 1;
            s->gpus[index] = g;
            if (index >= s->count) s->count = index + 1;
        }
        if (sscanf(line, "handle %d %d", &index, &code) == 2 && index >= 0 && index < MAX_GPUS)
            s->gpus[index].handle_code = code;
        if (sscanf(line, "processes %d %d", &index, &code) == 2 && index >= 0 && index < MAX_GPUS)
            s->gpus[index].processes_code = code;
    }
    fclose(file);
    return NVML_SUCCESS;
}

static int find_gpu(nvmlDevice_t handle, gpu *found) {
    state s;
    int code = read_state(&s);
    if (code) return code;
    if (!handle || handle->index >= s.count) return NVML_ERROR_INVALID_ARGUMENT;
    *found = s.gpus[handle->index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    state s;
    int code = read_state(&s);
    (void)flags;
    return code ? code : s.init_code;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t code) { return code == NVML_ERROR_UNINITIALIZED ? "Uninitialized" : "Stand-in error"; }

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    state s;
    int code = read_state(&s);
    if (!code) snprintf(version, length, "%s", s.driver);
    return code;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *number) {
    state s;
    int code = read_state(&s);
    if (!code) *number = s.cuda;
    return code;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *number) { return nvmlSystemGetCudaDriverVersion_v2(number); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    state s;
    int code = read_state(&s);
    if (!code) *count = (unsigned int)s.count;
    return code;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle) {
    state s;
    int code = read_state(&s);
    if (code) return code;
    if ((int)index >= s.count) return NVML_ERROR_INVALID_ARGUMENT;
    if (s.gpus[index].handle_code) return s.gpus[index].handle_code;
    handles[index].index = (int)index;
    *handle = &handles[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int length) {
    gpu g;
    int code = find_gpu(handle, &g);
    if (!code) snprintf(name, length, "%s", g.name);
    return code;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int length) {
    gpu g;
    int code = find_gpu(handle, &g);
    if (!code) snprintf(uuid, length, "%s", g.uuid);
    return code;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory) {
    gpu g;
    int code = find_gpu(handle, &g);
    if (code) return code;
    memory->total = g.total;
    memory->used = g.used + g.reserved; /* the first version counts the driver's reserve as used */
    memory->free = g.total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory) {
    gpu g;
    state s;
    int code = read_state(&s);
    if (code) return code;
    if (s.memory_v2_code) return s.memory_v2_code;
    code = find_gpu(handle, &g);
    if (code) return code;
    memory->total = g.total;
    memory->reserved = g.reserved;
    memory->used = g.used;
    memory->free = g.total - g.used - g.reserved;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count, nvmlProcessInfo_t *list) {
    char line[512];
    unsigned int room = *count, found = 0;
    gpu g;
    int code = find_gpu(handle, &g);
    FILE *file;
    if (code) return code;
    if (g.processes_code) return g.processes_code;
    file = open_state();
    if (!file) return NVML_ERROR_UNKNOWN;
    while (fgets(line, sizeof line, file)) {
        int index;
        unsigned int pid;
        long long used;
        if (sscanf(line, "process %d %u %lld", &index, &pid, &used) != 3 || index != handle->index) continue;
        if (found < room && list) {
            memset(&list[found], 0, sizeof list[found]);
            list[found].pid = pid;
            list[found].usedGpuMemory = (unsigned long long)used;
        }
        found++;
    }
    fclose(file);
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
