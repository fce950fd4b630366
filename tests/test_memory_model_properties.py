"""What holds for every model and every cut: nothing negative, sums that cover the whole, more room never holds less."""

from __future__ import annotations

import struct
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine_probe.errors import InputError
from engine_probe.memory.estimates import Estimate
from engine_probe.memory.gguf import read_gguf
from engine_probe.memory.kv_layout import KvLayout, kv_layout
from engine_probe.memory.model import LayerCache, ModelShape
from engine_probe.memory.parallel import Parallel
from engine_probe.memory.rank_weights import weights_on_rank
from engine_probe.memory.read_model import read_model
from tests.memory_folders import llama_tensors, write_config, write_header

POWERS = st.sampled_from([1, 2, 4, 8])
VERSIONS = st.sampled_from(
    ["0.6.6", "0.8.5", "0.9.2", "0.11.2", "0.13.0", "0.16.0", "0.19.0", "0.20.2", "0.29.0", "0.32.0", None]
)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads = draw(POWERS)
    config = {
        "model_type": draw(st.sampled_from(["llama", "qwen2", "qwen3", "gemma2", "phi3", "mixtral", "never_heard_of"])),
        "architectures": ["XForCausalLM"],
        "hidden_size": 64 * draw(st.integers(1, 32)),
        "intermediate_size": 64 * draw(st.integers(1, 64)),
        "num_hidden_layers": draw(st.integers(1, 12)),
        "num_attention_heads": kv_heads * draw(POWERS),
        "num_key_value_heads": kv_heads,
        "head_dim": draw(st.sampled_from([32, 64, 128])),
        "vocab_size": draw(st.integers(1, 50_000)),
        "tie_word_embeddings": draw(st.booleans()),
        "sliding_window": draw(st.sampled_from([None, 128, 4096])),
        "max_position_embeddings": draw(st.integers(1, 1 << 17)),
        "torch_dtype": draw(st.sampled_from(["bfloat16", "float32"])),
    }
    if draw(st.booleans()):
        config |= {"num_local_experts": draw(st.integers(2, 64)), "num_experts_per_tok": 2}
    if draw(st.booleans()):
        config["quantization_config"] = draw(
            st.sampled_from(
                [
                    {"quant_method": "awq", "bits": 4, "group_size": 64},
                    {"quant_method": "fp8", "weight_block_size": [128, 128]},
                    {"quant_method": "mxfp4"},
                    {"quant_method": "bitsandbytes", "load_in_4bit": True},
                ]
            )
        )
    return config


def shape_of(config: dict[str, Any], *, with_headers: bool = False) -> ModelShape:
    with tempfile.TemporaryDirectory() as name:
        folder = write_config(Path(name), config)
        if with_headers:
            write_header(folder / "model.safetensors", llama_tensors(config))
        return read_model(folder)


def gib(shape: ModelShape, parallel: Parallel, rank: int | None = None, **more: Any) -> Estimate:
    found = weights_on_rank(shape, parallel, rank, **more)
    assert isinstance(found, Estimate)
    return found


