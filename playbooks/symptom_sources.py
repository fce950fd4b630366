"""The four places where evidence is looked for: log, GPUs, the model's files, launch; and how to give each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks import wording
from playbooks.context import launch_named
from playbooks.facts import info_of
from playbooks.session import Source

if TYPE_CHECKING:
    from playbooks.effects import LogsDiagnosed
    from playbooks.session import Session

LOG, GPUS, FILES, LAUNCH = "log", "GPUs and memory", "config.json and files", "launch arguments"
_OF_GPUS = ("gpu.free_before_launch_gib", "gpu.used_by_others_gib", "gpu.total_gib")
_OF_HOST = ("host.available_gib", "host.total_gib")
_OF_FILES = ("model.type", "weights.on_disk_gib", "model.max_position_embeddings")
_GIVE_HOST = "--host-state FILE, a saved `vllm-console monitor --once --json` of that host, or --here"
_NOT_LOOKED = "it was not looked for"
_GIVE_LAUNCH = "--deployment FILE"


def sources_of(session: Session, log_name: str) -> tuple[Source, ...]:
    """Of a load that was watched."""
    lines = session.progress.lines
    launch = launch_named(session.deployment, session.model)
    log = Source(LOG, f"{lines:,} lines, {log_name}")
    return (
        log
        if lines
        else Source(LOG, missing="the load printed nothing", give="look for its last words in the system log"),
        _gpus(session, "install the driver with its NVML library; the engine needs it too"),
        _of(session, FILES, _OF_FILES, "download the model, or name its folder on this host"),
        Source(LAUNCH, wording.arguments(launch) or "none beside the model"),
    )


def sources_from_log(session: Session, done: LogsDiagnosed, is_folder_known: bool) -> tuple[Source, ...]:
    """Of logs of before."""
    found = "; ".join(one.found for one in done.files if one.missing is None)
    unread = [one for one in done.files if one.missing is not None]
    log = Source(LOG, found) if found else Source(LOG, missing="; ".join(str(one.missing) for one in unread))
    files = _of(session, FILES, _OF_FILES, _GIVE_LAUNCH + ", whose model is on this host")
    if not is_folder_known and done.deployment.path is None:
        files = Source(FILES, missing="the log does not hold them", give=_GIVE_LAUNCH + ", whose model is on this host")
    return (log, _gpus(session, _GIVE_HOST, "no state of the host was given"), files, _launch(session, done))


def _launch(session: Session, done: LogsDiagnosed) -> Source:
    launch = launch_named(session.deployment, session.model)
    words = wording.arguments(launch) or "none beside the model"
    if done.deployment.path is not None:
        return Source(LAUNCH, f"{words} ({done.deployment.path})")
    if done.is_launch_printed:
        return Source(LAUNCH, f"{words} ({done.launch_words or 'the log printed them'})")
    return Source(LAUNCH, missing="the log does not print them", give=_GIVE_LAUNCH)


def _gpus(session: Session, give: str, otherwise: str = _NOT_LOOKED) -> Source:
    """The host's memory counts where there is no GPU: a CPU engine has no other."""
    gpus, host = (_of(session, GPUS, names, give, otherwise) for names in (_OF_GPUS, _OF_HOST))
    if gpus.missing is None:
        return gpus if host.missing is not None else Source(GPUS, f"{gpus.found}; {host.found}")
    return gpus if host.missing is not None else Source(GPUS, f"{host.found}; no GPU: {gpus.missing}")


def _of(session: Session, name: str, facts: tuple[str, ...], give: str, otherwise: str = _NOT_LOOKED) -> Source:
    """What is known of `facts`, in words; missing only when none is known, `otherwise` where no fact says why."""
    found: list[str] = []
    reasons: list[str] = []
    for one in facts:
        fact = session.facts.get(one, Unknown(otherwise))
        if isinstance(fact, Known):
            info = info_of(one)
            found.append(f"{info.label} {wording.quantity(fact.value, info.unit)}")
        else:
            reasons.append(fact.reason)
    return Source(name, "; ".join(found)) if found else Source(name, missing=reasons[0], give=give)
