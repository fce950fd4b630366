"""Load stages as they are written where there is little room, on the screen and in print alike."""

SHORT_NAMES = {
    "config": "config",
    "distributed_init": "dist",
    "engine_build": "engine",
    "worker_start": "workers",
    "weight_load": "weights",
    "memory_planning": "memory",
    "warmup": "warmup",
    "serving": "serving",
}
