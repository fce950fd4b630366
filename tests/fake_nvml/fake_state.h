/* What the stand-in driver library says, as its state file has it. The file's grammar is at the head of fake_nvml.c. */
#ifndef FAKE_STATE_H
#define FAKE_STATE_H

#define MAX_GPUS 16
#define MAX_SLICES 8
#define MAX_PROCESSES 512
#define MAX_ERRORS 128
#define MAX_EVENTS 256
#define TEXT 96
#define ANY (-1)
#define WHOLE (-2) /* a GPU without its slices */

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_UNKNOWN = 999
};

/* The words after `set INDEX`, in this order. */
enum {
    UTILIZATION, MEMORY_UTILIZATION, POWER, POWER_LIMIT, TEMPERATURE, SM_CLOCK, MEMORY_CLOCK, THROTTLE, ECC,
    ECC_CORRECTED, REMAP_PENDING, REMAP_FAILED, PCIE_GEN, PCIE_WIDTH, NVLINKS, NVLINKS_UP, NVLINK_STATE, NVLINK_FAILS, FAN,
    VALUES
};

enum { COMPUTE, GRAPHICS, MPS, KINDS };

typedef unsigned long long u64;

typedef struct {
    char uuid[TEXT], name[TEXT];
    u64 total, used, reserved;
    int present;
} memory_owner; /* a GPU or a slice of one */

typedef struct {
    memory_owner self, slices[MAX_SLICES];
    char bus[32];
    u64 values[VALUES];
    int has_mig, mig, mig_pending;
} gpu;

typedef struct { int gpu, slice, kind; unsigned int pid; u64 used; } process;
typedef struct { char function[64]; int gpu, slice, code; } error;
typedef struct { int gpu; u64 code; } event;
typedef struct { int level, nvlink, p2p; } gpu_link;

typedef struct {
    int cuda, count, reloads, process_count, error_count, event_count;
    char driver[80];
    gpu gpus[MAX_GPUS];
    gpu_link links[MAX_GPUS][MAX_GPUS];
    process processes[MAX_PROCESSES];
    error errors[MAX_ERRORS];
    event events[MAX_EVENTS];
} state;

/* The state as the file named by FAKE_NVML_STATE has it now, read again only when that file is another one or has
 * changed; NULL where it cannot be read. */
const state *current_state(void);

/* Counts one call of `function` in the file named by FAKE_NVML_CALLS, where there is such a file. */
void count_call(const char *function);

#endif
