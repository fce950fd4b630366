"""A plan that is looked at: what its file says, what is tried now, and the ways back. Nothing here knows a screen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui import plan_saving
from tui.plan_values import changed_fields, placed
from tui.plan_whatif import changes_between

if TYPE_CHECKING:
    from engine_probe.launch import Deployment
    from playbooks.placement import Plan
    from tui.plan_inputs import PlanInputs
    from tui.plan_saving import Saved
    from tui.plan_values import Field
    from tui.plan_whatif import Changed


@dataclass(frozen=True)
class PlanState:
    """Each method gives a new state; `tried` are the deployments before the one of `plan`, oldest first."""

    inputs: PlanInputs
    file_plan: Plan
    plan: Plan
    tried: tuple[Deployment, ...] = ()
    saved: tuple[Saved, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, inputs: PlanInputs, saved: tuple[Saved, ...] = ()) -> PlanState:
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
        saved = plan_saving.save(self.inputs.deployment, self.changes)
        return self.of(replace(self.inputs, deployment=saved.after), (*self.saved, saved))

    def undo_saved(self) -> PlanState:
        """The file as it was before it was last saved. Raises InputError, and then nothing was written."""
        return self.of(replace(self.inputs, deployment=plan_saving.undo(self.saved[-1])), self.saved[:-1])

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
