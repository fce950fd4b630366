"""How one model is spread over GPUs: which rank holds which layers, and into how many pieces a part is cut."""

from __future__ import annotations

from dataclasses import dataclass

from engine_probe.errors import InputError


@dataclass(frozen=True)
class Parallel:
    """Sizes as vLLM's arguments give them; all at least 1."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    expert_parallel: bool = False
    pp_partition: tuple[int, ...] | None = None
    """Layers of each stage, as the variable VLLM_PP_LAYER_PARTITION gives them."""

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp"):
            if getattr(self, name) < 1:
                raise InputError(f"{_OPTIONS[name]} is {getattr(self, name)}; it must be at least 1")

    @property
    def ranks(self) -> int:
        """Workers of one data-parallel replica, numbered as vLLM does: tp runs fastest."""
        return self.tp * self.pp

    @property
    def world(self) -> int:
        """GPUs of the whole model."""
        return self.ranks * self.dp

    @property
    def expert_ranks(self) -> int:
        """Into how many pieces the experts are cut: over tp, and over dp × tp where there is more than one replica.

        Data-parallel replicas share the experts in either form (fused_moe/config.py, FusedMoEParallelConfig.make).
        """
        return self.tp * self.dp

    def stage_of(self, rank: int) -> int:
        """The pipeline stage of a worker."""
        return rank // self.tp

    def layer_counts(self, layers: int) -> tuple[int, ...]:
        """Layers of each stage (distributed/utils.py get_pp_indices, 0.8 to 0.33).

        What is left over goes one each to the stages before the last, from the back. Raises InputError where
        `pp_partition` does not fit.
        """
        if self.pp_partition is None:
            counts = [layers // self.pp] * self.pp
            for one in range(layers % self.pp):
                counts[-(one + 2)] += 1
            return tuple(counts)
        if len(self.pp_partition) != self.pp or sum(self.pp_partition) != layers or min(self.pp_partition) < 0:
            written = ",".join(map(str, self.pp_partition))
            raise InputError(
                f"VLLM_PP_LAYER_PARTITION is {written}; it must be {self.pp} numbers that add up to {layers}"
            )
        return self.pp_partition

    def layers_of_stage(self, layers: int, stage: int) -> range:
        """Numbers of the decoder layers that a stage holds."""
        counts = self.layer_counts(layers)
        start = sum(counts[:stage])
        return range(start, start + counts[stage])


_OPTIONS = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size"}
