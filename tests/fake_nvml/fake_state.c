/* Reads the state file of the stand-in driver library, and counts calls. See fake_state.h and fake_nvml.c. */
#define _GNU_SOURCE
#include "fake_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const VALUE_NAMES[VALUES] = {
    "utilization", "memory-utilization", "power", "power-limit", "temperature", "sm-clock", "memory-clock", "throttle",
    "ecc", "ecc-corrected", "remap-pending", "remap-failed", "pcie-gen", "pcie-width", "nvlinks", "nvlinks-up",
    "nvlink-state", "nvlink-fails", "fan"};
/* An idle H100: 71 W of 700 W, 31 °C, clocks at rest, "idle" as the one reason that holds them. */
static const u64 VALUE_DEFAULTS[VALUES] = {0, 0, 71000, 700000, 31, 345, 2619, 1, 0, 0, 0, 0, 5, 16, 18, 18, 1, ~0ULL, 0};
static const char *const KIND_NAMES[KINDS] = {"compute", "graphics", "mps"};
static const struct { const char *name; int level; } LEVELS[] = {
    {"internal", 0}, {"single", 10}, {"multiple", 20}, {"hostbridge", 30}, {"node", 40}, {"system", 50}};
#define P2P_NOT_SUPPORTED 5

static int is_gpu(int index) { return index >= 0 && index < MAX_GPUS; }

static int index_of(const char *const *names, int count, const char *word) {
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], word)) return i;
    return -1;
}

static int number_or_any(const char *word) { return *word == '*' ? ANY : atoi(word); }

static void add_error(state *s, const char *function, const char *where, int code) {
    const char *dot = strchr(where, '.');
    error *e = &s->errors[s->error_count];
    if (s->error_count == MAX_ERRORS || !code) return;
    s->error_count++;
    snprintf(e->function, sizeof e->function, "%s", function);
    e->gpu = number_or_any(where);
    e->slice = !dot ? ANY : !strcmp(dot, ".whole") ? WHOLE : number_or_any(dot + 1);
    e->code = code;
}

static void read_gpu(state *s, const char *line) {
    memory_owner owner = {.present = 1};
    int index;
    if (sscanf(line, "gpu %d %95s %llu %llu %llu %95[^\n]", &index, owner.uuid, &owner.total, &owner.used,
               &owner.reserved, owner.name) != 6 || !is_gpu(index)) return;
    s->gpus[index].self = owner;
    if (index >= s->count) s->count = index + 1;
}

static void read_slice(state *s, const char *line) {
    memory_owner owner = {.present = 1};
    int index, slice;
    if (sscanf(line, "slice %d %d %95s %llu %llu %95[^\n]", &index, &slice, owner.uuid, &owner.total, &owner.used,
               owner.name) == 6 && is_gpu(index) && slice >= 0 && slice < MAX_SLICES)
        s->gpus[index].slices[slice] = owner;
}

static void read_process(state *s, const char *line) {
    char kind[16] = "compute";
    process p = {.slice = ANY};
    long long used;
    int words = sscanf(line, "process %d %u %lld %15s %d", &p.gpu, &p.pid, &used, kind, &p.slice);
    p.used = (u64)used;
    p.kind = index_of(KIND_NAMES, KINDS, kind);
    if (words >= 3 && p.kind >= 0 && s->process_count < MAX_PROCESSES) s->processes[s->process_count++] = p;
}

static void read_value(state *s, const char *line) {
    char name[32], number[32];
    int index, which;
    if (sscanf(line, "set %d %31s %31s", &index, name, number) != 3 || !is_gpu(index)) return;
    which = index_of(VALUE_NAMES, VALUES, name);
    if (which >= 0) s->gpus[index].values[which] = strtoull(number, NULL, 0);
    if (!strcmp(name, "bus")) snprintf(s->gpus[index].bus, sizeof s->gpus[index].bus, "%s", number);
}

static void read_link(state *s, const char *line) {
    char first[8], second[8], level[16];
    gpu_link found = {.level = -1, .nvlink = P2P_NOT_SUPPORTED};
    if (sscanf(line, "link %7s %7s %15s", first, second, level) != 3) return;
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++)
        if (!strcmp(LEVELS[i].name, level)) found.level = LEVELS[i].level;
    if (found.level < 0) found.level = atoi(level);
    if (strstr(line, " nvlink")) found.nvlink = 0;
    if (strstr(line, " no-p2p")) found.p2p = P2P_NOT_SUPPORTED;
    for (int i = 0; i < MAX_GPUS; i++)
        for (int j = 0; j < MAX_GPUS; j++) {
            int a = number_or_any(first), b = number_or_any(second);
            if (((a == ANY || a == i) && (b == ANY || b == j)) || ((a == ANY || a == j) && (b == ANY || b == i)))
                s->links[i][j] = found;
        }
}

