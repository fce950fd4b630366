"""A proposal, the alternatives and a deployment as JSON, whose keys scripts rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.changes import UNSET
from engine_probe.redact import MASKED, mask, mask_env, names_a_secret

if TYPE_CHECKING:
    from engine_probe.changes import Change
    from engine_probe.launch import Deployment, Launch
    from playbooks.plan_alternatives import Alternative
    from playbooks.plan_proposal import Advice, PlanChange, Proposal

_SECRETS = ("api-key", "hf-token")


def advice_as_object(advice: Advice) -> dict[str, Any]:
    """Keys that stand beside those of the plan."""
    return {
        "proposal": None if advice.proposal is None else proposal_as_object(advice.proposal),
        "no_proposal": advice.why_none,
        "alternatives": [_alternative(one) for one in advice.alternatives],
    }


def proposal_as_object(proposal: Proposal) -> dict[str, Any]:
    """`changes` in the order in which they are to be made; `deployment` as its file would say it, secrets masked."""
    return {
        "changes": [_change(one) for one in proposal.changes],
        "deployment": deployment_as_object(proposal.deployment),
        "is_safe": proposal.is_safe,
        "margins_gib": dict(proposal.margins_gib),
    }


def deployment_as_object(deployment: Deployment) -> dict[str, Any]:
    """The keys of a deployment file."""
    return {"start": deployment.start, "models": [_launch(one) for one in deployment.models]}


def _launch(launch: Launch) -> dict[str, Any]:
    found: dict[str, Any] = {"name": launch.name, "model": mask(launch.model)}
    if launch.gpus is not None:
        found["gpus"] = list(launch.gpus)
    args = {name: _masked(name, value) for name, value in launch.args.items()}
    parts = (("args", args), ("env", mask_env(launch.env)), ("lora", dict(launch.lora)))
    return {**found, **{key: values for key, values in parts if values}}


def _masked(name: str, value: object) -> object:
    if name in _SECRETS or names_a_secret(name):
        return MASKED
    if isinstance(value, tuple):
        return [mask(one) for one in value]
    return mask(value) if isinstance(value, str) else value


def _change(one: PlanChange) -> dict[str, Any]:
    return {
        "launch": one.launch,
        "set": {one.key: plain(one.value)},
        "why": one.why,
        "costs": one.costs,
        "expect": list(one.expect),
    }


def plain(value: Change) -> object:
    """As JSON has it; what is taken away is the word that a fix uses."""
    if value is None:
        return UNSET
    return list(value) if isinstance(value, tuple) else value


def _alternative(one: Alternative) -> dict[str, Any]:
    return {
        "launch": one.launch,
        "kind": one.kind,
        "what": one.what,
        "set": None if one.set is None else {key: plain(value) for key, value in one.set.items()},
        "fits": one.fits,
        "all_fit": one.all_fit,
        "weights_gib_saved": one.weights_gib,
        "kv_pool_gib_gained": one.pool_gib,
        "kv_tokens_gained": one.tokens,
        "max_concurrency": one.concurrency,
        "costs": one.costs,
    }
