"""Model folders and deployment files by hand, and the console opened on their memory plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.memory_configs import DEEPSEEK_V2_LITE, GEMMA_3_27B, LLAMA_8B, LLAMA_70B, QWEN_05B
from tests.memory_folders import write_config
from tests.test_monitor_screen import text_of
from tests.tui_samples import backend, until, until_still
from tui.app import ConsoleApp
from tui.screens.plan import PlanScreen
from tui.themes.glyphs import UNICODE

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = {
    "llama-70b": LLAMA_70B,
    "llama-8b": LLAMA_8B,
    "lite": DEEPSEEK_V2_LITE,
    "qwen": QWEN_05B,
    "gemma": GEMMA_3_27B,
}
EIGHT, RELEASE = "8xA100-80GB", "0.19.0"
TWO = """\
# Two models on one host.
start: sequential
models:
  - name: chat-70b
    model: ./llama-70b
    gpus: [0, 1, 2, 3]
    args:
      tensor-parallel-size: 4     # half of the host
      gpu-memory-utilization: 0.90
      max-model-len: 8192

  - name: code-8b                 # nobody said where
    model: ./llama-8b
    args: {max_model_len: 4096}
"""
SIX = """\
models:
  - {name: chat-70b, model: ./llama-70b, gpus: [0, 1, 2, 3], args: {tensor-parallel-size: 4}}
  - {name: code-8b, model: ./llama-8b, gpus: [4], args: {max-model-len: 4096, gpu-memory-utilization: 0.5}}
  - {name: lite-moe, model: ./lite, gpus: [5], args: {max-model-len: 8192}}
  - {name: tiny, model: ./qwen, gpus: [4], args: {gpu-memory-utilization: 0.2}}
  - {name: vision-27b, model: ./gemma, gpus: [6, 7], args: {tensor-parallel-size: 2, max-model-len: 8192}}
  - {name: tiny-too, model: ./qwen, gpus: [4], args: {gpu-memory-utilization: 0.35}}
"""


def write_plan(folder: Path, text: str = TWO, name: str = "deployment.yaml") -> Path:
    """The file, with all models beside it."""
    for model, config in CONFIGS.items():
        write_config(folder / model, config)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def one_a_gpu(count: int) -> str:
    """So many models, each on a GPU of its own."""
    rows = [f"  - {{name: model-{number}, model: ./qwen, gpus: [{number}]}}\n" for number in range(count)]
    return "models:\n" + "".join(rows)


def console(path, gpus=EIGHT, release=RELEASE, glyphs=UNICODE, **options) -> ConsoleApp:
    return ConsoleApp(
        backend(**options),
        deployment=path,
        start="plan",
        planned_for=(gpus, release),
        glyphs=glyphs,
        interval_seconds=60,
    )


async def plan_of(pilot) -> PlanScreen:
    """The screen, once its file was read and drawn, or it was said why it cannot be."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, PlanScreen))
    screen = app.screen
    await until(pilot, lambda: screen.state is not None or screen.said[1] == "$error")
    await until_still(pilot)
    return screen


def row_of(app, name: str) -> str:
    """The row of a model in the table."""
    rows = [line for line in text_of(app).splitlines() if line[3:].startswith(name) or line[5:].startswith(name)]
    assert rows, text_of(app)
    return rows[0]
