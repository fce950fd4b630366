"""How long `vllm-console plan --json` takes as a whole process: six models on eight GPUs, sizes read from config.json.

    python benchmarks/plan.py [--rounds 7] [--json]

Beside it stand the start of a bare interpreter, one model, and a what-if: the time from a value of one of the six
that was changed to the plan, as the plan screen asks for it. In every round each way runs once, in turning order, so
that ratios hold where the machine's speed drifts; ratios are those of one round. Modules are compiled beforehand, as
installing a package does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = "from tui.entry import main; main()"
"""What the installed `vllm-console` is."""
WHAT_IF = """
import sys, time
from dataclasses import replace
from pathlib import Path
from tui.plan_inputs import read_inputs
inputs = read_inputs(Path(sys.argv[1]), "8xA100-80GB", "0.19.0")
inputs.plan()
first, *others = inputs.deployment.models
models = (replace(first, args={**first.args, "gpu-memory-utilization": 0.25}), *others)
changed = replace(inputs.deployment, models=models)
began = time.perf_counter()
inputs.plan(changed)
print(time.perf_counter() - began)
"""
TOLD = "what-if"
"""Prints its own time: that of the process is not wanted."""
LLAMA_70B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
SIX = "\n".join(
    f"  - {{name: m{number}, model: model-{number}, args: {{tensor-parallel-size: 8, gpu-memory-utilization: 0.15}}}}"
    for number in range(6)
)
DEPLOYMENTS = {
    "one model": "models:\n  - {name: m0, model: model-0, args: {tensor-parallel-size: 8}}\n",
    "six models": f"models:\n{SIX}\n",
}


def prepared(folder: Path) -> dict[str, list[str]]:
    """Six folders of their own, so that each model is read."""
    for number in range(6):
        place = folder / f"model-{number}"
        place.mkdir()
        (place / "config.json").write_text(json.dumps(LLAMA_70B), encoding="utf-8")
    commands = {"bare": [sys.executable, "-c", "pass"]}
    for name, text in DEPLOYMENTS.items():
        path = folder / f"{name.replace(' ', '-')}.yaml"
        path.write_text(text, encoding="utf-8")
        plan = ["plan", str(path), "--gpus", "8xA100-80GB", "--vllm", "0.19.0", "--json"]
        commands[name] = [sys.executable, "-c", SCRIPT, *plan]
        commands[TOLD] = [sys.executable, "-c", WHAT_IF, str(path)]
    return commands


def seconds_of(name: str, argv: list[str], env: dict[str, str]) -> float:
    """Of the whole process, or as it told. Raises SystemExit where it gave no plan."""
    began = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, check=False, env=env)
    seconds = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return float(done.stdout) if name == TOLD else seconds


def measured(commands: dict[str, list[str]], rounds: int, env: dict[str, str]) -> dict[str, dict[str, float]]:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    names = list(commands)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            taken = seconds_of(name, commands[name], env)
            if number:  # the first round fills the caches
                seconds[name].append(taken)
    return {
        name: {
            "seconds": round(statistics.median(values), 4),
            "times_bare": round(
                statistics.median(one / bare for one, bare in zip(values, seconds["bare"], strict=True)), 1
            ),
        }
        for name, values in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", dest="as_json")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-console-bench-") as name:
        folder = Path(name)
        env = {
            **os.environ, "NO_COLOR": "1", "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
            "XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state"),
        }  # fmt: skip
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        found = measured(prepared(folder), wanted.rounds, env)
    if wanted.as_json:
        print(json.dumps(found))
        return
    for name, values in found.items():
        print(f"{name:12}{values['seconds']:9.4f} s{values['times_bare']:8.1f} x a bare interpreter")


if __name__ == "__main__":
    main()
