"""Named scenarios of snapshots as a table in a text file: name | snapshots | rows.

Snapshots are divided by `;`, each a version, `:` and its rows, `k=a/b` divided by `,`; `_` is null, `-` no row.
The rows they end in are written as in `cdc_scenarios`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SnapshotRow = tuple[str, str | None, str | None]
"""Key and two values."""

_ROW = re.compile(r"(?P<key>\w+)=(?P<a>\w+)/(?P<b>\w+)(\[(?P<start>\d+),(?P<end>\d*)\))?$")


@dataclass(frozen=True, slots=True)
class SnapshotScenario:
    """One line of the table."""

    name: str
    snapshots: tuple[tuple[int, tuple[SnapshotRow, ...]], ...]
    rows: frozenset[tuple[object, ...]]


def read_snapshot_scenarios(path: Path) -> tuple[SnapshotScenario, ...]:
    """The scenarios of a file; blank lines and lines that begin with `#` are left out."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(_scenario(line) for line in lines if line and not line.startswith("#"))


def _scenario(line: str) -> SnapshotScenario:
    name, snapshots, rows = (part.strip() for part in line.split("|"))
    return SnapshotScenario(
        name=name,
        snapshots=tuple(_snapshot(text.strip()) for text in snapshots.split(";")),
        rows=frozenset(_row(text) for text in _listed(rows, r",\s+")),
    )


def _snapshot(text: str) -> tuple[int, tuple[SnapshotRow, ...]]:
    version, _, rows = text.partition(":")
    return int(version), tuple(_row(each)[:3] for each in _listed(rows, ","))  # type: ignore[misc]


def _listed(text: str, divider: str) -> list[str]:
    return [part.strip() for part in re.split(divider, text) if part.strip() and part.strip() != "-"]


def _row(text: str) -> tuple[object, ...]:
    match = _ROW.match(text)
    assert match is not None, text
    values = (None if match[name] == "_" else match[name] for name in ("a", "b"))
    row = (match["key"], *values)
    if match["start"] is None:
        return row
    return (*row, int(match["start"]), int(match["end"]) if match["end"] else None)
