"""A rewind of tables to which others write at the same time."""

from __future__ import annotations

import pytest
from delta.exceptions import ConcurrentAppendException, MetadataChangedException

from framework.checkpoints.rewinds import StoredRewind
from framework.foundation.errors import OperationError
from framework.run.update.rewinds import _TRIES, _retried

REWIND = StoredRewind(
    rewind_id="r", to="then", begun_at="2026-04-09T13:55:00Z", user="ann", why="", tables=(), flows=()
)


class Conflicts:
    """Work that ends in conflicts before it succeeds."""

    def __init__(self, *conflicts: Exception) -> None:
        self.left = list(conflicts)

    def __call__(self) -> int:
        """Return the number of the version."""
        if self.left:
            raise self.left.pop()
        return 7


def test_a_commit_of_others_in_between_does_not_end_a_rewind() -> None:
    """Appends, compactions and changes of properties are conflicts; a rewind that has too many says how it goes on."""
    assert _retried(Conflicts(ConcurrentAppendException("", None), MetadataChangedException("", None)), REWIND) == 7
    with pytest.raises(OperationError, match=r"(?s)REWIND_UNFINISHED.*sluice run.*finishes it"):
        _retried(Conflicts(*[ConcurrentAppendException("", None)] * _TRIES), REWIND)
