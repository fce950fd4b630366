"""What `vllm-console replay` is asked for: a playbook, or a past case with the fix that it came to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError, nearest_word
from engine_probe.locations import find_locations
from playbooks.fingerprints import fingerprints
from playbooks.kept_cases import find_case
from playbooks.library import find
from playbooks.past_fix import fix_of_case
from playbooks.recorded import past_case
from playbooks.resuming import resumable

if TYPE_CHECKING:
    from engine_probe.engine import Engine
    from engine_probe.launch import Deployment
    from playbooks.context import Context
    from playbooks.resuming import Resumable
    from tui.output import Output

_CASE = re.compile(r"\d{4}-\d{2}-\d{2}-\d{4}")


@dataclass(frozen=True)
class Chosen:
    """`fix` None: all of the playbook. `value` None: the playbook's own."""

    playbook: str
    fix: str | None
    value: str | None
    file: Path


def choose(context: Context, word: str, file: str | None, fix: str | None) -> Chosen:
    """Raises InputError for what is not there, and where nothing says which deployment is meant."""
    if _CASE.fullmatch(word):
        return _of_case(context, word, file, fix)
    playbook = find(context.library, word)
    ids = tuple(one.id for one in playbook.spec.fixes)
    if fix is not None and fix not in ids:
        raise InputError(f"{playbook.id} has no fix {fix!r}", allowed=ids, nearest=nearest_word(fix, ids))
    if file is None:
        raise InputError(f"replay {word} --deployment FILE: which deployment is to be mended?")
    return Chosen(playbook.id, fix, None, Path(file))


def _of_case(context: Context, name: str, file: str | None, fix: str | None) -> Chosen:
    case = find_case(find_locations().state, name)
    if case.diagnosis is not None:
        causes = [str(one.get("id")) for one in case.diagnosis.get("causes", ())[:1]]
        way = f": vllm-console replay {causes[0]} --deployment FILE" if causes and causes[0] != "unexplained" else ""
        raise InputError(f"case {name} is the diagnosis of a log, and no fix was tried in it{way}")
    past = fix_of_case(past_case(case.folder, context), fix)
    if file is None and past.file is None:
        raise InputError(f"replay {name} --deployment FILE: the case had no deployment file of its own")
    where = Path(file) if file is not None else past.file
    assert where is not None
    return Chosen(past.cause, past.fix, past.value, where)


def going_on(deployment: Deployment, engine: Engine, context: Context, output: Output) -> Resumable | None:
    """The case on this deployment that was cut off, if it can go on; what was found is said either way."""
    found = resumable(find_locations().state, deployment, fingerprints(deployment, engine), context)
    if found is None:
        return None
    if found.session is None:
        output.note(found.words)
        return None
    output.note(f"{found.words} (--fresh begins anew)")
    return found