static void read_line(state *s, const char *line) {
    char function[64], where[16];
    int code, index, other;
    u64 xid;
    read_gpu(s, line);
    read_slice(s, line);
    read_process(s, line);
    read_value(s, line);
    read_link(s, line);
    sscanf(line, "driver %79s", s->driver);
    sscanf(line, "cuda %d", &s->cuda);
    sscanf(line, "reloads %d", &s->reloads);
    if (sscanf(line, "init %d", &code) == 1) add_error(s, "nvmlInit", "*", code);
    if (sscanf(line, "memory-v2 %d", &code) == 1) add_error(s, "nvmlDeviceGetMemoryInfo_v2", "*", code);
    if (sscanf(line, "handle %15s %d", where, &code) == 2) add_error(s, "nvmlDeviceGetHandleByIndex", where, code);
    if (sscanf(line, "processes %15s %d", where, &code) == 2)
        add_error(s, "nvmlDeviceGetComputeRunningProcesses", where, code);
    if (sscanf(line, "error %63s %15s %d", function, where, &code) == 3) add_error(s, function, where, code);
    if (sscanf(line, "xid %d %llu", &index, &xid) == 2 && s->event_count < MAX_EVENTS)
        s->events[s->event_count++] = (event){index, xid};
    other = 0;
    if (sscanf(line, "mig %d %d %d", &index, &code, &other) >= 2 && is_gpu(index)) {
        s->gpus[index].has_mig = 1;
        s->gpus[index].mig = s->gpus[index].mig_pending = code;
        if (other) s->gpus[index].mig_pending = other;
    }
}

static void read_file(state *s, FILE *file) {
    char line[1024];
    memset(s, 0, sizeof *s);
    for (int i = 0; i < MAX_GPUS; i++) {
        memcpy(s->gpus[i].values, VALUE_DEFAULTS, sizeof VALUE_DEFAULTS);
        snprintf(s->gpus[i].bus, sizeof s->gpus[i].bus, "00000000:%02X:00.0", 0x0f + 0x10 * i);
    }
    read_link(s, "link * * node");
    while (fgets(line, sizeof line, file)) read_line(s, line);
}

const state *current_state(void) {
    /* Two, so that a thread that still reads the one before is not disturbed. */
    static state states[2];
    static int now;
    static struct stat read_as;
    static int is_read;
    const char *path = getenv("FAKE_NVML_STATE");
    struct stat found;
    FILE *file;
    if (!path || stat(path, &found)) return NULL;
    if (is_read && found.st_ino == read_as.st_ino && found.st_dev == read_as.st_dev && found.st_size == read_as.st_size
        && found.st_mtim.tv_sec == read_as.st_mtim.tv_sec && found.st_mtim.tv_nsec == read_as.st_mtim.tv_nsec)
        return &states[now];
    file = fopen(path, "r");
    if (!file) return NULL;
    read_file(&states[!now], file);
    fclose(file);
    now = !now;
    read_as = found;
    is_read = 1;
    return &states[now];
}

typedef struct { char function[56]; u64 count; } counter;
#define COUNTERS 128

static counter *open_counters(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    void *mapped = MAP_FAILED;
    if (file < 0) return NULL;
    if (!ftruncate(file, COUNTERS * sizeof(counter)))
        mapped = mmap(NULL, COUNTERS * sizeof(counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

void count_call(const char *function) {
    static counter *counters;
    static char opened[1024];
    const char *path = getenv("FAKE_NVML_CALLS");
    if (!path) return;
    if (strcmp(path, opened)) {
        if (counters) munmap(counters, COUNTERS * sizeof(counter));
        counters = open_counters(path);
        snprintf(opened, sizeof opened, "%s", path);
    }
    for (int i = 0; counters && i < COUNTERS; i++) {
        if (!*counters[i].function) snprintf(counters[i].function, sizeof counters[i].function, "%s", function);
        if (strncmp(counters[i].function, function, sizeof counters[i].function - 1)) continue;
        __atomic_add_fetch(&counters[i].count, 1, __ATOMIC_RELAXED);
        return;
    }
}
