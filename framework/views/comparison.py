"""A comparison of two tables, as tables and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from framework.foundation.wording import counted, printable
from framework.recovery.comparison import ColumnFinding, ComparedTable, Comparison, DifferenceKind, KeyDifference
from framework.views.rows import json_value, value_text
from framework.views.table import Cell, Column, Table, Tone

_TABLES = (Column(name="table", wraps=False), Column(name="rows", right=True), Column(name="read at", wraps=False))
_KEYS = (
    Column(name="difference", wraps=False),
    Column(name="key"),
    Column(name="columns"),
    Column(name="rows", wraps=False),
)


def compared_tables(comparison: Comparison) -> Table:
    """Return one row for each of the two tables, with its rows and its version or position."""
    rows = [(each.name, f"{each.rows:,}", _read_at(each)) for each in (comparison.first, comparison.second)]
    return Table.of(_TABLES, rows).without_empty_columns()


def differences_table(comparison: Comparison) -> Table:
    """Return one row for each differing key of the comparison."""
    return Table.of(_KEYS, [_row(comparison, each) for each in comparison.differences]).without_empty_columns()


def comparison_text(comparison: Comparison) -> str:
    """Return the result in sentences: the compared tables, the number of differing keys, and whether it is certain."""
    lines = [_verdict(comparison)]
    if comparison.totals.columns:
        changed = ", ".join(f"{printable(name)} ({count:,})" for name, count in comparison.totals.columns)
        lines.append(f"Columns with other values: {changed}.")
    if comparison.totals.duplicate:
        lines.append(f"{counted(comparison.totals.duplicate, 'differing key')} in more than one row.")
    lines += [_finding_text(comparison, each) for each in comparison.findings]
    if comparison.uncertain is not None:
        lines.append(f"This is not certain. {comparison.uncertain}")
    left = comparison.totals.keys - len(comparison.differences)
    if left and comparison.differences:
        lines.append(f"{left:,} more are not listed.")
    return "\n".join(lines)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    found = asdict(comparison)
    totals = {**found["totals"], "columns": dict(comparison.totals.columns)}
    differences = [
        {
            "kind": _CODES[each.kind],
            "key": dict(zip(_key_names(comparison), map(json_value, each.key), strict=True)),
            "columns": list(each.columns),
            "first_rows": each.first_rows,
            "second_rows": each.second_rows,
        }
        for each in comparison.differences
    ]
    return {"equal": comparison.is_equal, **found, "totals": totals, "differences": differences}


_CODES = {
    DifferenceKind.ONLY_FIRST: "only_first",
    DifferenceKind.ONLY_SECOND: "only_second",
    DifferenceKind.DIFFERENT: "different",
}


def _verdict(comparison: Comparison) -> str:
    totals, first, second = comparison.totals, comparison.first.name, comparison.second.name
    by = f"by {', '.join(map(printable, comparison.keys))}" if comparison.keys else "by whole rows"
    if not totals.keys:
        return f"Equal, compared {by}." if not comparison.findings else f"The common columns are equal, compared {by}."
    parts = (
        (totals.only_first, f"only in {first}"),
        (totals.only_second, f"only in {second}"),
        (totals.different, "different"),
    )
    listed = ", ".join(f"{count:,} {text}" for count, text in parts if count)
    noun = "key" if comparison.keys else "row"
    verb = "differs" if totals.keys == 1 else "differ"
    return f"{counted(totals.keys, noun)} {verb}, compared {by}: {listed}."


def _finding_text(comparison: Comparison, finding: ColumnFinding) -> str:
    name = printable(finding.name)
    if finding.first_type is None:
        return f"Column {name} is only in {comparison.second.name}."
    if finding.second_type is None:
        return f"Column {name} is only in {comparison.first.name}."
    return f"Column {name} was not compared: its types are {finding.first_type} and {finding.second_type}."


def _read_at(table: ComparedTable) -> str:
    if table.position is not None:
        return f"position {table.position}"
    return "" if table.version is None else f"version {table.version}"


def _key_names(comparison: Comparison) -> tuple[str, ...]:
    return comparison.keys or comparison.columns


def _row(comparison: Comparison, difference: KeyDifference) -> tuple[Cell, ...]:
    key = ", ".join(
        f"{printable(name)}={value_text(value)}"
        for name, value in zip(_key_names(comparison), difference.key, strict=True)
    )
    several = max(difference.first_rows, difference.second_rows) > 1
    text = {
        DifferenceKind.ONLY_FIRST: f"only in {comparison.first.name}",
        DifferenceKind.ONLY_SECOND: f"only in {comparison.second.name}",
    }.get(difference.kind, "different")
    return (
        Cell(text=text, tone=Tone.BAD),
        Cell(text=key),
        Cell(text=", ".join(map(printable, difference.columns))),
        Cell(text=f"{difference.first_rows:,} and {difference.second_rows:,}" if several else ""),
    )
