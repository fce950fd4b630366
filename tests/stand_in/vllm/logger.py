"""The one function that a forked load calls."""


def _configure_vllm_root_logger() -> None:
    pass
