"""The destination of a flow's events, and the error of a batch that violates a constraint of its table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException

from framework.cdc.analysis.target_schema import CdcTarget
from framework.engine.delta.transaction_identifiers import Batch
from framework.engine.jvm.java_errors import Py4JJavaError, throwables
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress

_VIOLATION = "DeltaInvariantViolationException"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A target, its two tables, and the flow that writes to them.

    Args:
        target: the planned target.
        table: the target's Delta table, which exists with `target.table_schema`.
        auxiliary: the address of the auxiliary table, which is created when it is first needed.
        flow: the flow's name.
        application_id: unique to the flow and its checkpoint generation.
        truncates: whether the flow's events may be truncates.
    """

    target: CdcTarget
    table: TableAddress
    auxiliary: TableAddress
    flow: QualifiedName
    application_id: str
    truncates: bool

    def batch(self, number: int) -> Batch:
        """Return the transaction identifier of a batch of the flow."""
        return Batch(application_id=self.application_id, number=number)


@contextmanager
def naming_violations(destination: Destination, batch_id: int) -> Iterator[None]:
    """Name the constraint in the error if a batch violates it; Delta commits nothing of such a batch.

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
    found = (each for each in throwables(error) if each.getClass().getSimpleName() == _VIOLATION)
    return next((" ".join(str(each.getMessage()).split()) for each in found), None)
