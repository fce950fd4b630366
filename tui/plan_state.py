"""A plan that is looked at: what its file says, what is tried now, and the ways back. Nothing here knows a screen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.revisions import undo_revision, write_changes
from tui.plan_values import changed_fields, placed
from tui.plan_whatif import changes_between

if TYPE_CHECKING:
    from engine_probe.launch import Deployment
    from engine_probe.revisions import Revision
    from playbooks.placement import Plan
    from tui.plan_inputs import PlanInputs
    from tui.plan_values import Field
    from tui.plan_whatif import Changed


@dataclass(frozen=True)
class PlanState:
    """Each method gives a new state; `tried` are the deployments before the one of `plan`, oldest first."""

    inputs: PlanInputs
    file_plan: Plan
    plan: Plan
    tried: tuple[Deployment, ...] = ()
    saved: tuple[Revision, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, inputs: PlanInputs, saved: tuple[Revision, ...] = ()) -> PlanState:
        """`saved`: what was written to the file already. Raises InputError for values that no engine would take."""
        plan = inputs.plan()
        return cls(inputs, plan, plan, (), saved)

    @property
    def deployment(self) -> Deployment:
        return self.plan.deployment

    @property
    def changes(self) -> tuple[Changed, ...]:
        """From the file to what is tried."""
        return changes_between(self.inputs.deployment, self.deployment)

    def with_tried(self, deployment: Deployment) -> PlanState:
        """Raises InputError for values that no engine would take."""
        if deployment == self.deployment:
            return self
        return replace(self, plan=self.inputs.plan(deployment), tried=(*self.tried, self.deployment))

    def step_back(self) -> PlanState:
        return replace(self, plan=self.inputs.plan(self.tried[-1]), tried=self.tried[:-1])

    def save(self) -> PlanState:
        """What is tried becomes the file. Raises InputError, and then the file is as it was."""
        before = self.inputs.deployment
        if before.path is None:
            raise InputError("these models came from no deployment file: there is none to change")
        revision = write_changes(before.path, before, self.changes)
        return self.of(replace(self.inputs, deployment=revision.after), (*self.saved, revision))

    def undo_saved(self) -> PlanState:
        """The file as it was before it was last saved. Raises InputError, and then nothing was written."""
        revision = self.saved[-1]
        before = undo_revision(revision.path, revision)
        return self.of(replace(self.inputs, deployment=before), self.saved[:-1])

    def changed(self) -> dict[str, tuple[Field, ...]]:
        """Of each model the values that differ from the file's, as they count."""
        return {
            model.launch.name: changed_fields(model, placed(self.file_plan, model.launch.name))
            for model in self.plan.models
        }

    @property
    def has_other_order(self) -> bool:
        return [model.name for model in self.deployment.models] != [
            model.name for model in self.inputs.deployment.models
        ]
