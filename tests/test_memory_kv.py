"""The KV cache's layout: groups, blocks, tokens as each release prints them, what a request needs and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.facts import Unknown
from engine_probe.memory.kv_layout import KvLayout, kv_layout
from engine_probe.memory.kv_rules import kv_rules
from engine_probe.memory.model import LayerCache, ModelShape
from engine_probe.memory.parallel import Parallel
from engine_probe.memory.read_model import read_model
from tests.memory_configs import (
    BAMBA_9B,
    BERT_BASE,
    DEEPSEEK_V2_LITE,
    GEMMA_3_27B,
    GPT_OSS_20B,
    LLAMA_4_SCOUT,
    LLAMA_8B,
    MODELS,
    QWEN3_NEXT,
    WHISPER_LARGE,
    Config,
    llama,
    sized,
)
from tests.memory_folders import write_config

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
TINY_SLIDING = sized("mistral", "MistralForCausalLM", (256, 512, 4, 8, 4, 512), head_dim=32, sliding_window=512)
TINY_DELTA = {
    **QWEN3_NEXT, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 64,
    "linear_key_head_dim": 64, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 64,
}  # fmt: skip
TINY_LATENT = {**DEEPSEEK_V2_LITE, "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4}
TINY_MAMBA_2 = sized(
    "granitemoehybrid", "GraniteMoeHybridForCausalLM", (256, 512, 6, 4, 2, 512), mamba_d_conv=4, mamba_d_head=64,
    mamba_d_state=64, mamba_expand=2, mamba_n_groups=1, mamba_n_heads=8, num_local_experts=0,
    layer_types=["mamba", "mamba", "attention"] * 2, shared_intermediate_size=512,
)  # fmt: skip
TINY_GEMMA_3 = sized(
    "gemma3_text", "Gemma3ForCausalLM", (256, 512, 13, 4, 2, 512), head_dim=64, sliding_window=256,
    sliding_window_pattern=6,
)  # fmt: skip


def layout(tmp_path: Path, config: Config, parallel: Parallel | None = None, **more: Any) -> KvLayout:
    shape = read_model(write_config(tmp_path, config))
    found = kv_layout(shape, parallel or Parallel(), **{"version": "0.19.0", **more})
    assert isinstance(found, KvLayout)
    return found


def made_of(*caches: LayerCache, **more: Any) -> ModelShape:
    layers = tuple(
        LayerCache(**{**{name: getattr(cache, name) for name in cache.__dataclass_fields__}, "layer": at})
        for at, cache in enumerate(caches)
    )
    sizes = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 64, "max_position": 64}
    return ModelShape(
        folder="m", architecture="X", source="computed", weights=(), weights_low=1, weights_high=1, layers=layers,
        attention_heads=4, kv_heads=2, dtype="bfloat16", **sizes, **more,
    )  # fmt: skip


# Pool, tokens and concurrency as vLLM printed them for max-model-len 8192 on H100s.
@pytest.mark.parametrize(
    ("config", "parallel", "more", "pool_gib", "tokens", "concurrency"),
    [
        (LLAMA_8B, Parallel(), {}, 58.11, 476016, 58.11),
        (LLAMA_8B, Parallel(), {"cache_dtype": "fp8"}, 58.11, 952032, 116.21),
        (LLAMA_8B, Parallel(), {"dtype": "float32"}, 42.8, 175296, 21.4),
        (LLAMA_8B, Parallel(2), {}, 63.76, 1044688, 127.53),
        (LLAMA_8B, Parallel(4), {}, 67.44, 2209792, 269.75),
        (LLAMA_8B, Parallel(1, 2), {}, 65.6305, 1075312, 131.26),
        (LLAMA_8B, Parallel(1, 4), {}, 68.8905, 2257264, 275.54),
        (DEEPSEEK_V2_LITE, Parallel(), {}, 43.61, 1505552, 183.78),
        (MODELS["Gemma-2-9B"].config, Parallel(), {}, 54.12, 168880, 20.6),
        (GEMMA_3_27B, Parallel(), {}, 19.53, 36560, 4.46),
        (GPT_OSS_20B, Parallel(2), {}, 59.32, 2591776, 316.07),
        (LLAMA_4_SCOUT, Parallel(4), {}, 16.75, 365968, 44.68),
        (MODELS["Mixtral-8x7B"].config, Parallel(2), {}, 28.44, 465936, 56.88),
    ],
)
def test_tokens_and_concurrency_as_printed(
    tmp_path: Path, config: Config, parallel: Parallel, more: dict[str, Any], pool_gib: float, tokens: int,
    concurrency: float,
) -> None:  # fmt: skip
    found = layout(tmp_path, config, parallel, **more)
    blocks = found.blocks(int(pool_gib * GIB))
    assert found.printed_tokens(blocks, 8192) == pytest.approx(tokens, rel=6e-4)
    assert found.max_concurrency(blocks, 8192) == pytest.approx(concurrency, rel=1e-3)


# As vLLM 0.32 printed it on CPUs, with 1 GiB for the cache.
@pytest.mark.parametrize(
    ("config", "more", "length", "printed"),
    [
        (llama(256, 512, 4, 8, 2, 512), {}, 1024, (1_048_576, "1024.00")),
        (llama(256, 512, 3, 4, 1, 512), {"block_tokens": 32}, 1000, (1_365_312, "1365.31")),
        (TINY_SLIDING, {"batched_tokens": 512}, 4096, (1_864_135, "455.11")),
        (TINY_GEMMA_3, {"batched_tokens": 512}, 4096, (453_438, "110.70")),
        (llama(256, 512, 4, 8, 2, 512), {"cache_dtype": "fp8"}, 2000, (2_048_000, "1024.00")),
        (TINY_DELTA, {}, 2000, (1_170_285, "585.14")),
        (TINY_LATENT, {}, 2048, (310_688, "151.70")),
        (
            TINY_GEMMA_3,
            {"parallel": Parallel(2), "batched_tokens": 1024, "block_tokens": 16},
            4096,
            (717_741, "175.23"),
        ),
        (llama(256, 512, 4, 8, 2, 512), {"parallel": Parallel(2)}, 2000, (2_048_000, "1024.00")),
        (TINY_MAMBA_2, {}, 2000, (455_000, "227.50")),
    ],
    ids=[
        "grouped heads",
        "one key head",
        "sliding",
        "sliding and full",
        "in fp8",
        "delta nets",
        "latent",
        "small blocks",
        "two ranks",
        "Mamba 2",
    ],
)
def test_the_cpu_engine_printed_the_same(
    tmp_path: Path, config: Config, more: dict[str, Any], length: int, printed: tuple[int, str]
) -> None:
    found = layout(tmp_path, config, version="0.32.0", device="cpu", **more)
    blocks = found.blocks(GIB)
    assert (found.printed_tokens(blocks, length), f"{found.max_concurrency(blocks, length):.2f}") == printed


def test_bytes_of_a_token(tmp_path: Path) -> None:
    llama, mla = tmp_path / "llama", tmp_path / "mla"
    assert layout(llama, LLAMA_8B).bytes_per_token == 32 * 2 * 8 * 128 * 2
    assert layout(llama, LLAMA_8B, Parallel(4)).bytes_per_token == 32 * 2 * 2 * 128 * 2
    assert layout(llama, LLAMA_8B, Parallel(16)).bytes_per_token == 32 * 2 * 1 * 128 * 2
    assert layout(llama, LLAMA_8B, Parallel(1, 2), cache_dtype="fp8_e4m3").bytes_per_token == 16 * 2 * 8 * 128
    assert layout(mla, DEEPSEEK_V2_LITE, Parallel(8)).bytes_per_token == 27 * 576 * 2
    assert layout(tmp_path / "gemma", GEMMA_3_27B).bytes_per_token is None


def test_groups_are_as_large_as_the_rarest_kind(tmp_path: Path) -> None:
    found = layout(tmp_path, GEMMA_3_27B)  # 10 full layers, 52 that slide
    assert [group.page.kind for group in found.groups].count("sliding") == 6
    assert [len(group.layers) for group in found.groups if group.page.kind == "full"] == [10]
    assert found.block_bytes == (16 * 10 * 2 * 16 * 128 * 2,)
    # A request: all its tokens once, and six times the window, a batch and one block more.
    assert found.request_blocks(131072) == 131072 // 16 + 6 * (-(-(1023 + 8192) // 16) + 1)
    assert found.request_blocks(4096) == 7 * 256 + 6


@pytest.mark.parametrize(
    ("version", "sizes"), [("0.11.2", [12, 7, 6]), ("0.13.0", [13, 12]), ("0.16.0", [13, 12]), ("0.20.2", [13, 12])]
)
def test_nearly_as_many_layers_are_padded_to_one_group(version: str, sizes: list[int]) -> None:
    full = LayerCache("full", kv_heads=2, head_size=32)
    sliding = LayerCache("sliding", kv_heads=2, head_size=32, window=128)
    found = kv_layout(made_of(*[full] * 13, *[sliding] * 12), Parallel(), version=version)
    assert isinstance(found, KvLayout)
    assert sorted((len(group.layers) for group in found.groups), reverse=True) == sizes


def test_four_to_three_is_one_group_from_020(tmp_path: Path) -> None:
    full = LayerCache("full", kv_heads=2, head_size=32)
    sliding = LayerCache("sliding", kv_heads=2, head_size=32, window=128)
    shape = made_of(*[full] * 4, *[sliding] * 3)
    counts = {}
    for version in ("0.19.0", "0.20.2"):
        found = kv_layout(shape, Parallel(), version=version)
        assert isinstance(found, KvLayout)
        counts[version] = len(found.groups)
    assert counts == {"0.19.0": 3, "0.20.2": 2}


def test_what_tokens_mean_changed(tmp_path: Path) -> None:
    blocks = 6000
    gemma = {
        version: layout(tmp_path / version, GEMMA_3_27B, version=version) for version in ("0.8.5", "0.19.0", "0.32.0")
    }
    assert gemma["0.8.5"].printed_tokens(blocks, 8192) == blocks * 16
    assert gemma["0.19.0"].printed_tokens(blocks, 8192) == blocks // 7 * 16
    newest = gemma["0.32.0"]
    assert newest.printed_tokens(blocks, 8192) == int(blocks / newest.request_blocks(8192) * 8192)


def test_before_groups_every_layer_keeps_everything(tmp_path: Path) -> None:
    found = layout(tmp_path, GEMMA_3_27B, version="0.8.5")
    assert len(found.groups) == 1
    assert found.bytes_per_token == 62 * 2 * 16 * 128 * 2
    assert layout(tmp_path, GEMMA_3_27B, one_kind=True).bytes_per_token == found.bytes_per_token


def test_chunks_kept_everything_for_a_while(tmp_path: Path) -> None:
    kinds = {}
    for version in ("0.10.2", "0.13.0", "0.16.0", "0.19.0"):
        found = layout(tmp_path, LLAMA_4_SCOUT, Parallel(4), version=version)
        kinds[version] = len(found.groups)
    assert kinds == {"0.10.2": 1, "0.13.0": 1, "0.16.0": 4, "0.19.0": 4}


def test_two_batches_are_in_flight_in_newer_releases(tmp_path: Path) -> None:
    old, new = layout(tmp_path, GPT_OSS_20B), layout(tmp_path, GPT_OSS_20B, version="0.29.0")
    full = 65536 // 16
    assert old.request_blocks(65536) == full + -(-(127 + 8192) // 16) + 1
    assert new.request_blocks(65536) == full + -(-(127 + 2 * 8192) // 16) + 1
    once = layout(tmp_path, GPT_OSS_20B, version="0.29.0", batches_in_flight=1)
    assert once.request_blocks(65536) == old.request_blocks(65536)
    on_cpu = layout(tmp_path, GPT_OSS_20B, version="0.29.0", device="cpu", block_tokens=32)
    assert on_cpu.request_blocks(65536) == 65536 // 32 + -(-(127 + 8192) // 32) + 1
    stages = layout(tmp_path, GPT_OSS_20B, Parallel(1, 3), version="0.29.0")
    assert stages.request_blocks(65536) == full + -(-(127 + 4 * 8192) // 16) + 1


def test_uneven_stages_are_limited_by_the_largest(tmp_path: Path) -> None:
    found = layout(tmp_path, LLAMA_8B, Parallel(1, 2, pp_partition=(20, 12)))
    a_layer = 16 * 2 * 8 * 128 * 2
    assert found.block_bytes == (20 * a_layer, 12 * a_layer)
    assert found.blocks(20 * a_layer * 100) == 100
    assert found.blocks([20 * a_layer * 100, 12 * a_layer * 70]) == 70
    assert found.needed_bytes(1600) == 100 * 20 * a_layer


def test_needed_and_longest_are_two_sides_of_one_thing(tmp_path: Path) -> None:
    for at, (config, version) in enumerate(
        [
            (LLAMA_8B, "0.19.0"),
            (LLAMA_8B, "0.32.0"),
            (GEMMA_3_27B, "0.10.2"),
            (GEMMA_3_27B, "0.19.0"),
            (BAMBA_9B, "0.32.0"),
        ]
    ):
        found = layout(tmp_path / str(at), config, version=version)
        pool = found.needed_bytes(20_000)
        longest = found.longest_length(pool, 1 << 20)
        assert longest >= 20_000
        assert found.fits(pool, longest)
        assert not found.fits(pool, longest + 1)
        assert not found.fits(found.needed_bytes(20_000) - 1, 20_000)
    assert found.longest_length(0) == 0
    assert found.longest_length(1) == 0


def test_one_block_is_kept_back_in_newer_releases(tmp_path: Path) -> None:
    old, new = layout(tmp_path, LLAMA_8B, version="0.29.0"), layout(tmp_path, LLAMA_8B, version="0.32.0")
    assert new.needed_bytes(1600) - old.needed_bytes(1600) == new.block_bytes[0]
    assert new.blocks(GIB) == old.blocks(GIB)


@pytest.mark.parametrize(("device", "tokens"), [("cuda", 16), ("cpu", 128)])
def test_blocks_of_the_device(tmp_path: Path, device: str, tokens: int) -> None:
    assert layout(tmp_path / "llama", LLAMA_8B, device=device).block_tokens == tokens
    assert layout(tmp_path / "mla", DEEPSEEK_V2_LITE, device=device).block_tokens == 16
    assert layout(tmp_path / "llama", LLAMA_8B, device=device, block_tokens=32).block_tokens == 32


def test_a_state_stretches_the_blocks(tmp_path: Path) -> None:
    found = layout(tmp_path, BAMBA_9B, version="0.13.0")
    # conv (8192 + 2 × 128) × 3 and 128 heads × 64 × 128, in two bytes, against 8 heads × 128 × 2 × 2 a token
    state = (8448 * 3 + 128 * 64 * 128) * 2
    block = 16 * -(-state // (16 * 4096))
    assert found.block_tokens == block
    assert sorted(len(group.layers) for group in found.groups) == [2, *[3] * 10]
    assert found.block_bytes == (3 * block * 4096,)
    assert found.request_blocks(8192) == -(-8192 // block) + 10  # 29 layers in ten groups of three
    kept = layout(tmp_path, BAMBA_9B, version="0.32.0", prefix_caching=True)
    assert kept.request_blocks(8192) == -(-8192 // kept.block_tokens) + 30


def test_prefix_caching_of_states_is_on_in_newer_releases(tmp_path: Path) -> None:
    counts = {}
    for version in ("0.19.0", "0.25.1", "0.29.0", "0.32.0"):
        found = layout(tmp_path, BAMBA_9B, version=version)
        off = layout(tmp_path, BAMBA_9B, version=version, prefix_caching=False)
        counts[version] = found.request_blocks(8192) - off.request_blocks(8192)
    assert counts == {"0.19.0": 0, "0.25.1": 0, "0.29.0": 10, "0.32.0": 20}


def test_temporal_states_may_have_a_type_of_their_own(tmp_path: Path) -> None:
    plain = layout(tmp_path, BAMBA_9B, state_dtype=None)
    wide = layout(tmp_path, BAMBA_9B, state_dtype="float32")
    assert plain.block_tokens == 16 * -(-(8448 * 3 * 2 + 128 * 64 * 128 * 2) // (16 * 4096))
    assert wide.block_tokens == 16 * -(-(8448 * 3 * 2 + 128 * 64 * 128 * 4) // (16 * 4096))


def test_delta_nets_have_states_too(tmp_path: Path) -> None:
    found = layout(tmp_path, QWEN3_NEXT, Parallel(2), version="0.20.2")
    state = ((2 * 16 * 128 + 4096) * 3 + 4096 * 128) * 2 // 2
    a_token = 2 * 1 * 256 * 2
    assert found.block_tokens == 16 * -(-state // (16 * a_token))
    assert len(found.groups) == 4


def test_states_were_once_kept_beside_the_pool(tmp_path: Path) -> None:
    found = layout(tmp_path, BAMBA_9B, version="0.8.5")
    assert found.block_bytes == (3 * 16 * 4096,)
    assert found.block_tokens == 16


def test_states_alone_take_one_block_a_request() -> None:
    shape = made_of(*[LayerCache("state", state_bytes=1000)] * 4)
    found = kv_layout(shape, Parallel(), version="0.19.0")
    assert isinstance(found, KvLayout)
    assert found.block_bytes == (4000,)
    assert found.max_concurrency(found.blocks(400_000), 5000) == 100
    assert found.needed_bytes(1 << 20) == 4000


def test_groups_of_a_state_are_extended_where_tp_does_not_divide_them() -> None:
    state = LayerCache("state", state_bytes=1000, state_groups=1, state_group_bytes=40)
    shape = made_of(state)
    sizes = []
    for tp in (1, 2, 4):
        found = kv_layout(shape, Parallel(tp))
        assert isinstance(found, KvLayout)
        sizes.append(found.block_bytes[0])
    assert sizes == [1000, (1000 + 40) // 2, (1000 + 3 * 40) // 4]


def test_attention_and_state_side_by_side(tmp_path: Path) -> None:
    config = sized(
        "falcon_h1", "FalconH1ForCausalLM", (1024, 2048, 4, 8, 2, 32000), head_dim=64, mamba_d_ssm=1536,
        mamba_n_heads=24, mamba_d_head=64, mamba_n_groups=1, mamba_d_state=128, mamba_d_conv=4,
    )  # fmt: skip
    found = layout(tmp_path, config, version="0.19.0")
    assert sorted(group.page.kind for group in found.groups) == ["full", "state"]
    assert [group.layers for group in found.groups] == [(0, 1, 2, 3)] * 2


def test_layers_that_see_an_encoder_keep_its_tokens() -> None:
    full, cross = LayerCache("full", kv_heads=2, head_size=32), LayerCache("cross", kv_heads=2, head_size=32)
    found = kv_layout(made_of(full, cross, full, cross), Parallel(), version="0.19.0", encoder_tokens=1500)
    assert isinstance(found, KvLayout)
    assert found.request_blocks(160) == 10 + 94


def test_whisper_keeps_the_sound_of_each_layer(tmp_path: Path) -> None:
    found = layout(tmp_path, WHISPER_LARGE, encoder_tokens=1500)
    assert sorted(group.page.kind for group in found.groups) == ["cross", "full"]
    assert found.block_bytes == (16 * 32 * 2 * 20 * 64 * 2,)
    assert found.request_blocks(448) == 28 + 94


def test_different_heads_share_one_group() -> None:
    found = kv_layout(
        made_of(LayerCache("full", kv_heads=2, head_size=32), LayerCache("full", kv_heads=4, head_size=32)), Parallel()
    )
    assert isinstance(found, KvLayout)
    assert len(found.groups) == 1
    assert found.block_bytes == (16 * 2 * (2 + 4) * 32 * 2,)


def test_an_encoder_keeps_nothing(tmp_path: Path) -> None:
    found = layout(tmp_path, BERT_BASE)
    assert found.groups == ()
    assert (found.block_bytes, found.blocks(GIB), found.needed_bytes(512)) == ((0,), 0, 0)
    assert found.fits(0, 512)
    assert found.max_concurrency(0, 512) == 0.0
    assert found.printed_tokens(0, 512) == 0


def test_a_format_that_is_not_known_is_unknown(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, LLAMA_8B))
    found = kv_layout(shape, Parallel(), cache_dtype="nvfp4")
    assert isinstance(found, Unknown)
    assert "nvfp4" in found.reason


def test_a_checkpoint_may_ask_for_fp8(tmp_path: Path) -> None:
    scheme = {"num_bits": 8, "strategy": "tensor", "type": "float"}
    groups = {"group_0": {"targets": ["Linear"], "weights": scheme}}
    quantisation = {"quant_method": "compressed-tensors", "config_groups": groups, "kv_cache_scheme": {"num_bits": 8}}
    found = layout(tmp_path, {**LLAMA_8B, "quantization_config": quantisation})
    assert found.bytes_per_token == 32 * 2 * 8 * 128
    assert layout(
        tmp_path, {**LLAMA_8B, "quantization_config": quantisation}, cache_dtype="bfloat16"
    ).bytes_per_token == (32 * 2 * 8 * 128 * 2)


@pytest.mark.parametrize(
    ("version", "since"),
    [
        ("0.5.5", (0, 0, 0)),
        ("v0.9.2", (0, 9, 2)),
        ("0.12.0", (0, 9, 2)),
        ("0.19.1.dev3+g12", (0, 16, 0)),
        ("0.20.1", (0, 20, 1)),
    ],
)
def test_rows_of_rules(version: str, since: tuple[int, int, int]) -> None:
    assert kv_rules(version).since == since


def test_an_unknown_version_is_the_newest() -> None:
    assert kv_rules(None) == kv_rules("nightly") == kv_rules("99.0")
