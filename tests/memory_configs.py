"""Models as their config.json describes them, by hand from public facts, with the parameters that their cards name."""

from __future__ import annotations

from typing import Any, NamedTuple

Config = dict[str, Any]


class Known(NamedTuple):
    """`parameters`: as the model's public card or its safetensors metadata counts them; tolerance: of that number."""

    config: Config
    parameters: int
    tolerance: float = 1e-6


def sized(model_type: str, architecture: str, sizes: tuple[int, ...], **more: Any) -> Config:
    """`sizes`: hidden, intermediate, layers, heads, kv heads, vocabulary."""
    names = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "vocab_size",
    )  # fmt: skip
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "torch_dtype": "bfloat16",
        **dict(zip(names, sizes, strict=True)),
        **more,
    }


def llama(*sizes: int, **more: Any) -> Config:
    """A Llama of these sizes, head apart."""
    return sized("llama", "LlamaForCausalLM", sizes, **{"tie_word_embeddings": False, **more})


LLAMA_8B = llama(4096, 14336, 32, 32, 8, 128256, max_position_embeddings=131072)
LLAMA_70B = llama(8192, 28672, 80, 64, 8, 128256, max_position_embeddings=8192)
QWEN_05B = sized("qwen2", "Qwen2ForCausalLM", (896, 4864, 24, 14, 2, 151936), tie_word_embeddings=True)
DEEPSEEK_V2_LITE = sized(
    "deepseek_v2", "DeepseekV2ForCausalLM", (2048, 10944, 27, 16, 16, 102400), kv_lora_rank=512, q_lora_rank=None,
    qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=64, n_shared_experts=2,
    num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1, moe_layer_freq=1,
    tie_word_embeddings=False, max_position_embeddings=163840,
)  # fmt: skip
GEMMA_3_27B: Config = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "image_size": 896, "patch_size": 14,
    },
}  # fmt: skip
GEMMA_3_4B: Config = {
    **GEMMA_3_27B,
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
}  # fmt: skip
GPT_OSS_20B = sized(
    "gpt_oss", "GptOssForCausalLM", (2880, 2880, 24, 64, 8, 201088), head_dim=64, attention_bias=True,
    num_local_experts=32, num_experts_per_tok=4, sliding_window=128, tie_word_embeddings=False,
    layer_types=["sliding_attention", "full_attention"] * 12, max_position_embeddings=131072,
)  # fmt: skip
LLAMA_4_SCOUT: Config = {
    "model_type": "llama4",
    "architectures": ["Llama4ForConditionalGeneration"],
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 202048, "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
        "attention_chunk_size": 8192, "max_position_embeddings": 10485760, "no_rope_layers": [],
    },
    "vision_config": {
        "model_type": "llama4_vision_model", "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34,
        "num_attention_heads": 16, "image_size": 336, "patch_size": 14, "pixel_shuffle_ratio": 0.5,
        "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096,
    },
}  # fmt: skip
QWEN2_VL_7B = sized(
    "qwen2_vl", "Qwen2VLForConditionalGeneration", (3584, 18944, 28, 28, 4, 152064), tie_word_embeddings=False,
    max_position_embeddings=32768, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
    vision_config={
        "depth": 32, "embed_dim": 1280, "hidden_size": 3584, "in_chans": 3, "mlp_ratio": 4, "num_heads": 16,
        "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
    },
)  # fmt: skip
QWEN3_NEXT: Config = {
    "model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "torch_dtype": "bfloat16", "head_dim": 256,
    "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "vocab_size": 151936, "num_experts": 512, "num_experts_per_tok": 10,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_value_head_dim": 128, "tie_word_embeddings": False,
    "max_position_embeddings": 262144,
}  # fmt: skip
BAMBA_9B = sized(
    "bamba", "BambaForCausalLM", (4096, 14336, 32, 32, 8, 128256), attn_layer_indices=[9, 18, 27], mamba_d_conv=4,
    mamba_d_head=64, mamba_d_state=128, mamba_expand=2, mamba_n_groups=1, mamba_n_heads=128, tie_word_embeddings=False,
    max_position_embeddings=262144,
)  # fmt: skip
WHISPER_LARGE: Config = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "torch_dtype": "float16",
    "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "encoder_attention_heads": 20,
    "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_hidden_layers": 32,
    "num_mel_bins": 128, "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 51866,
}  # fmt: skip
BERT_BASE = sized(
    "bert", "BertModel", (768, 3072, 12, 12, 12, 30522), max_position_embeddings=512, type_vocab_size=2,
    torch_dtype="float32",
)  # fmt: skip

