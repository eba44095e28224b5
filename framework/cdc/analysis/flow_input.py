"""One AUTO CDC flow of a target, analysed against its source.

AUTO CDC evaluates an expression again when a batch is replayed, and on batches of any size. So an
expression may only depend on the values of its row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.cdc.model.columns import select_fields
from framework.declare.specs import AutoCdcSpec
from framework.engine.plans.plans import analysed_plan, has_pattern, node_names, output_of, refers_to_columns
from framework.engine.plans.relations import stand_in
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

# Catalyst tree patterns, and the dependency besides the row that an expression with the pattern has.
_DEPENDENCIES = {
    "WINDOW_EXPRESSION": "a window function reads other rows",
    "AGGREGATE_EXPRESSION": "an aggregate reads other rows",
    "AGGREGATE": "an aggregate reads other rows",
    "GENERATE": "a generator returns several rows for one",
    "PLAN_EXPRESSION": "a subquery reads other rows",
    "CURRENT_LIKE": "its value depends on the time, the session or the user of the update",
    "VARIABLE_REFERENCE": "a session variable can have a different value in each session",
}
_NOT_DETERMINISTIC = "it is not deterministic, so a retried micro-batch would get different values"
_ROW_NODES = frozenset({"Project", "LocalRelation", "SubqueryAlias"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpression:
    """An analysed expression.

    Args:
        data_type: the type of its value.
        is_constant: whether it reads no column.
        dependency: its dependency besides the row; None if it depends only on the row.
    """

    data_type: DataType
    is_constant: bool
    dependency: str | None


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

    def fault(self, condition: str, **fields: object) -> UserError:
        """Return an error of the flow, with its name and location."""
        return UserError(condition, location=self.location, flow=self.name, **fields)

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


def analyse_row_expression(session: SparkSession, schema: StructType, text: str) -> RowExpression:
    """Analyse an expression over rows of a schema.

    The rows have the schema's columns and nothing else: a micro-batch has no metadata columns, and its
    columns have no qualifiers.

    Args:
        session: the session that resolves functions.
        schema: the schema of the rows.
        text: the expression.

    Raises:
        pyspark.errors.AnalysisException: it can't be resolved.
    """
    analysed = stand_in(session, schema, streaming=False).select(F.expr(text))
    plan = analysed_plan(analysed)
    return RowExpression(
        data_type=analysed.schema.fields[0].dataType,
        is_constant=not refers_to_columns(plan),
        dependency=_dependency(plan),
    )


def _dependency(plan: Any) -> str | None:
    """Return the dependency, besides the row, of an analysed plan's only column; None if there is none."""
    for pattern, dependency in _DEPENDENCIES.items():
        if has_pattern(plan, pattern):
            return dependency
    if not plan.deterministic():
        return _NOT_DETERMINISTIC
    others = [name for name in node_names(plan) if name not in _ROW_NODES]
    if others or len(output_of(plan)) != 1:
        return f"it adds, drops or reads rows or columns ({', '.join(others) or 'a star'})"
    return None
