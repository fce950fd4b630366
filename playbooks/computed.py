"""Facts that follow from others. Each says what it needs; with an unknown input the answer is unknown, with why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks import (
    computed_answers,
    computed_configuration,
    computed_environment,
    computed_files,
    computed_flags,
    computed_host,
    computed_lora,
    computed_memory,
    computed_packages,
    computed_parallel,
    computed_quantization,
    computed_together,
)

if TYPE_CHECKING:
    from playbooks.computing import Computed

COMPUTED: tuple[Computed, ...] = (
    *computed_memory.COMPUTED,
    *computed_parallel.COMPUTED,
    *computed_files.COMPUTED,
    *computed_host.COMPUTED,
    *computed_together.COMPUTED,
    *computed_lora.COMPUTED,
    *computed_quantization.COMPUTED,
    *computed_environment.COMPUTED,
    *computed_packages.COMPUTED,
    *computed_configuration.COMPUTED,
    *computed_flags.COMPUTED,
    *computed_answers.COMPUTED,
)
