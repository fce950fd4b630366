/* Functions of the stand-in driver library that the console does not call, for nvitop and its like. */
#include <string.h>

#include "fake_call.h"

ONE_VALUE(nvmlDeviceGetPowerManagementLimit, POWER_LIMIT)
ONE_VALUE(nvmlDeviceGetMaxPcieLinkGeneration, PCIE_GEN)
ONE_VALUE(nvmlDeviceGetMaxPcieLinkWidth, PCIE_WIDTH)
ONE_VALUE(nvmlDeviceGetFanSpeed, FAN)

#define ALWAYS(function, value) \
    nvmlReturn_t function(nvmlDevice_t handle, unsigned int *where) { \
        ENTER_DEVICE(handle); \
        return answer(where, value); \
    }

ALWAYS(nvmlDeviceGetDisplayActive, 0)
ALWAYS(nvmlDeviceGetPersistenceMode, 1)
ALWAYS(nvmlDeviceGetPerformanceState, 0)
ALWAYS(nvmlDeviceGetComputeMode, 0)

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *index) {
    ENTER_DEVICE(handle);
    return answer(index, (u64)handle->gpu);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned int *is_slice) {
    ENTER_DEVICE(handle);
    return answer(is_slice, handle->slice != ANY);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t slice, nvmlDevice_t *handle) {
    ENTER_DEVICE(slice);
    *handle = handle_of(slice->gpu, ANY);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, int type, unsigned int *mhz) {
    ENTER_DEVICE(handle);
    return answer(mhz, type == 2 ? 2619 : 1980);
}


static int no_rate(unsigned int *percent, unsigned int *microseconds) {
    *percent = 0;
    *microseconds = 167000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t handle, unsigned int *percent, unsigned int *microseconds) {
    ENTER_DEVICE(handle);
    return no_rate(percent, microseconds);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t handle, unsigned int *percent, unsigned int *microseconds) {
    ENTER_DEVICE(handle);
    return no_rate(percent, microseconds);
}

typedef struct {
    unsigned int pid;
    u64 time;
    unsigned int sm, memory, encoder, decoder;
} nvmlProcessUtilizationSample_t;

nvmlReturn_t nvmlDeviceGetProcessUtilization(
    nvmlDevice_t handle, nvmlProcessUtilizationSample_t *samples, unsigned int *count, u64 since
) {
    ENTER_DEVICE(handle);
    unsigned int room = *count, found = 0;
    for (int i = 0; i < s->process_count; i++) {
        const process *p = &s->processes[i];
        if (p->gpu != handle->gpu || p->kind == GRAPHICS) continue;
        if (samples && found < room)
            samples[found] = (nvmlProcessUtilizationSample_t){
                .pid = p->pid, .time = since + 1, .sm = (unsigned int)g->values[UTILIZATION]};
        found++;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* Driver models are of Windows. */
nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t handle, unsigned int *now, unsigned int *pending) {
    ENTER_DEVICE(handle);
    (void)now;
    (void)pending;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t handle, unsigned int *now, unsigned int *pending) {
    return nvmlDeviceGetDriverModel_v2(handle, now, pending);
}
