"""The register of facts that come from beside the log: the model's files, adapters, GPUs, the host, packages.

(name, label, unit, meaning); who reads what is not there answers Unknown with the reason.
"""

from __future__ import annotations

MODEL = (
    ("model.type", "kind of model", "", "model_type of config.json"),
    ("model.architectures", "architectures", "", "architectures of config.json, separated by spaces"),
    ("model.num_attention_heads", "attention heads", "", "attention heads, from config.json"),
    ("model.hidden_size", "hidden size", "", "hidden size, from config.json"),
    ("model.intermediate_size", "intermediate size", "", "size inside the MLP, from config.json"),
    ("model.vocab_size", "vocabulary", "tokens", "size of the vocabulary, from config.json"),
    ("model.quant_method", "quantization of the checkpoint", "", "quant_method of config.json; unset: not quantized"),
    ("model.quant_group_size", "quantization group", "", "group size of the checkpoint's quantization"),
    ("model.rope_type", "kind of rope scaling", "", "rope type of config.json"),
    ("model.has_remote_code", "brings its own code", "", "config.json names code (auto_map)"),
    ("model.transformers_version", "transformers that wrote it", "", "transformers_version of config.json"),
)
FILES = (
    ("files.trouble", "trouble with the model's files", "", "what the audit of the model's files found first"),
    ("files.damaged_file", "damaged file", "", "the first file that is truncated, a pointer or no weights at all"),
    ("files.missing_shards", "missing shards", "", "weight files that the index names and that are not there"),
    ("files.lfs_pointers", "git-lfs pointers", "", "files that are git-lfs pointers instead of their content"),
    ("files.unknown_tensors", "tensors without a place", "", "tensors that this architecture has no parameter for"),
    ("files.missing_tensors", "tensors that are not there", "", "parameters that no file has a tensor for"),
    ("files.not_finite", "tensors with NaN or infinity", "", "tensors of a sample whose values are not finite"),
    ("files.tensor_types", "number formats", "", "number formats of the tensors, such as BF16, separated by spaces"),
    ("files.has_tokenizer", "has a tokenizer", "", "tokenizer files lie beside the weights"),
    ("files.free_gib", "free space where the model lies", "GiB", "free space of that file system"),
    ("adapter.rank", "rank of the adapter", "", "r of adapter_config.json"),
    ("adapter.base_model", "base model of the adapter", "", "base_model_name_or_path of adapter_config.json"),
    ("adapter.target_modules", "target modules of the adapter", "", "target_modules of adapter_config.json"),
    ("adapter.uses_dora", "adapter uses DoRA", "", "use_dora of adapter_config.json"),
    ("adapter.bias", "bias of the adapter", "", "bias of adapter_config.json"),
    ("adapter.path_exists", "adapter is there", "", "the adapter's folder holds adapter_config.json"),
)
GPUS = (
    ("gpu.count", "GPUs", "", "GPUs that NVML lists"),
    ("gpu.name", "GPU", "", "the name of the launch's GPU with least free memory"),
    ("gpu.compute_capability", "compute capability", "", "of that GPU, such as 7.5"),
    ("gpu.driver_version", "driver", "", "version of the NVIDIA driver"),
    ("gpu.cuda_version", "CUDA of the driver", "", "CUDA version that the driver supports, such as 12.4"),
    ("gpu.orphan_pid", "pid of an orphaned engine", "", "an engine process on that GPU whose parent is gone"),
    ("gpu.orphan_gib", "GPU memory of an orphaned engine", "GiB", "what that process holds"),
    ("gpu.neighbours_gib", "GPU memory of other models", "GiB", "what other vLLM engines hold on that GPU"),
)
NEIGHBOURS = (
    ("neighbours.count", "other models on its GPUs", "", "launches of the deployment that share a GPU with this one"),
    ("neighbours.name", "the other model on its GPUs", "", "its name, where there is one other"),
    ("neighbours.names", "names of those models", "", "their names, separated by spaces"),
    ("neighbours.utilization_sum", "utilization of all on one GPU", "", "gpu-memory-utilization of all, added up"),
    ("neighbours.start_together", "started at the same time", "", "the deployment starts its models in parallel"),
    ("neighbours.are_loading", "another model was loading", "", "another one was still loading when this one failed"),
    ("neighbours.loading", "models that were loading", "", "their names, separated by spaces"),
    ("neighbours.loading_stage", "stage of the model that was loading", "", "where it stood, where it was one"),
    ("neighbours.serving", "models that served", "", "names of those that served when this one failed"),
    (
        "deployment.free_gpus",
        "GPUs that no model uses",
        "",
        "as many as this launch needs; unknown where fewer are free",
    ),
)
HOST = (
    ("host.shm_total_gib", "size of /dev/shm", "GiB", "size of /dev/shm"),
    ("host.shm_free_gib", "free in /dev/shm", "GiB", "free space of /dev/shm"),
    ("host.ram_limit_gib", "memory limit of this container", "GiB", "the cgroup's limit; unset: none"),
    ("host.cache_free_gib", "free space of the cache folder", "GiB", "free space where vLLM keeps its caches"),
    ("host.open_files_limit", "limit of open files", "", "the soft limit of open files"),
    ("host.port_owner_pid", "pid that holds the port", "", "the process that listens on the launch's port"),
    ("host.port_owner_name", "process that holds the port", "", "its name"),
    ("host.is_wsl", "runs in WSL", "", "the kernel is that of Windows' Linux subsystem"),
    ("load.is_serving", "serves requests", "", "the load came up and answered /health (measured by a load)"),
)
FROM_HOST_STATE = (
    *(row[0] for row in (*GPUS, *HOST)),
    "gpu.total_gib",
    "gpu.free_before_launch_gib",
    "gpu.used_by_others_gib",
    "gpu.largest_other_pid",
    "gpu.largest_other_name",
    "host.total_gib",
    "host.available_gib",
)
"""Names of all that a state of the host may tell; those that a probe measures too are described with its facts."""
UNMET = (
    ("packages_unmet.count", "packages that do not meet vLLM's requirements", "", "as vLLM's own metadata says"),
    ("packages_unmet.first", "the first of them", "", "what is installed and what vLLM wants"),
)
PACKAGES = "packages."
"""`packages.NAME`: the version of a package in the engine, for any NAME; unset: it is not installed."""
