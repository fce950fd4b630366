"""Makes the README's pictures: one real run of the console on the lab's case, and what no host without GPUs can show.

    python screenshots/make.py [--engine ENGINE] [--made-up]

Drives the console as a person would, with the real engine, and saves a picture of each step at 120×36. The monitor's
host and the plan's models are made up by hand (tests/); `--made-up` makes only these two.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui.app import ConsoleApp
from tui.backend import real_backend
from tui.themes.glyphs import choose

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

FOLDER = Path(__file__).parent
SIZE = (120, 36)
GIVE_UP_S = 300.0
FONTS = "'Fira Code', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def published(svg: str, home: str) -> str:
    """The picture without fonts from other hosts, and with `~` for the home folder of whoever made it."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("font-family: Fira Code, monospace", f"font-family: {FONTS}")
    return re.sub(r'textLength="(?P<length>[\d.]+)"(?P<rest>[^>]*)>(?P<text>[^<]*)<', lambda m: _short(m, home), svg)


def _short(found: re.Match[str], home: str) -> str:
    before, after = found["text"], found["text"].replace(home, "~")
    length = float(found["length"]) * len(html.unescape(after)) / max(1, len(html.unescape(before)))
    return f'textLength="{length:.1f}"{found["rest"]}>{after}<'


async def until(pilot: Pilot[int], holds: Callable[[], bool], what: str) -> None:
    """Let the console run until `holds`."""
    deadline = time.monotonic() + GIVE_UP_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"gave up waiting for: {what}")
        await pilot.pause(0.1)
    await pilot.pause(0.5)


async def take(engine: str | None) -> None:
    """One case from the first screen to the proof."""
    app = ConsoleApp(real_backend(engine), glyphs=choose(False))
    async with app.run_test(size=SIZE) as pilot:

        def session() -> object:
            return app.last_session

        await pilot.pause(1.5)
        await pilot.press("3")  # from the monitor to where a case is chosen
        await pilot.pause(1.5)
        save_picture(app, "start")
        await pilot.press("down", "down", "enter")  # the third choice is the lab's case
        await until(pilot, lambda: bool(getattr(session(), "fixes", ())), "a fix")
        await pilot.pause(1.0)
        await pilot.press("left")
        await pilot.pause(0.5)
        save_picture(app, "wizard-symptom")
        await pilot.press("right")
        await pilot.pause(0.5)
        save_picture(app, "wizard-hypotheses")
        await pilot.press("right")
        await pilot.pause(0.5)
        save_picture(app, "wizard-fix")
        await pilot.press("enter")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: getattr(session(), "verdict", None) is not None, "the verdict")
        save_picture(app, "wizard-verify")
        if getattr(session(), "verdict", None) != "verified":
            raise SystemExit("the fix was not verified: no pictures of that")
        await pilot.press("enter")
        await pilot.pause(0.5)
        app.exit(0)


def save_picture(app: ConsoleApp, name: str) -> None:
    svg = published(app.export_screenshot(title="vllm-console"), str(Path.home()))
    (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


async def take_made_up() -> None:
    """The monitor on a host of eight GPUs, and a plan of six models for such a host."""
    sys.path.insert(0, str(FOLDER.parent))
    from tests import monitor_samples, plan_samples  # noqa: PLC0415 -- the project's folder has to be known first
    from tests.test_monitor_screen import console, monitor_of  # noqa: PLC0415 -- as above

    app = console(monitor_samples.EIGHT, alerts=monitor_samples.ALERTS, every_seconds=60.0)
    async with app.run_test(size=SIZE) as pilot:
        screen = await monitor_of(pilot)
        for reading in monitor_samples.moving(count=12):
            screen.set_look(replace(screen.look, reading=reading))
        await pilot.pause(1.0)
        save_picture(app, "monitor")
    with tempfile.TemporaryDirectory() as folder:
        app = plan_samples.console(plan_samples.write_plan(Path(folder), plan_samples.SIX))
        async with app.run_test(size=SIZE) as pilot:
            await plan_samples.plan_of(pilot)
            await pilot.pause(2.0)
            save_picture(app, "plan")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engine")
    options.add_argument("--made-up", action="store_true")
    told = options.parse_args()
    asyncio.run(take_made_up())
    if not told.made_up:
        asyncio.run(take(told.engine))


if __name__ == "__main__":
    main()
