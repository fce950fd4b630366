/* How each function of the stand-in driver library begins: counted, initialized, with the error that the state says. */
#include "fake_call.h"

#include <string.h>

static device handles[MAX_GPUS][MAX_SLICES + 1];
static int users, reloads_at_init;

nvmlDevice_t handle_of(int index, int slice) {
    device *handle = &handles[index][slice + 1];
    handle->gpu = index;
    handle->slice = slice;
    return handle;
}

int answer(unsigned int *where, u64 value) {
    *where = (unsigned int)value;
    return NVML_SUCCESS;
}

static int is_init(const char *function) { return !strncmp(function, "nvmlInit", 8); }

/* `error` names a function with or without its version; * is all but nvmlInit. */
static int is_named(const char *function, const char *named) {
    size_t length = strlen(named);
    if (!strcmp(named, "*")) return !is_init(function);
    if (strncmp(function, named, length)) return 0;
    function += length;
    return !*function || !strcmp(function, "WithFlags") || (!strncmp(function, "_v", 2) && strlen(function) == 3);
}

static int said_error(const state *s, const char *function, int index, int slice) {
    for (int i = 0; i < s->error_count; i++) {
        const error *e = &s->errors[i];
        if (is_named(function, e->function) && (e->gpu == ANY || e->gpu == index)
            && (e->slice == ANY || e->slice == slice || (e->slice == WHOLE && slice == ANY)))
            return e->code;
    }
    return NVML_SUCCESS;
}

static int begin(const char *function, int index, int slice, const state **s) {
    count_call(function);
    *s = current_state();
    if (!*s) return NVML_ERROR_UNKNOWN;
    if (!is_init(function) && (!users || reloads_at_init != (*s)->reloads)) return NVML_ERROR_UNINITIALIZED;
    return said_error(*s, function, index, slice);
}

int enter(const char *function, int index, const state **s) { return begin(function, index, ANY, s); }

int enter_device(const char *function, nvmlDevice_t handle, const state **s, const gpu **g) {
    int code = begin(function, handle ? handle->gpu : ANY, handle ? handle->slice : ANY, s);
    if (code) return code;
    if (!handle) return NVML_ERROR_INVALID_ARGUMENT;
    *g = &(*s)->gpus[handle->gpu];
    return (*g)->self.present ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    ENTER(ANY);
    (void)flags;
    users++;
    reloads_at_init = s->reloads;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    ENTER(ANY);
    users--;
    return NVML_SUCCESS;
}
