"""What a person takes away from a case: a playbook drafted from it, the launch of its log as a file, a command."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.deployment import deployment_yaml
from engine_probe.errors import InputError
from engine_probe.redact import MASKED, mask
from playbooks.symptom_sources import LAUNCH
from playbooks.template import check_name
from tui.drafting import known_already, suggested_name, write_draft
from tui.exports import keep_text
from tui.new_file import write_new
from tui.running import Opening
from tui.screens.base import ConsoleScreen
from tui.screens.dialogs import AskText
from tui.screens.leaving import short_path

if TYPE_CHECKING:
    from playbooks.session import Session


class KeepsSessions(ConsoleScreen):
    """A screen that shows a session; `session` is the one that is shown."""

    session: Session

    def ask_for_draft(self) -> None:
        """A name, then the file is written in a thread: all playbooks are read for it."""

        def answered(name: str | None) -> None:
            if name:
                self.run_worker(self._draft(name), name="draft", group="draft", exclusive=True)

        hint = (
            "Lower-case words with dashes. The file goes to your own playbooks; it speaks only where no other explains."
        )
        known = known_already(self.session)
        ask = AskText(
            self.console.glyphs,
            f"Here {known}. Which name has one more?" if known else "Which name has the new playbook?",
            hint,
            suggested_name(self.session),
            _trouble_with_name,
        )
        self.app.push_screen(ask, answered)

    async def _draft(self, name: str) -> None:
        today = datetime.now().astimezone().date()
        try:
            path = await asyncio.to_thread(write_draft, self.session, name, today)
        except InputError as trouble:
            self.tell(str(trouble).splitlines()[0], style="$error bold")
            return
        self.tell("Playbook written: ", short_path(str(path)))

    def copy_text(self, text: str, what: str) -> None:
        """To the terminal's clipboard, which never answers, so to a file too."""
        self.app.copy_to_clipboard(text)
        try:
            path = keep_text(self.console.backend.exports, self.session.case, "command", text + "\n")
        except OSError as error:
            self.tell(f"{what} copied; not written, {error.strerror}", style="$warning")
            return
        self.tell(f"{what} copied; also in ", short_path(str(path)))

    def ask_for_deployment_file(self, reopen: bool = True) -> None:
        """Writes the launch that the log printed; with `reopen` the case begins again with it."""
        said = self._launch_said()
        text = "".join(f"# {line}\n" for line in said) + deployment_yaml(self.session.deployment)

        def trouble(word: str) -> str | None:
            path = Path(word).expanduser()
            if not word:
                return "Write the path of a new file, such as deployment.yaml."
            return f"{word} is there already: give another name" if path.exists() else None

        def answered(word: str | None) -> None:
            if not word:
                return
            path = Path(word).expanduser()
            try:
                write_new(path, text)
            except InputError as error:
                self.tell(str(error), style="$error bold")
                return
            if reopen:
                self.begin_again(Opening(deployment=path, logs=self.session.log_sources))

        hint = "\n".join((*said, "Its model, paths and environment are yours to check."))
        if reopen and self.session.case:
            hint += f"\nCase {self.session.case} ends with its report; another one begins with the file."
        hint += f" {MASKED} stands where a secret was masked." if MASKED in text else ""
        ask = AskText(self.console.glyphs, "Where does the deployment file go?", hint, "deployment.yaml", trouble)
        self.app.push_screen(ask, answered)

    def _launch_said(self) -> list[str]:
        """What was read of the launch, from which line, and what no line tells."""
        sources = self.session.symptom.sources if self.session.symptom is not None else ()
        source = next((one for one in sources if one.name == LAUNCH), None)
        if source is None or source.missing is not None:
            return ["The log does not print how the model was launched: only its name is known."]
        return [f"Read from the log: {mask(' '.join(source.found.split()))}"]

    def begin_again(self, opening: Opening) -> None:
        """Another case takes the place of this one."""
        self.app.pop_screen()
        self.console.open_case(opening)


def _trouble_with_name(name: str) -> str | None:
    try:
        check_name(name, "configuration")
    except InputError as error:
        return str(error)
    return None
