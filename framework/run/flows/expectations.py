"""Expectations on a query's rows: violations are counted in the same pass, and rows dropped or failed as declared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from framework.cdc.model.columns import column
from framework.declare.specs import ExpectationSpec, ViolationAction
from framework.foundation.names import QualifiedName
from framework.run.flows.quality_counts import ExpectationCount, QualityCounts
from framework.run.flows.repeated_rows import REPEATED
from framework.run.quarantine.table import FILE, REASONS

VIOLATION_MARK = "EXPECTATION_VIOLATION:"
OBSERVATION_PREFIX = "sluice.quality."
_ROWS = "rows"
_DROPPED = "dropped"


def guarded(
    frame: DataFrame,
    dataset: QualifiedName,
    expectations: Sequence[ExpectationSpec],
    *,
    held: str = "true",
    number: int = 1,
) -> DataFrame:
    """Return the passing rows, with counts observed under the dataset's name and the number of its read.

    Only rows for which `held` is true are checked; all other rows pass. AUTO CDC deletes are not checked: they seldom
    have values, and a dropped delete would leave its row in the target forever.

    NULL counts as a violation. A row that violates a `fail` expectation fails the query before anything is committed,
    with the row in the message.
    """
    if not expectations:
        return frame
    met = {spec.name: _met(spec, held) for spec in expectations}
    drops = _all(met[spec.name] for spec in expectations if _is(spec, ViolationAction.DROP))
    frame = _observed(frame, dataset, ~drops, [~condition for condition in met.values()], number=number)
    frame = _failing(frame, expectations, met)
    return frame.where(drops) if any(_is(spec, ViolationAction.DROP) for spec in expectations) else frame


def marked(
    frame: DataFrame,
    dataset: QualifiedName,
    expectations: Sequence[ExpectationSpec],
    *,
    held: str = "true",
    faults: Mapping[str, Column] | None = None,
) -> DataFrame:
    """Return all rows with `REASONS`; unlike `guarded`, rows with a reason are kept.

    Args:
        frame: the rows.
        dataset: the dataset under whose name the counts are observed, as in `guarded`.
        expectations: its expectations. A row that violates a `fail` expectation fails the query.
        held: the rows that are checked; see `guarded`.
        faults: further reasons, each with the condition whether a row has it.
    """
    frame = frame.withColumn(REASONS, reasons(expectations, {ViolationAction.DROP}, held=held, faults=faults or {}))
    if not expectations:
        return frame
    met = {spec.name: _met(spec, held) for spec in expectations}
    given = sql.col(REASONS)
    # A dropping condition is evaluated only once, so that a nondeterministic one has a single result per row.
    failed = {
        spec.name: sql.array_contains(given, spec.name) if _is(spec, ViolationAction.DROP) else ~met[spec.name]
        for spec in expectations
    }
    names = [sql.lit(spec.name) for spec in expectations if _is(spec, ViolationAction.DROP)]
    dropped = sql.arrays_overlap(given, sql.array(*names)) if names else sql.lit(False)  # noqa: FBT003 - a literal column
    frame = _observed(frame, dataset, dropped, list(failed.values()))
    return _failing(frame, expectations, met)


def reasons(
    expectations: Sequence[ExpectationSpec],
    actions: Collection[ViolationAction],
    *,
    held: str = "true",
    faults: Mapping[str, Column],
) -> Column:
    """Return the names of a row's violated expectations with these actions, and of its faults."""
    found = [sql.when(~_met(spec, held), sql.lit(spec.name)) for spec in expectations if spec.action in actions]
    found += [sql.when(condition, sql.lit(name)) for name, condition in faults.items()]
    return sql.array_compact(sql.array(*found).cast("array<string>"))


def passing(expectations: Sequence[ExpectationSpec]) -> Column:
    """Return whether a row meets all dropping expectations that check single rows."""
    return _all(_met(spec, "true") for spec in expectations if _is(spec, ViolationAction.DROP) and spec.unique is None)


def counted(
    observed: Mapping[str, Mapping[str, int]], specs: Mapping[QualifiedName, Sequence[ExpectationSpec]]
) -> QualityCounts:
    """Return the counts of one batch, from the metrics observed under each dataset's name.

    A view that the query reads several times counts once, by the read that saw the most rows: Spark may stop the other
    reads early.
    """
    total = QualityCounts()
    for dataset, expectations in specs.items():
        reads = [row for name, row in observed.items() if _observed_dataset(name) == str(dataset)]
        if not reads:
            continue
        row = max(reads, key=lambda read: int(read[_ROWS]))
        rows = int(row[_ROWS])
        counts = tuple(
            ExpectationCount(
                name=spec.name,
                dataset=dataset,
                action=spec.action,
                passed=rows - int(row[f"failed_{index}"]),
                failed=int(row[f"failed_{index}"]),
            )
            for index, spec in enumerate(expectations)
        )
        total = total.plus(QualityCounts(rows=rows, dropped=int(row[_DROPPED]), expectations=counts))
    return total


def _met(spec: ExpectationSpec, held: str) -> Column:
    if spec.unique is not None:
        return ~sql.array_contains(REPEATED, spec.name)
    return ~sql.expr(held) | sql.coalesce(sql.expr(spec.condition), sql.lit(False))  # noqa: FBT003 - a literal column


def _observed(
    frame: DataFrame, dataset: QualifiedName, dropped: Column, failed: Sequence[Column], *, number: int = 1
) -> DataFrame:
    counts = [sql.count_if(condition).alias(f"failed_{index}") for index, condition in enumerate(failed)]
    return frame.observe(
        f"{OBSERVATION_PREFIX}{number}.{dataset}",  # Spark refuses one name for the observations of two reads
        sql.count(sql.lit(1)).alias(_ROWS),
        sql.count_if(dropped).alias(_DROPPED),
        *counts,
    )


def _observed_dataset(name: str) -> str | None:
    return name.removeprefix(OBSERVATION_PREFIX).partition(".")[2] if name.startswith(OBSERVATION_PREFIX) else None


def _failing(frame: DataFrame, expectations: Sequence[ExpectationSpec], met: Mapping[str, Column]) -> DataFrame:
    """Fail the query at any row that violates a `fail` expectation."""
    for spec in expectations:
        if _is(spec, ViolationAction.FAIL):
            frame = frame.where(sql.when(met[spec.name], sql.lit(True)).otherwise(violation(spec, frame)))  # noqa: FBT003 - a literal column
    return frame


def _is(spec: ExpectationSpec, action: ViolationAction) -> bool:
    return spec.action is action


def _all(conditions: Iterable[Column]) -> Column:
    result = sql.lit(True)  # noqa: FBT003 - a literal of Spark's
    for condition in conditions:
        result = result & condition
    return result


def violation(spec: ExpectationSpec, frame: DataFrame) -> Column:
    """Return an expression that fails the query with the expectation's name and the row."""
    shown = [column(name) for name in frame.columns if name not in {REASONS, FILE, REPEATED}]
    row = sql.to_json(sql.struct(*shown)) if shown else sql.lit("{}")
    message = sql.concat(sql.lit(f"{VIOLATION_MARK}{spec.name}:"), row)
    return sql.raise_error(message).cast("boolean")
