"""Why a fault cannot be made here: no mistake of anybody's, so it is skipped with the reason."""

from __future__ import annotations


class CannotMake(Exception):  # noqa: N818 -- it reads better where it is raised
    """The text is the reason, for a person."""
