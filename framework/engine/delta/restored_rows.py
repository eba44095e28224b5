"""The effect of a restore, as a plain value without Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRows:
    """The effect of a restore.

    Args:
        before: the number of rows now; None if the log does not have it.
        after: the number of rows of the version; None if the log does not have it.
        missing: files of the version that no longer exist.
    """

    before: int | None
    after: int | None
    missing: tuple[str, ...] = ()
