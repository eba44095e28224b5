"""Expected rows of tables and of the quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.foundation.conditions import CONDITIONS, is_known
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_hint
from framework.foundation.wording import counted
from framework.run.quarantine.row_state import RowState
from framework.sandbox.differences.comparison import compare_rows
from framework.sandbox.differences.difference_text import DifferenceFormat
from framework.sandbox.expectations.examined import Examined, declared, session_zone
from framework.sandbox.rows import Rows
from framework.sandbox.stored.plain_tables import plain_table
from framework.sandbox.values.typed_values import of_spark


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedRows:
    """Rows with their types.

    Args:
        schema: the columns.
        rows: the values, as `framework.sandbox.values.typed_values.typed_value` returns them.
    """

    schema: StructType
    rows: tuple[tuple[Any, ...], ...]

    def select(self, names: Sequence[str], dataset: object) -> TypedRows:
        """Return some of the columns.

        Raises:
            UserError: TEST_COLUMN_UNKNOWN.
        """
        known = self.schema.fieldNames()
        places = []
        for name in names:
            similar = [place for place, each in enumerate(known) if each.lower() == name.lower()]
            if name not in known and len(similar) != 1:
                columns, hint = ", ".join(known), nearest_hint(name, known)
                raise UserError("TEST_COLUMN_UNKNOWN", dataset=dataset, column=name, columns=columns, hint=hint)
            places.append(known.index(name) if name in known else similar[0])
        schema = StructType([self.schema.fields[place] for place in places])
        return TypedRows(schema=schema, rows=tuple(tuple(row[place] for place in places) for row in self.rows))


def table_rows(sandbox: Examined, dataset: QualifiedName) -> TypedRows:
    """Return the rows of a dataset's table.

    Raises:
        OperationError: DATASET_NOT_MATERIALIZED.
    """
    pipeline = sandbox.pipeline
    folder = pipeline.table_folder(dataset)
    plain = None if folder is None else plain_table(pipeline.storage, folder, without=(HIDDEN_COLUMN,))
    if plain is not None:
        return TypedRows(schema=plain[0], rows=plain[1])
    frame = pipeline.table(dataset)
    return TypedRows(schema=frame.schema, rows=tuple(of_spark(row, frame.schema) for row in frame.collect()))


def check_rows(
    sandbox: Examined, dataset: str, rows: object, *, only: Sequence[str] | None, ordered: bool, text: DifferenceFormat
) -> None:
    """Check the rows of a dataset's table.

    Raises:
        AssertionError: they are others.
    """
    __tracebackhide__ = True
    name = sandbox.dataset(dataset)
    found = table_rows(sandbox, name)
    found = found if only is None else found.select(only, name)
    expected = Rows.of(rows, columns=only)
    compare(sandbox, dataset, expected, found, keys=keys_of(sandbox, name), ordered=ordered, text=text)


def compare(
    sandbox: Examined,
    title: str,
    expected: Rows,
    found: TypedRows,
    *,
    text: DifferenceFormat,
    keys: Sequence[str] = (),
    ordered: bool = False,
) -> None:
    """Compare rows with expected ones.

    Raises:
        AssertionError: they differ; its text is the difference.
    """
    __tracebackhide__ = True
    wanted = expected.typed(found.schema, session_zone(sandbox), keep_misfits=True)
    difference = compare_rows(wanted, found.rows, found.schema, keys=keys, ordered=ordered)
    if difference is not None:
        raise AssertionError(text.text(title, difference) + _left_out(expected, found.schema))


def _left_out(expected: Rows, schema: StructType) -> str:
    """Return which columns the expected rows leave out, to append to a difference; empty if there are none."""
    if expected.columns is None or not expected.values:
        return ""
    known = {name.lower() for name in expected.columns}
    names = [name for name in schema.fieldNames() if name.lower() not in known]
    if not names:
        return ""
    return f"\n  NULL is expected in {', '.join(names)}, which the rows leave out; only=[…] compares some columns."


def keys_of(sandbox: Examined, dataset: QualifiedName) -> tuple[str, ...]:
    """Return the keys of an AUTO CDC target; () for other datasets."""
    flows = sandbox.pipeline.definitions.registry.flows
    return next((flow.cdc.keys for flow in flows if flow.target == dataset and flow.cdc is not None), ())


def check_quarantine(
    sandbox: Examined, dataset: str, *, reason: str | None, rows: object, text: DifferenceFormat
) -> None:
    """Check the quarantined rows of a dataset.

    Raises:
        AssertionError: there are others.
        UserError: TEST_REASON_UNKNOWN.
    """
    __tracebackhide__ = True
    name = sandbox.dataset(dataset)
    if reason is not None:
        _check_reason(sandbox, name, reason)
    states = (RowState.OPEN.value, RowState.REPLAYED.value)
    stored = [
        row
        for row in sandbox.pipeline.quarantine.rows().collect()
        if row["dataset"] == str(name) and row["state"] in states
    ]
    chosen = [row for row in stored if reason is None or reason in row["reasons"]]
    what = f"The quarantine of {dataset}" + (f" with the reason {reason!r}" if reason is not None else "")
    if rows is None or isinstance(rows, int):
        is_right = bool(chosen) if rows is None else len(chosen) == rows
        if not is_right:
            wanted = "at least one row" if rows is None else counted(rows, "row")
            message = f"{what} has {counted(len(chosen), 'row')}, not {wanted}.{_reasons(stored)}"
            raise AssertionError(message)
        return
    expected = Rows.of(rows)
    found = Rows.of([row["row"].toPython() for row in chosen])
    schema = (found if chosen else expected).inferred()
    typed = TypedRows(schema=schema, rows=tuple(found.typed(schema, session_zone(sandbox))))
    typed = typed if expected.columns is None else typed.select(expected.columns, what)
    compare(sandbox, what, expected, typed, text=text)


def _check_reason(sandbox: Examined, dataset: QualifiedName, reason: str) -> None:
    names = [each.name for each in declared(sandbox, dataset).expectations]
    if reason not in names and not is_known(reason):
        hint = nearest_hint(reason, [*names, *CONDITIONS])
        raise UserError("TEST_REASON_UNKNOWN", reason=reason, dataset=dataset, hint=hint)


def _reasons(rows: Sequence[Any]) -> str:
    """Return the reasons of all quarantined rows of a dataset, to append to a text."""
    counts: dict[str, int] = {}
    for row in rows:
        for reason in row["reasons"]:
            counts[reason] = counts.get(reason, 0) + 1
    if not counts:
        return " Its quarantine is empty."
    return " Its quarantine has " + ", ".join(f"{count:,} {reason!r}" for reason, count in counts.items()) + "."
