"""Constraints of a target's table: a batch that violates one fails as a whole, with the row in the error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from framework.cdc.delta.destination import Destination
from framework.foundation.errors import OperationError

_VIOLATION = "DeltaInvariantViolationException"
_MOST_CAUSES = 20


@contextmanager
def naming_violations(destination: Destination, batch_id: int) -> Iterator[None]:
    """Name the target's constraint in the error if a batch violates it; Delta then commits nothing of the batch.

    Raises:
        OperationError: AUTOCDC_CONSTRAINT_VIOLATED.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        violation = _violation(error)
        if violation is None:
            raise
        raise OperationError(
            "AUTOCDC_CONSTRAINT_VIOLATED",
            flow=destination.flow,
            target=destination.target.name,
            batch_id=batch_id,
            violation=violation,
        ) from error


def _violation(error: Py4JJavaError | PySparkException) -> str | None:
    """Return Delta's message about a violated constraint, in one line; None for any other error."""
    throwable = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    for _ in range(_MOST_CAUSES):  # causes may be circular
        if not isinstance(throwable, JavaObject):
            return None
        if throwable.getClass().getSimpleName() == _VIOLATION:
            return " ".join(str(throwable.getMessage()).split())
        throwable = throwable.getCause()
    return None
