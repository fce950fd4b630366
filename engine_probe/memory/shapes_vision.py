"""Vision towers, their projectors and the like, from a vision_config; sizes as transformers' classes build them."""

from __future__ import annotations

from engine_probe.memory.shapes_modules import Module, existing, norm
from engine_probe.memory.shapes_settings import MOST_LAYERS, Settings

_VISION_KEYS = ("vision_config", "vit_config", "vision_tower_config")


def vision_of(settings: Settings) -> Settings | None:
    """The tower's settings; None for a model that only reads."""
    return settings.inner(*_VISION_KEYS)


def vision_modules(settings: Settings, vision: Settings, text_hidden: int) -> tuple[list[Module], str | None]:
    """All modules outside the language model, and a doubt where the tower's class is not known."""
    kind = vision.text("model_type") or settings.text("model_type")
    makers = {
        "siglip_vision_model": _siglip, "siglip2_vision_model": _siglip, "clip_vision_model": _clip,
        "pixtral": _pixtral, "mllama_vision_model": _mllama, "llama4_vision_model": _llama4,
        "moonvit": _moonvit, "idefics3_vision": _siglip,
        "smolvlm_vision": _siglip, "intern_vit_6b": _intern, "internvl_vision": _intern,
        "qwen2_vl": _qwen2, "qwen2_vl_vision": _qwen2, "qwen2_5_vl": _qwen25, "qwen2_5_vl_vision": _qwen25,
        "qwen3_vl": _qwen3, "qwen3_vl_vision": _qwen3, "qwen3_vl_moe": _qwen3, "qwen3_vl_moe_vision": _qwen3,
        "qwen3_5": _qwen3, "qwen3_5_moe": _qwen3, "qwen3_5_vision": _qwen3, "qwen3_5_moe_vision": _qwen3,
    }  # fmt: skip
    make = makers.get(kind)
    vision = _cut(settings, vision)
    doubt = None if make else f"the vision tower {kind[:60] or 'without a model_type'} is taken for a plain ViT"
    tower = (make or _clip)(vision, text_hidden)
    projector = [] if kind.startswith("qwen") else _projector(settings, vision, text_hidden, kind)
    return [*tower, *projector], doubt


def _cut(settings: Settings, vision: Settings) -> Settings:
    """Layers behind the one whose output is taken are never built (models/llava.py, vision_feature_layer)."""
    taken = settings.raw.get("vision_feature_layer")
    layers = vision.optional("num_hidden_layers", most=MOST_LAYERS)
    if not settings.text("model_type").startswith(("llava", "vipllava")) or not layers:
        return vision
    last = max((one if one >= 0 else layers + one + 1 for one in _whole_numbers(taken)), default=layers)
    return Settings({**vision.raw, "num_hidden_layers": min(max(last, 1), layers)}, vision.where, vision.defaults)


def _whole_numbers(value: object) -> list[int]:
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, int) and not isinstance(one, bool)]


def _block(
    width: int, inner: int, layers: int, *, bias: bool, gated: bool = False, norm_kind: str = "ln"
) -> list[Module]:
    """A plain transformer's layers, as one module a part with `layers` copies."""
    return existing(
        _part("attention", 4 * width, width, layers, bias),
        _part("mlp.up", inner * (2 if gated else 1), width, layers, bias),
        _part("mlp.down", width, inner, layers, bias),
        *[_whole("norm", width * layers, 1, bias=norm_kind == "ln")] * 2,
    )


def _part(name: str, rows: int, columns: int, copies: int, bias: bool) -> Module:
    full = "vision_tower." + name
    return Module(full, rows, columns, split="tp", place="every", copies=copies, has_bias=bias, is_vision=True)


def _whole(name: str, rows: int, columns: int, *, bias: bool = False) -> Module:
    full = "vision_tower." + name
    return Module(full, rows, columns, "plain", "replicated", place="every", has_bias=bias, is_vision=True)


def _sizes(vision: Settings) -> tuple[int, int, int]:
    width = vision.number("hidden_size", "embed_dim")
    layers = vision.number("num_hidden_layers", "depth", most=MOST_LAYERS)
    inner = vision.optional("intermediate_size") or int(vision.real("mlp_ratio", 4.0) * width)
    return width, inner, layers


