"""Facts about files of a model that can be restored: how they are now, where whole ones are, where the old ones go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from engine_probe.model_files.audit import is_tokenizer_file, is_weights
from engine_probe.outside.file_change import next_kept
from engine_probe.outside.keys import HUB
from engine_probe.outside.look import NOT_THERE, state_of, trouble_with
from engine_probe.outside.whole_copies import not_used, other_snapshots, same_content, whole_copy
from playbooks.facts_of_evidence import COPY, KEPT, NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine_probe.facts import Fact
    from engine_probe.model_files.audit import Audit

_NEVER_DAMAGED = "index-names-it-not"
_SMALL = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json")
_MOST_NAMES = 40
_BETWEEN = ", "
NOT_USED = "files.sources_not_used"
"""What a person gave and is of no use, a line each; only where there is such a thing."""


def copy_facts(found: Audit, sources: Sequence[str], odd_files: Sequence[str] = ()) -> dict[str, Fact]:
    """`files.damaged_files`, `files.whole_copy` and the like. `odd_files`: whole by their heads, and yet wrong."""
    folder = found.folder
    origin = str(folder)
    troubled = list(dict.fromkeys(one.file for one in found.troubles if one.kind != _NEVER_DAMAGED))
    missing = [one.file for one in found.of_kind("missing")]
    facts: dict[str, Fact] = {
        "files.folder": Known(str(folder.absolute()), "measured", origin),
        "files.damaged_files": _names(troubled, origin, "no file of the folder looks damaged or is missing"),
        "files.missing_file": _names(missing[:1], origin, "no file is missing, as far as the index tells"),
        "files.not_finite_file": _names(odd_files[:1], origin, "no value of a sample is NaN or infinity"),
    }
    places = [one for one in (*sources, *map(str, other_snapshots(folder))) if not one.startswith(HUB)]
    weights, tokenizer = _others(folder, places, is_weights), _others(folder, places, is_tokenizer_file)
    nothing = "no other copy of this model is known: --files-from DIR gives one"
    facts["files.other_weights"] = _names(weights, origin, nothing)
    facts["files.other_tokenizer"] = _names(tokenizer, origin, nothing)
    twice = _consolidated(folder)
    facts["files.consolidated_files"] = _names(
        twice, origin, "the folder holds one set of weights, as far as names tell"
    )
    wanted = [*troubled, *odd_files]
    known = dict.fromkeys((*wanted, *weights, *tokenizer, *twice, *(n for n in _SMALL if (folder / n).exists())))
    for name in list(known)[:_MOST_NAMES]:
        facts |= _of_file(folder, name, sources, look_around=name in wanted)
    none = Unknown("no file of the folder looks damaged or is missing")
    facts["files.whole_copy"] = facts[f"{COPY}{wanted[0]}"] if wanted else none
    unused = not_used(folder, wanted[0], sources) if wanted else ()
    if unused:
        facts[NOT_USED] = Known("\n".join(unused), "measured", "a look at both files")
    return facts


def _of_file(folder: Path, name: str, sources: Sequence[str], *, look_around: bool) -> dict[str, Fact]:
    source, why_not = whole_copy(folder, name, sources, look_around=look_around)
    now = state_of(folder / name)
    facts: dict[str, Fact] = {
        f"{COPY}{name}": Unknown(why_not) if source is None else Known(source, "measured", "a look at both files"),
        f"{NOW}{name}": Known(now, "measured", str(folder / name)),
    }
    try:
        kept = str(next_kept(folder.absolute() / name)) if now != NOT_THERE else ""
    except OSError:
        return facts
    return facts | ({f"{KEPT}{name}": Known(kept, "computed", "the next free name beside it")} if kept else {})


def _others(folder: Path, places: Sequence[str], is_of_kind: Callable[[str], bool]) -> list[str]:
    """Files of one kind that a copy of the model has and that are not here, or are others here."""
    for place in places:
        for copy in (Path(place).expanduser() / folder.name, Path(place).expanduser()):
            names = sorted(_whole(copy, is_of_kind))
            if names:
                return [name for name in names if not same_content(folder / name, copy / name)]
    return []


def _consolidated(folder: Path) -> list[str]:
    """Mistral's own weight files, where the other ones are there too."""
    names = sorted(one.name for one in folder.glob("*.safetensors"))
    own = [name for name in names if name.startswith("consolidated")]
    return own if len(own) < len(names) else []


def _whole(folder: Path, is_of_kind: Callable[[str], bool]) -> Iterator[str]:
    try:
        names = [one.name for one in folder.iterdir() if is_of_kind(one.name)]
    except OSError:
        return
    yield from (name for name in names if trouble_with(folder / name) is None)


def _names(names: Sequence[str], origin: str, why_none: str) -> Fact:
    return Known(_BETWEEN.join(names), "measured", origin) if names else Unknown(why_none)
