"""One dark and one light theme. Five layer colours, three severities and the accent; nothing else has a hue."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="console-dark",
    dark=True,
    primary="#7aa2f7",
    accent="#7aa2f7",
    foreground="#d5dae3",
    background="#12151c",
    surface="#12151c",
    panel="#1b2029",
    success="#8fce7e",
    warning="#e6b450",
    error="#f2777a",
    variables={
        "quiet": "#8a93a3",
        "rule": "#323a47",
        "layer-frontend": "#7ab8f0",
        "layer-engine": "#c39af0",
        "layer-worker": "#62c9b8",
        "layer-model-runner": "#eda26b",
        "layer-outside": "#aab3c0",
        "block-cursor-foreground": "#d5dae3",
        "block-cursor-background": "#263147",
        "scrollbar": "#323a47",
        "scrollbar-hover": "#4a5568",
        "scrollbar-active": "#7aa2f7",
        "scrollbar-background": "#12151c",
        "scrollbar-background-hover": "#12151c",
        "scrollbar-background-active": "#12151c",
        "scrollbar-corner-color": "#12151c",
        "chosen": "#202838",
    },
)

LIGHT = Theme(
    name="console-light",
    dark=False,
    primary="#1f5fbf",
    accent="#1f5fbf",
    foreground="#22262e",
    background="#fbfbf9",
    surface="#fbfbf9",
    panel="#eeeeea",
    success="#2b7a2b",
    warning="#8f5d00",
    error="#b3261e",
    variables={
        "quiet": "#666e7a",
        "rule": "#cfcfc8",
        "layer-frontend": "#0b6aa8",
        "layer-engine": "#7a3fb0",
        "layer-worker": "#0b7568",
        "layer-model-runner": "#a34e0c",
        "layer-outside": "#5d6470",
        "block-cursor-foreground": "#22262e",
        "block-cursor-background": "#dbe6f7",
        "scrollbar": "#cfcfc8",
        "scrollbar-hover": "#a9a9a2",
        "scrollbar-active": "#1f5fbf",
        "scrollbar-background": "#fbfbf9",
        "scrollbar-background-hover": "#fbfbf9",
        "scrollbar-background-active": "#fbfbf9",
        "scrollbar-corner-color": "#fbfbf9",
        "chosen": "#e3ecf8",
    },
)

LAYER_LETTERS = {"frontend": "F", "engine": "E", "worker": "W", "model_runner": "M", "outside": "O"}


def layer_style(layer: str | None) -> str:
    """The theme variable of a layer; unknown layers are quiet."""
    return "$layer-" + layer.replace("_", "-") if layer in LAYER_LETTERS and layer else "$quiet"