def _patches(vision: Settings) -> int:
    """Numbers of one patch's weight."""
    return vision.number("num_channels", "in_channels", "in_chans", default=3) * _patch(vision) ** 2


def _patch(vision: Settings) -> int:
    sides = vision.numbers("patch_size")
    return max(1, sides[0] if sides else vision.number("patch_size", "spatial_patch_size", default=14))


def _positions(vision: Settings) -> int:
    sides = vision.numbers("image_size")
    return ((sides[0] if sides else vision.number("image_size", default=224)) // _patch(vision)) ** 2


def _siglip(vision: Settings, _text: int) -> list[Module]:
    width, inner, layers = _sizes(vision)
    found = _block(width, inner, layers, bias=True)
    found += [
        _whole("patch_embedding", width, _patches(vision), bias=True),
        _whole("positions", _positions(vision), width),
    ]
    return [*found, _whole("post_layernorm", width, 1, bias=True)]


def _clip(vision: Settings, _text: int) -> list[Module]:
    width, inner, layers = _sizes(vision)
    found = _block(width, inner, layers, bias=True)
    found += [_whole("patch_embedding", width, _patches(vision)), _whole("positions", _positions(vision) + 2, width)]
    return [*found, _whole("pre_layernorm", width, 1, bias=True)]


def _intern(vision: Settings, _text: int) -> list[Module]:
    width, inner, layers = _sizes(vision)
    found = _block(width, inner, layers, bias=True)
    found += [
        _whole("patch_embedding", width, _patches(vision), bias=True),
        _whole("positions", _positions(vision) + 2, width),
    ]
    return [*found, _whole("layer_scales", 2 * layers, width)]


def _pixtral(vision: Settings, _text: int) -> list[Module]:
    width, inner, layers = _sizes(vision)
    found = _block(width, inner, layers, bias=False, gated=True, norm_kind="rms")
    return [*found, _whole("patch_conv", width, _patches(vision)), _whole("ln_pre", width, 1)]


def _llama4(vision: Settings, _text: int) -> list[Module]:
    width, inner, layers = _sizes(vision)
    mid = vision.number("projector_input_dim", default=4096)
    out = vision.number("projector_output_dim", "vision_output_dim", default=4096)
    packed = int(width / max(vision.real("pixel_shuffle_ratio", 0.5), 0.01) ** 2)
    return [
        *_block(width, inner, layers, bias=True),
        _part("pixel_shuffle.fc1", mid, packed, 1, False),
        _part("pixel_shuffle.fc2", out, mid, 1, False),
        _part("patch_embedding", width, _patches(vision), 1, False),
        _whole("positions", _positions(vision) + 1, width),
        _whole("norms", 2 * width, 1, bias=True),
    ]


def _mllama(vision: Settings, _text: int) -> list[Module]:
    width, inner, layers = _sizes(vision)
    layers += vision.number("num_global_layers", default=8)
    tiles = vision.number("max_num_tiles", default=4)
    ratios = vision.raw.get("supported_aspect_ratios")
    kinds = (len(ratios) if isinstance(ratios, list) else 8) + 1
    positions = _positions(vision) + 1
    found = [
        _part("attention", 4 * width, width, layers, False),
        _part("mlp.up", inner, width, layers, True),
        _part("mlp.down", width, inner, layers, True),
        _whole("norms", 2 * width * layers, 1, bias=True),
        _whole("patch_embedding", width, _patches(vision)),
        _whole("positions", positions, width),
        _whole("tile_positions", kinds * tiles * positions, width),
        _whole("tile_embeddings", 2 * kinds * tiles, width),
    ]
    return [*found, _whole("norms_around", 2 * width, 1, bias=True)]


def _moonvit(vision: Settings, _text: int) -> list[Module]:
    width, inner, layers = _sizes(vision)
    found = _block(width, inner, layers, bias=True)
    rows = vision.number("init_pos_emb_height", default=64) * vision.number("init_pos_emb_width", default=64)
    found += [_whole("patch_embedding", width, _patches(vision), bias=True), _whole("positions", rows, width)]
    return [*found, _whole("final_layernorm", width, 1, bias=True)]


def _qwen2(vision: Settings, text: int) -> list[Module]:
    width = vision.number("embed_dim", default=1280)
    layers = vision.number("depth", default=32, most=MOST_LAYERS)
    inner = int(width * vision.real("mlp_ratio", 4.0))
    out = vision.raw.get("hidden_size")
    found = _block(width, inner, layers, bias=True)
    return [*found, *_merger(vision, width, out if isinstance(out, int) else text, layers=1), _conv3d(vision, width)]


def _qwen25(vision: Settings, text: int) -> list[Module]:
    width, layers = vision.number("hidden_size", default=1280), vision.number("depth", default=32, most=MOST_LAYERS)
    inner = vision.number("intermediate_size", default=3420)
    found = _block(width, inner, layers, bias=True, gated=True, norm_kind="rms")
    merger = _merger(vision, width, vision.number("out_hidden_size", default=text), layers=1)
    return [*found, *merger, _conv3d(vision, width)]


def _qwen3(vision: Settings, text: int) -> list[Module]:
    width, layers = vision.number("hidden_size", default=1152), vision.number("depth", default=27, most=MOST_LAYERS)
    found = _block(width, vision.number("intermediate_size", default=4304), layers, bias=True)
    deep = len(vision.numbers("deepstack_visual_indexes") or ())
    merger = _merger(vision, width, vision.number("out_hidden_size", default=text), layers=1 + deep)
    rows = vision.number("num_position_embeddings", default=2304)
    return [*found, *merger, _conv3d(vision, width), _whole("positions", rows, width)]


def _merger(vision: Settings, width: int, out: int, *, layers: int) -> list[Module]:
    packed = width * vision.number("spatial_merge_size", default=2) ** 2
    return existing(
        _part("merger.0", packed, packed, layers, True),
        _part("merger.2", out, packed, layers, True),
        norm("vision_tower.merger.norm", width * layers, None, place="every"),
    )


def _conv3d(vision: Settings, width: int) -> Module:
    return _whole("patch_embedding", width, _patches(vision) * vision.number("temporal_patch_size", default=2))


def _projector(settings: Settings, vision: Settings, text: int, kind: str) -> list[Module]:
    width = vision.number("hidden_size", "embed_dim", default=1024)
    model, bias = settings.text("model_type"), settings.flag("multimodal_projector_bias", True)
    if kind == "moonvit" or model.startswith("internvl"):
        return _packed_projector(width, text, is_square=kind == "moonvit")
    if model == "mistral3":
        merged = width * settings.number("spatial_merge_size", default=2) ** 2
        merger = [_projected("patch_merger", width, merged, False), _whole("projector.norm", width, 1)]
        return [*merger, *_two_layers(width, text, bias)]
    single = {
        "mllama": (vision.number("vision_output_dim", default=7680), True),
        "llama4": (vision.number("vision_output_dim", default=4096), False),
        "gemma3": (width, False),
        "paligemma": (width, True),
        "idefics3": (width * settings.number("scale_factor", default=2) ** 2, False),
        "smolvlm": (width * settings.number("scale_factor", default=2) ** 2, False),
    }.get(model)
    if single is not None:
        norms = [_whole("projector.norm", width, 1)] if model == "gemma3" else []
        return [_projected("projector", text, *single), *norms]
    features = settings.raw.get("vision_feature_layer")
    wide = width * (len(features) if isinstance(features, list) else 1)
    return [*_two_layers(wide, text, bias), _whole("image_newline", text, 1)]


def _two_layers(width: int, text: int, bias: bool) -> list[Module]:
    return [_projected("projector.1", text, width, bias), _projected("projector.2", text, text, bias)]


def _packed_projector(width: int, text: int, *, is_square: bool) -> list[Module]:
    """Four patches become one; `is_square`: the first layer keeps that width."""
    packed = 4 * width
    inner = packed if is_square else text
    norms = _whole("projector.norm", width if is_square else packed, 1, bias=True)
    return [_projected("projector.1", inner, packed, True), _projected("projector.2", text, inner, True), norms]


def _projected(name: str, rows: int, columns: int, bias: bool) -> Module:
    full = "multi_modal_projector." + name
    return Module(full, rows, columns, split="replicated", place="every", has_bias=bias, is_vision=True)