@settings(max_examples=60, deadline=None)
@given(configs(), POWERS, st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_ranks_together_hold_the_whole(config: dict[str, Any], tp: int, pp: int, dp: int, experts: bool) -> None:
    shape = shape_of(config)
    assume(pp <= config["num_hidden_layers"])
    parallel = Parallel(tp, pp, dp, experts)
    ranks = [gib(shape, parallel, rank, family="cpu") for rank in range(parallel.ranks)]
    whole = gib(shape, Parallel(), family="cpu")
    assert sum(rank.value for rank in ranks) * dp >= whole.value * (1 - 1e-9)
    for rank in ranks:
        assert 0 <= rank.low <= rank.value <= rank.high
    assert gib(shape, parallel, family="cpu").value == max(rank.value for rank in ranks)


@settings(max_examples=60, deadline=None)
@given(configs(), st.booleans())
def test_more_ranks_never_hold_more_each(config: dict[str, Any], has_headers: bool) -> None:
    shape = shape_of(config, with_headers=has_headers and "quantization_config" not in config)
    for one in ("tp", "pp", "dp"):
        sizes = [gib(shape, Parallel(**{one: count}), family="cpu").value for count in (1, 2, 4, 8)]
        assert all(later <= earlier * 1.0001 for earlier, later in pairwise(sizes)), (one, sizes)


@settings(max_examples=40, deadline=None)
@given(
    configs(), st.floats(0, 100), st.sampled_from([None, "float16", "float32"]), st.sampled_from([None, "fp8", "awq"])
)
def test_no_argument_makes_weights_negative(
    config: dict[str, Any], offload_gib: float, dtype: str | None, quantization: str | None
) -> None:
    found = gib(shape_of(config), Parallel(2), cpu_offload_gib=offload_gib, dtype=dtype, quantization=quantization)
    assert 0 <= found.low <= found.value <= found.high
    assert all(part.size_bytes >= part.padding_bytes >= 0 for part in shape_of(config).weights)


LAYERS = st.lists(
    st.one_of(
        st.builds(lambda heads: LayerCache("full", kv_heads=heads, head_size=32), POWERS),
        st.builds(lambda window: LayerCache("sliding", kv_heads=2, head_size=32, window=window), st.integers(1, 9000)),
        st.just(LayerCache("chunked", kv_heads=2, head_size=32, window=512)),
        st.just(LayerCache("mla", kv_heads=1, latent_width=576)),
        st.builds(lambda size: LayerCache("state", state_bytes=size), st.integers(1, 1 << 20)),
        st.just(LayerCache("none")),
    ),
    max_size=12,
)


@st.composite
def layouts(draw: st.DrawFn) -> KvLayout:
    caches = draw(LAYERS)
    layers = tuple(
        LayerCache(**{**{name: getattr(cache, name) for name in cache.__dataclass_fields__}, "layer": at})
        for at, cache in enumerate(caches)
    )
    shape = ModelShape(
        folder="m", architecture="X", source="computed", weights=(), weights_low=1, weights_high=1, layers=layers,
        hidden_size=64, intermediate_size=64, vocab_size=64, max_position=64, attention_heads=8, kv_heads=8,
        dtype="bfloat16",
    )  # fmt: skip
    parallel = Parallel(draw(POWERS), draw(st.integers(1, 3)))
    found = kv_layout(
        shape, parallel, version=draw(VERSIONS), cache_dtype=draw(st.sampled_from(["auto", "fp8"])),
        block_tokens=draw(st.sampled_from([None, 16, 64, 128])), batched_tokens=draw(st.integers(1, 20_000)),
        prefix_caching=draw(st.booleans()), one_kind=draw(st.booleans()),
    )  # fmt: skip
    assert isinstance(found, KvLayout)
    return found


@settings(max_examples=150, deadline=None)
@given(layouts(), st.integers(0, 1 << 36), st.integers(0, 1 << 36), st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_a_larger_pool_never_holds_less(layout: KvLayout, one: int, other: int, length: int, longer: int) -> None:
    small, large = min(one, other), max(one, other)
    low, high = sorted((length, longer))
    assert 0 <= layout.blocks(small) <= layout.blocks(large)
    assert layout.printed_tokens(layout.blocks(small), low) <= layout.printed_tokens(layout.blocks(large), low)
    assert 0 <= layout.max_concurrency(layout.blocks(small), high) <= layout.max_concurrency(layout.blocks(large), low)
    assert 0 <= layout.needed_bytes(low) <= layout.needed_bytes(high)
    assert not (layout.fits(small, high) and not layout.fits(large, low))


@settings(max_examples=100, deadline=None)
@given(layouts(), st.integers(0, 1 << 36), st.integers(1, 1 << 20))
def test_the_longest_length_fits_and_one_more_does_not(layout: KvLayout, pool: int, most: int) -> None:
    longest = layout.longest_length(pool, most)
    assert 0 <= longest <= most
    if longest:
        assert layout.fits(pool, longest)
    if longest < most:
        assert not layout.fits(pool, longest + 1)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_make_the_gguf_reader_fall_over(content: bytes, has_magic: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "m.gguf"
        path.write_bytes((b"GGUF" + struct.pack("<I", 3) if has_magic else b"") + content)
        try:
            found = read_gguf(path)
        except InputError:
            return
        assert all(tensor.size_bytes >= 0 for tensor in found.tensors.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(configs(), st.data())
def test_one_value_that_is_anything_makes_an_error_or_a_model(config: dict[str, Any], data: st.DataObject) -> None:
    names = [
        *config,
        "text_config",
        "vision_config",
        "rope_scaling",
        "layer_types",
        "kv_lora_rank",
        "attention_chunk_size",
    ]
    config[data.draw(st.sampled_from(names))] = data.draw(JSON)
    try:
        shape = shape_of(config)
    except InputError:
        return
    assert all(part.size_bytes >= 0 for part in shape.weights)
