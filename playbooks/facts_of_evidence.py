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
    ("files.damaged_files", "damaged and missing files", "", "all files that are damaged or missing, a comma between"),
    ("files.missing_file", "missing file", "", "the first file that belongs to the model and is not there"),
    ("files.not_finite_file", "file with NaN or infinity", "", "the first file in which a sample is NaN or infinity"),
    (
        "files.other_weights",
        "weight files of the copy",
        "",
        "weight files that a known copy has otherwise",
    ),
    ("files.other_tokenizer", "tokenizer files of the copy", "", "tokenizer files that a known copy has otherwise"),
    (
        "files.consolidated_files",
        "consolidated weight files",
        "",
        "consolidated*.safetensors, where others are there too",
    ),
    ("files.folder", "the model's folder", "", "the folder that was looked at"),
    (
        "files.whole_copy",
        "whole copy",
        "",
        "where a whole copy of the file is that the fix restores; elsewhere, of the first damaged or missing file",
    ),
    ("files.sources_not_used", "sources that were not used", "", "of --files-from: what is of no use here, and why"),
    ("files.missing_shards", "missing shards", "", "weight files that the index names and that are not there"),
    ("files.lfs_pointers", "git-lfs pointers", "", "files that are git-lfs pointers instead of their content"),
    ("files.unknown_tensors", "tensors without a place", "", "tensors that this architecture has no parameter for"),
    ("files.missing_tensors", "tensors that are not there", "", "parameters that no file has a tensor for"),
    ("files.not_finite", "tensors with NaN or infinity", "", "tensors of a sample whose values are not finite"),
    ("files.tensor_types", "number formats", "", "number formats of the tensors, such as BF16, separated by spaces"),
    ("files.other_shapes", "tensors of another shape", "", "tensors whose shape is not that of the model's class"),
    ("files.read_share", "share that was read", "", "share of the files' bytes that an audit has read, 0 to 1"),
    ("files.bytes_are_right", "bytes are as they were", "", "every byte could be read, and no digest is another"),
    ("files.has_tokenizer", "has a tokenizer", "", "tokenizer files lie beside the weights"),
    ("files.free_gib", "free space where the model lies", "GiB", "free space of that file system"),
    ("adapter.rank", "rank of the adapter", "", "r of adapter_config.json"),
    ("adapter.base_model", "base model of the adapter", "", "base_model_name_or_path of adapter_config.json"),
    ("adapter.target_modules", "target modules of the adapter", "", "target_modules of adapter_config.json"),
    ("adapter.uses_dora", "adapter uses DoRA", "", "use_dora of adapter_config.json"),
    ("adapter.bias", "bias of the adapter", "", "bias of adapter_config.json"),
    ("adapter.path_exists", "adapter is there", "", "the adapter's folder holds adapter_config.json"),
)
NEAR = (
    ("files.model_nearby", "model of a near name", "", "the folder of a model beside the one named, of a near name"),
    ("files.plain_model_nearby", "unquantized model", "", "the folder of this model without quantization, beside it"),
    ("adapter.name", "adapter", "", "the name of the launch's adapter at fault, else of its first"),
    ("adapter.path", "folder of the adapter", "", "where the launch says that it is"),
    ("adapter.whole_copy", "another copy of the adapter", "", "a folder beside it, or given, with a whole adapter"),
    ("adapter.base_nearby", "the adapter's base", "", "the folder of the adapter's base model"),
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
TESTED = (
    (
        "gpu.largest_allocation_gib",
        "largest block of GPU memory",
        "GiB",
        "the largest single allocation on the launch's GPU where it is smallest",
    ),
    ("gpu.free_now_gib", "free GPU memory now", "GiB", "what the driver calls free on that GPU at that time"),
    ("gpu.in_fragments_gib", "GPU memory in fragments", "GiB", "free on that GPU, and in no block as large as that"),
    ("ranks.count", "ranks", "", "tensor-parallel-size x pipeline-parallel-size, as the all-reduce test had them"),
    ("ranks.backend", "way between the ranks", "", "nccl between GPUs, gloo on CPUs"),
    ("ranks.all_reduce_works", "ranks reach each other", "", "all ranks met and added up one tensor"),
    ("ranks.all_reduce_s", "time until the ranks had met", "s", "seconds of the whole test, import of torch included"),
    ("ranks.silent", "rank that did not answer", "", "the rank that came least far, and its error"),
)
NEIGHBOURS = (
    ("neighbours.count", "other models on its GPUs", "", "launches of the deployment that share a GPU with this one"),
    ("neighbours.name", "the other model on its GPUs", "", "its name, where there is one other"),
    ("neighbours.names", "names of those models", "", "their names, separated by spaces"),
    ("neighbours.utilization_sum", "utilization of all on one GPU", "", "gpu-memory-utilization of all, added up"),
    ("neighbours.pools", "KV cache of each of those models", "", "NAME=BYTES of each, separated by spaces; 0: not set"),
    ("neighbours.pool_bytes", "KV caches of those models", "bytes", "what all of them set by hand, added up"),
    ("neighbours.start_together", "started at the same time", "", "the deployment starts its models in parallel"),
    ("neighbours.are_loading", "another model was loading", "", "another one was still loading when this one failed"),
    ("neighbours.loading", "models that were loading", "", "their names, separated by spaces"),
    ("neighbours.loading_stage", "stage of the model that was loading", "", "where it stood, where it was one"),
    ("neighbours.serving", "models that served", "", "names of those that served when this one failed"),
    ("neighbours.same_port", "other model with its port", "", "the model whose launch names the same port"),
    ("deployment.models", "models of the deployment", "", "NAME=MODEL of each launch, separated by spaces"),
    ("deployment.ports", "ports of all models", "", "the ports that the launches name, separated by spaces"),
    ("deployment.last_first", "order with the last one first", "", "the model that began to load last goes first"),
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
    ("host.shm_is_there", "there is a /dev/shm", "", "the folder is there on the engine's side"),
    ("host.shm_is_writable", "shared memory can be written", "", "1 MiB was written to /dev/shm (measured by a test)"),
    ("host.cache_is_writable", "cache folder can be written", "", "1 MiB was written where vLLM keeps its caches"),
    ("host.hub_cache_free_gib", "free space of the hub's cache", "GiB", "free space where downloads go"),
    ("host.hub_cache_is_writable", "hub's cache can be written", "", "1 MiB was written where downloads go"),
    ("host.tmp_free_gib", "free space for temporary files", "GiB", "free space of TMPDIR, else of /tmp"),
    ("host.tmp_is_writable", "temporary files can be written", "", "1 MiB was written to TMPDIR, else to /tmp"),
    ("host.write_trouble", "trouble with writing", "", "the first folder that could not be written, and why"),
    ("host.port_is_free", "port is free", "", "the launch's port could be bound (measured by a test)"),
    ("host.address_is_here", "address is this host's", "", "the launch's address is one of the engine's host"),
    ("host.port_trouble", "trouble with the port", "", "what binding the launch's address and port said"),
    ("host.open_files_limit", "limit of open files", "", "the soft limit of open files"),
    ("host.port_owner_pid", "pid that holds the port", "", "the process that listens on the launch's port"),
    ("host.port_owner_name", "process that holds the port", "", "its name"),
    ("host.is_wsl", "runs in WSL", "", "the kernel is that of Windows' Linux subsystem"),
    ("load.serves_alone", "serves when it is alone", "", "it came up without the other models (measured by a load)"),
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
    ("engine.command", "the engine's Python", "", "the command that runs it"),
    ("packages_unmet.count", "packages that do not meet vLLM's requirements", "", "as vLLM's own metadata says"),
    ("packages_unmet.first", "the first of them", "", "what is installed and what vLLM wants"),
    ("packages_unmet.name", "package that vLLM asks for", "", "the name of that first one"),
    (
        "packages_unmet.wanted",
        "version that vLLM asks for",
        "",
        "of the package that a fix changes, where it is another or not there; elsewhere of the first such one",
    ),
)
COPY, NOW, KEPT = "files.whole_copy.", "files.now.", "files.kept."
"""`files.whole_copy.NAME`: where a whole copy of that file is; how it is now; where it will be kept."""
WANTED = "packages_wanted."
"""`packages_wanted.NAME`: which versions vLLM asks for, of a package that is another one or not there."""
ANY_VERSION = ">=0"
PACKAGES = "packages."
"""`packages.NAME`: the version of a package in the engine, for any NAME; unset: it is not installed."""
