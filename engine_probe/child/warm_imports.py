"""Imports all that a load will need, so that a fork of this process need not."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_WANTED = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.download_kernels",
    "vllm.entrypoints.cli.preload",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.snapshot",
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.v1.engine.core",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.coordinator",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.core.sched.scheduler",
    "vllm.v1.core.sched.async_scheduler",
    "vllm.v1.structured_output",
    "vllm.v1.metrics.loggers",
    "vllm.model_executor.model_loader",
    "vllm.model_executor.model_loader.default_loader",
    "vllm.transformers_utils.tokenizer",
    "vllm.tokenizers",
    "vllm.lora.worker_manager",
    "transformers.models.auto.tokenization_auto",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
    "uvicorn.lifespan.on",
    "model_hosting_container_standards.sagemaker",
    # What the server builds its routes of,
    "vllm.entrypoints.serve.instrumentator.metrics",
    "vllm.entrypoints.serve.instrumentator.offline_docs",
    "vllm.entrypoints.serve.lora.api_router",
    "vllm.entrypoints.serve.profile.api_router",
    "vllm.entrypoints.serve.tokenize.api_router",
    "vllm.entrypoints.serve.elastic_ep.api_router",
    "vllm.entrypoints.serve.utils.fingerprint",
    "vllm.entrypoints.openai.models.api_router",
    "vllm.entrypoints.openai.chat_completion.api_router",
    "vllm.entrypoints.openai.completion.api_router",
    "vllm.entrypoints.openai.responses.api_router",
    "vllm.entrypoints.anthropic.api_router",
    "vllm.entrypoints.cohere.api_router",
    "vllm.entrypoints.generate.api_router",
    "vllm.entrypoints.generate.generative_scoring.api_router",
    "vllm.entrypoints.generate.structured_decisions.api_router",
    "vllm.entrypoints.scale_out.derender.api_router",
    "vllm.entrypoints.scale_out.render.api_router",
    "vllm.entrypoints.scale_out.token_in_token_out.api_router",
    "vllm.transformers_utils.chat_templates",
    # and a worker its model.
    "vllm.distributed.elastic_ep.elastic_execute",
    "vllm.v1.pool.flash_maxsim",
    "vllm.model_executor.layers.quantization.online.base",
    "vllm.model_executor.layers.quantization.online.fp8",
    "vllm.model_executor.layers.quantization.online.int8",
    "vllm.model_executor.layers.quantization.online.mxfp8",
    "vllm.model_executor.layers.quantization.online.nvfp4",
)
"""What a load imports sooner or later; a name that this version lacks is skipped. Measured with vLLM 0.32.0."""

_WANTED_BY_DEVICE = {
    "cpu": ("vllm.v1.worker.cpu_worker", "vllm.v1.worker.cpu_model_runner", "vllm.v1.attention.backends.cpu_attn"),
    "cuda": ("vllm.v1.worker.gpu_worker", "vllm.v1.worker.gpu_model_runner"),
}


def import_all(model_dirs: Iterable[str]) -> str | None:
    """Import vLLM and what the models in `model_dirs` need; returns vLLM's version. Its own errors pass through."""
    import vllm

    for name in _WANTED:
        _import_quietly(name)
    from vllm.platforms import current_platform

    for name in _WANTED_BY_DEVICE.get(current_platform.device_type, ()):
        _import_quietly(name)
    for folder in model_dirs:
        _import_model_class(folder)
    _register_kernel_overrides(current_platform)
    return str(getattr(vllm, "__version__", None) or "") or None


def _register_kernel_overrides(platform: Any) -> None:
    """Now and never again: vllm/v1/worker/worker_base.py 0.32 does it in each worker, a second each time."""
    override = getattr(platform, "register_triton_kernel_overrides", None)
    if override is not None:
        override()
        type(platform).register_triton_kernel_overrides = classmethod(lambda _: None)


def _import_quietly(name: str) -> None:
    with contextlib.suppress(ImportError):  # another version's layout: the load imports what it needs itself
        importlib.import_module(name)


def _import_model_class(folder: str) -> None:
    """The class that config.json names, so that the worker finds it imported.

    Whatever is wrong with this model is the load's to show, in vLLM's own words, not the warm-up's.
    """
    path = os.path.join(folder, "config.json")
    if not os.path.isfile(path):
        return  # a pipe would hold the warm-up for ever
    with contextlib.suppress(Exception):
        with open(path, encoding="utf-8") as file:
            architectures = json.load(file).get("architectures") or []
        from vllm.model_executor.models.registry import ModelRegistry

        for architecture in architectures:
            importlib.import_module(ModelRegistry.models[architecture].module_name)
