/* How each function of the stand-in driver library begins and answers. */
#ifndef FAKE_CALL_H
#define FAKE_CALL_H

#include "fake_state.h"

typedef int nvmlReturn_t;
typedef struct { int gpu, slice; } device;
typedef device *nvmlDevice_t;

/* Count the call, read the state, and return what an `error` line says; then `s` is the state, `g` the handle's GPU. */
int enter(const char *function, int index, const state **s);
int enter_device(const char *function, nvmlDevice_t handle, const state **s, const gpu **g);
int answer(unsigned int *where, u64 value);
nvmlDevice_t handle_of(int index, int slice);

#define ENTER(index) const state *s; int code = enter(__func__, index, &s); if (code) return code
#define ENTER_DEVICE(handle) \
    const state *s; const gpu *g; int code = enter_device(__func__, handle, &s, &g); if (code) return code; \
    (void)s; (void)g

/* A function that says one of the values of `set`. */
#define ONE_VALUE(function, value) \
    nvmlReturn_t function(nvmlDevice_t handle, unsigned int *where) { \
        ENTER_DEVICE(handle); \
        return answer(where, g->values[value]); \
    }

#endif