MODELS: dict[str, Known] = {
    "Llama-2-7B": Known(llama(4096, 11008, 32, 32, 32, 32000), 6_738_415_616),
    "Llama-3.1-8B": Known(LLAMA_8B, 8_030_261_248),
    "Llama-3-70B": Known(LLAMA_70B, 70_553_706_496),
    "Mistral-7B": Known(
        sized("mistral", "MistralForCausalLM", (4096, 14336, 32, 32, 8, 32000), tie_word_embeddings=False),
        7_241_732_096,
    ),
    "Mixtral-8x7B": Known(
        sized(
            "mixtral", "MixtralForCausalLM", (4096, 14336, 32, 32, 8, 32000), num_local_experts=8,
            num_experts_per_tok=2, tie_word_embeddings=False,
        ),
        46_702_792_704,
    ),
    "Qwen2.5-0.5B": Known(QWEN_05B, 494_032_768),
    "Qwen2.5-7B": Known(sized("qwen2", "Qwen2ForCausalLM", (3584, 18944, 28, 28, 4, 152064)), 7_615_616_512),
    "Qwen3-8B": Known(
        sized("qwen3", "Qwen3ForCausalLM", (4096, 12288, 36, 32, 8, 151936), head_dim=128), 8_190_735_360
    ),
    "Qwen3-30B-A3B": Known(
        sized(
            "qwen3_moe", "Qwen3MoeForCausalLM", (2048, 6144, 48, 32, 4, 151936), head_dim=128, num_experts=128,
            num_experts_per_tok=8, moe_intermediate_size=768, tie_word_embeddings=False,
        ),
        30_532_122_624,
    ),
    "Qwen1.5-MoE-A2.7B": Known(
        sized(
            "qwen2_moe", "Qwen2MoeForCausalLM", (2048, 5632, 24, 16, 16, 151936), num_experts=60, num_experts_per_tok=4,
            moe_intermediate_size=1408, shared_expert_intermediate_size=5632, tie_word_embeddings=False,
        ),
        14_315_784_192,
    ),
    "Qwen3-Next-80B-A3B without its draft layer": Known(QWEN3_NEXT, 79_674_391_296),
    "Gemma-7B": Known(
        sized("gemma", "GemmaForCausalLM", (3072, 24576, 28, 16, 16, 256000), head_dim=256), 8_537_680_896
    ),
    "Gemma-2-9B": Known(
        sized("gemma2", "Gemma2ForCausalLM", (3584, 14336, 42, 16, 8, 256000), head_dim=256), 9_241_705_984
    ),
    "Gemma-3-4B": Known(GEMMA_3_4B, 4_300_079_472),
    "Gemma-3-27B": Known(GEMMA_3_27B, 27_432_406_640),
    "Phi-2": Known(
        sized("phi", "PhiForCausalLM", (2560, 10240, 32, 32, 32, 51200), tie_word_embeddings=False), 2_779_683_840
    ),
    "Phi-3-mini": Known(
        sized("phi3", "Phi3ForCausalLM", (3072, 8192, 32, 32, 32, 32064), tie_word_embeddings=False), 3_821_079_552
    ),
    "Phi-4": Known(sized("phi3", "Phi3ForCausalLM", (5120, 17920, 40, 40, 10, 100352)), 14_659_507_200),
    "DeepSeek-V2-Lite": Known(DEEPSEEK_V2_LITE, 15_706_484_224),
    "gpt-oss-20b": Known(GPT_OSS_20B, 20_914_757_184),
    "Llama-4-Scout": Known(LLAMA_4_SCOUT, 108_641_793_536, 2e-4),
    "Command-R": Known(
        sized("cohere", "CohereForCausalLM", (8192, 22528, 40, 64, 64, 256000), torch_dtype="float16"), 34_980_831_232
    ),
    "Falcon-7B": Known(
        {
            "model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 4544, "vocab_size": 65024,
            "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": True, "new_decoder_architecture": False,
            "parallel_attn": True, "bias": False, "torch_dtype": "bfloat16",
        },
        6_921_720_704,
    ),
    "GPT-2": Known(
        {
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12, "n_head": 12,
            "n_positions": 1024, "vocab_size": 50257,
        },
        124_439_808,
    ),
    "GPT-NeoX-20B": Known(
        {
            "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 6144,
            "intermediate_size": 24576, "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432,
            "tie_word_embeddings": False, "max_position_embeddings": 2048, "torch_dtype": "float16",
        },
        20_554_567_680,
    ),
    "OPT-125M": Known(
        {
            "model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 768, "ffn_dim": 3072,
            "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50272, "word_embed_proj_dim": 768,
        },
        125_239_296,
    ),
    "StarCoder2-3B": Known(
        sized("starcoder2", "Starcoder2ForCausalLM", (3072, 12288, 30, 24, 2, 49152), use_bias=True), 3_030_371_328
    ),
    "GLM-4-9B": Known(
        sized(
            "glm", "GlmForCausalLM", (4096, 13696, 40, 32, 2, 151552), head_dim=128, attention_bias=True,
            tie_word_embeddings=False,
        ),
        9_399_951_360,
    ),
    "OLMo-2-7B": Known(
        sized("olmo2", "Olmo2ForCausalLM", (4096, 11008, 32, 32, 32, 100352), tie_word_embeddings=False), 7_298_617_344
    ),
    "Jamba-v0.1": Known(
        sized(
            "jamba", "JambaForCausalLM", (4096, 14336, 32, 32, 8, 65536), num_experts=16, num_experts_per_tok=2,
            mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=256, attn_layer_period=8,
            attn_layer_offset=4, expert_layer_period=2, expert_layer_offset=1, tie_word_embeddings=False,
        ),
        51_570_323_328,
        5e-4,  # its decay matrices stay float32 and are not counted as numbers of the model's own type
    ),
    "Qwen2-VL-7B": Known(QWEN2_VL_7B, 8_291_375_616),
    "Whisper-large-v3": Known(WHISPER_LARGE, 1_543_490_560, 1e-5),
    "BERT-base": Known(BERT_BASE, 109_482_240),
}  # fmt: skip
