"""One AUTO CDC flow of a target, analysed against its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.cdc.analysis.row_expressions import RowExpression, analyse_row_expression
from framework.cdc.model.columns import select_fields
from framework.declare.specs import AutoCdcSpec
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CdcInput:
    """A flow, as input of the planning.

    It contains a DataFrame, so it is no spec: instances are compared by identity.

    Args:
        name: the flow's name.
        spec: the flow's declaration.
        once: whether the flow runs once per generation.
        location: the location of the declaration.
        source: the flow's source, analysed and never executed; only its schema and expressions are used.
        versions: for a flow from snapshots, the type of their versions, which are its sequence.
    """

    name: QualifiedName
    spec: AutoCdcSpec
    once: bool
    location: SourceLocation | None
    source: DataFrame
    versions: DataType | None = None
    _analysed: dict[str, RowExpression] = field(default_factory=dict, init=False, repr=False)

    @property
    def selected(self) -> tuple[StructField, ...]:
        """The source's fields that are written to the target."""
        return select_fields(self.source.schema, self.spec.columns)

    def analyse(self, expression: str) -> RowExpression:
        """Analyse an SQL expression over the source's columns.

        Raises:
            pyspark.errors.AnalysisException: it can't be resolved.
        """
        if expression not in self._analysed:
            source = self.source
            self._analysed[expression] = analyse_row_expression(source.sparkSession, source.schema, expression)
        return self._analysed[expression]

    @property
    def sequence_type(self) -> DataType:
        """The type of the flow's sequence.

        Raises:
            pyspark.errors.AnalysisException: `sequence_by` can't be resolved.
        """
        return self.versions if self.versions is not None else self.analyse(self.spec.sequence_by).data_type

    @property
    def is_literal(self) -> bool:
        """Whether this is a once flow with a constant number, time, boolean or NULL as its sequence.

        Such a sequence sorts before all other sequences. Any other constant (a string, a struct) is compared
        with the sequences of the other flows.
        """
        if not self.once or self.versions is not None:
            return False
        sequence = self.analyse(self.spec.sequence_by)
        kind = sequence.data_type.typeName()
        return sequence.is_constant and (kind in _LITERAL_TYPES or kind.startswith("decimal"))


_LITERAL_TYPES = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", "void"}
)


def literal_rank(value: Column, data_type: DataType) -> Column:
    """Return a literal sequence as a double, which orders once flows among themselves.

    It is exact for whole numbers up to 2**53 and for times in microseconds up to the year 2255.
    """
    if data_type.typeName() in {"date", "timestamp", "timestamp_ntz"}:
        return F.unix_micros(value.cast("timestamp")).cast("double")
    return value.cast("double")
