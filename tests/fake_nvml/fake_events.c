/* Xid events of the stand-in driver library: each `xid` line is told once. */
#include <string.h>
#include <unistd.h>

#include "fake_call.h"

typedef struct {
    nvmlDevice_t device;
    u64 eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;
typedef struct { int delivered, gpus[MAX_GPUS]; } event_set;

#define XID_CRITICAL_ERROR 8ULL
static event_set the_set;

nvmlReturn_t nvmlEventSetCreate(event_set **set) {
    ENTER(ANY);
    memset(&the_set, 0, sizeof the_set);
    the_set.delivered = s->event_count;
    *set = &the_set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(event_set *set) {
    ENTER(ANY);
    (void)set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle, u64 *types) {
    ENTER_DEVICE(handle);
    *types = XID_CRITICAL_ERROR;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, u64 types, event_set *set) {
    ENTER_DEVICE(handle);
    set->gpus[handle->gpu] = (types & XID_CRITICAL_ERROR) != 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(event_set *set, nvmlEventData_t *data, unsigned int milliseconds) {
    ENTER(ANY);
    while (set->delivered < s->event_count) {
        const event *e = &s->events[set->delivered++];
        if (e->gpu < 0 || e->gpu >= MAX_GPUS || !set->gpus[e->gpu]) continue;
        *data = (nvmlEventData_t){handle_of(e->gpu, ANY), XID_CRITICAL_ERROR, e->code, 0xffffffffu, 0xffffffffu};
        return NVML_SUCCESS;
    }
    usleep(milliseconds * 1000);
    return NVML_ERROR_TIMEOUT;
}
