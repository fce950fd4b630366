"""The words of `--load-test`."""

from __future__ import annotations

import pytest

from engine_probe.errors import InputError
from playbooks.session import Proof
from tui.commands.proof_options import proof_of


@pytest.mark.parametrize(
    ("words", "proof"),
    [("32x60s", Proof(32, 60.0)), ("4x1", Proof(4, 1.0)), ("8x0.5s", Proof(8, 0.5)), ("none", Proof(0, 0.0))],
)
def test_a_load_test_is_requests_at_once_and_seconds(words: str, proof: Proof) -> None:
    assert proof_of(words) == proof


@pytest.mark.parametrize("words", ["", "32", "x", "0x5s", "32x0s", "1001x5s", "3x86401s", "-1x5s", "3x5m", "None"])
def test_what_is_no_load_test_is_refused_with_an_example(words: str) -> None:
    with pytest.raises(InputError, match="32x60s"):
        proof_of(words)
