"""Hides a case's secrets so that what was told apart by them still is: the first becomes `***`, the next `***2`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.redact import MASKED, mask, names_a_secret

if TYPE_CHECKING:
    from engine_probe.launch import ArgValue, Deployment

_LEAST_PIECE = 4
"""A shorter secret is hidden where it is the whole value: within a text it may be any word's piece."""


class CaseSecrets:
    """`masked(text)` hides every value that was learnt, and what looks like a secret by itself."""

    def __init__(self) -> None:
        self._stands_for: dict[str, str] = {}

    def learn(self, deployment: Deployment) -> None:
        """Values of arguments and variables whose names say that they are secret."""
        for launch in deployment.models:
            for name, value in (*launch.args.items(), *launch.env.items()):
                self.learn_value(name, value)

    def learn_value(self, name: str, value: ArgValue) -> None:
        if not names_a_secret(name) or isinstance(value, bool):
            return
        for one in value if isinstance(value, tuple) else (str(value),):
            secret = one.strip()
            if secret and not secret.startswith(MASKED):
                number = len(self._stands_for) + 1
                self._stands_for.setdefault(secret, MASKED if number == 1 else f"{MASKED}{number}")

    def masked(self, text: str) -> str:
        """`text` without secrets. Long ones first: a short one may be a piece of another."""
        if text in self._stands_for:
            return self._stands_for[text]
        for secret in sorted(self._stands_for, key=len, reverse=True):
            if len(secret) >= _LEAST_PIECE and secret in text:
                text = text.replace(secret, self._stands_for[secret])
        return mask(text)
