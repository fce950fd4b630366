"""What the engine is asked to load in test_plan_engine.py: models of many kinds of cache, and launches of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.tiny_checkpoints import (
    Config,
    Shapes,
    bert_shapes,
    config_of,
    decoder_shapes,
    deepseek_shapes,
    jamba_shapes,
    llama4_shapes,
    qwen3_next_shapes,
    whisper_shapes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.launch import ArgValue


@dataclass(frozen=True)
class Case:
    """A launch with 16 MiB of cache, unless `args` says otherwise."""

    name: str
    config: Config
    shapes: Shapes
    args: Mapping[str, ArgValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


FULL = config_of("llama", "LlamaForCausalLM", num_key_value_heads=4)
GROUPED = config_of("llama", "LlamaForCausalLM")
ONE_HEAD = config_of("llama", "LlamaForCausalLM", num_key_value_heads=1)
FLOAT32 = {**FULL, "torch_dtype": "float32"}
THREE_LAYERS = {**GROUPED, "num_hidden_layers": 3}
QWEN2 = config_of("qwen2", "Qwen2ForCausalLM", head_dim=32)
MISTRAL = config_of("mistral", "MistralForCausalLM", sliding_window=100)
GEMMA_2 = config_of(
    "gemma2", "Gemma2ForCausalLM", num_hidden_layers=5, sliding_window=64, tie_word_embeddings=True,
    hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=64, attn_logit_softcapping=50.0,
    final_logit_softcapping=30.0,
)  # fmt: skip
DEEPSEEK = config_of(
    "deepseek_v2", "DeepseekV2ForCausalLM", kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=64,
    qk_rope_head_dim=64, v_head_dim=64, n_routed_experts=1, moe_intermediate_size=64, first_k_dense_replace=9,
    num_key_value_heads=4,
)  # fmt: skip
LLAMA_4 = config_of(
    "llama4_text", "Llama4ForCausalLM", num_hidden_layers=4, attention_chunk_size=256, intermediate_size_mlp=256,
    num_local_experts=1, num_experts_per_tok=1, interleave_moe_layer_step=9, moe_layers=[], no_rope_layers=[1, 1, 1, 0],
    use_qk_norm=False, attn_temperature_tuning=False, rope_theta=10000.0,
)  # fmt: skip
JAMBA = config_of(
    "jamba", "JambaForCausalLM", num_hidden_layers=4, head_dim=32, attn_layer_period=4, attn_layer_offset=1,
    expert_layer_period=2, expert_layer_offset=1, num_experts=1, num_experts_per_tok=1, mamba_d_state=64,
    mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=8, mamba_conv_bias=True, mamba_proj_bias=False,
    use_mamba_kernels=False,
)  # fmt: skip
"""A state is larger than the page of a block of attention."""
QWEN3_NEXT = config_of(
    "qwen3_next", "Qwen3NextForCausalLM", num_hidden_layers=4, full_attention_interval=4, linear_conv_kernel_dim=4,
    linear_key_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4, linear_value_head_dim=32, num_experts=2,
    num_experts_per_tok=1, decoder_sparse_step=1, mlp_only_layers=[], moe_intermediate_size=64,
    shared_expert_intermediate_size=64,
)  # fmt: skip
BERT = config_of(
    "bert", "BertModel", num_key_value_heads=4, head_dim=32, max_position_embeddings=512, type_vocab_size=2,
    layer_norm_eps=1e-12, hidden_act="gelu", pad_token_id=0,
)  # fmt: skip

WHISPER: Config = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "torch_dtype": "bfloat16",
    "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "vocab_size": 512,
    "num_hidden_layers": 2, "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 448,
    "is_encoder_decoder": True, "scale_embedding": False, "activation_function": "gelu", "bos_token_id": 1,
    "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1,
}  # fmt: skip

_GEMMA_2_SHAPES = decoder_shapes(GEMMA_2, "pre_feedforward_layernorm", "post_feedforward_layernorm")
_SMALL_STEPS: dict[str, ArgValue] = {"max-num-batched-tokens": 256, "max-num-seqs": 8}
"""So that a window and a step together are less than a request."""
_TWO: dict[str, ArgValue] = {"tensor-parallel-size": 2}
_STATES: dict[str, ArgValue] = {"mamba-ssm-cache-dtype": "float32"}
"""Told, because vLLM's own choice depends on the machine's processor."""

NO_CACHE = Case("an encoder alone", BERT, bert_shapes(BERT), {"kv-cache-memory-bytes": "16M"})
TOO_SMALL = Case("too small a pool", FULL, decoder_shapes(FULL), {"kv-cache-memory-bytes": "4M"})
CASES = (
    Case("full attention", FULL, decoder_shapes(FULL)),
    Case("grouped heads", QWEN2, decoder_shapes(QWEN2, bias=True)),
    Case("one key head, shorter", ONE_HEAD, decoder_shapes(ONE_HEAD), {"max-model-len": 1000}),
    Case("fp8 cache", ONE_HEAD, decoder_shapes(ONE_HEAD), {"kv-cache-dtype": "fp8"}),
    Case("float32, block of 96", FLOAT32, decoder_shapes(FLOAT32), {"dtype": "float32", "block-size": 96}),
    Case("the variable before the argument", FULL, decoder_shapes(FULL), {}, {"VLLM_CPU_KVCACHE_SPACE": "1"}),
    Case("tp 2, grouped heads", GROUPED, decoder_shapes(GROUPED), _TWO),
    Case("tp 2, one key head", ONE_HEAD, decoder_shapes(ONE_HEAD), _TWO),
    Case("pp 2, three layers", THREE_LAYERS, decoder_shapes(THREE_LAYERS), {"pipeline-parallel-size": 2}),
    Case("sliding everywhere", MISTRAL, decoder_shapes(MISTRAL), _SMALL_STEPS),
    Case("sliding and full, padded", GEMMA_2, _GEMMA_2_SHAPES, _SMALL_STEPS),
    Case("sliding and full, pp 2", GEMMA_2, _GEMMA_2_SHAPES, {**_SMALL_STEPS, "pipeline-parallel-size": 2}),
    Case("sliding as if full", GEMMA_2, _GEMMA_2_SHAPES, {"disable-hybrid-kv-cache-manager": True}),
    Case("latent attention, another block asked", DEEPSEEK, deepseek_shapes(DEEPSEEK), {"block-size": 64}),
    Case("chunked", LLAMA_4, llama4_shapes(LLAMA_4), _SMALL_STEPS),
    Case("states", JAMBA, jamba_shapes(JAMBA), _STATES),
    Case("states, no prefixes, tp 2", JAMBA, jamba_shapes(JAMBA), {**_STATES, **_TWO, "enable-prefix-caching": False}),
    Case("looking at an encoder", WHISPER, whisper_shapes(WHISPER)),
    Case("delta nets", QWEN3_NEXT, qwen3_next_shapes(QWEN3_NEXT), _STATES),
)
