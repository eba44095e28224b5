"""Named AUTO CDC scenarios as a table in a text file: name | batches | rows.

Batches are divided by `;` and begin with `flow:` unless they are of the flow `changes`; events by `,`.

- `k=a/b@5`: an upsert of key `k` with the values `a` and `b` and sequence 5; `_` is null.
- `-k@6`: a delete of `k`. `!@3`: a truncate.
- In the rows, `k=a/b`, and for SCD type 2 `k=a/b[1,5)` or `k=a/b[5,)` while it is open.

Events of the flow `snapshot` have no sequence: it is a literal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

EventRow = tuple[str | None, str | None, str | None, str, int | None]
"""Key, two values, operation, sequence."""

_EVENT = re.compile(r"(?P<op>[-!]?)(?P<key>\w*)(=(?P<a>\w+)/(?P<b>\w+))?(@(?P<at>\d+))?$")
_ROW = re.compile(r"(?P<key>\w+)=(?P<a>\w+)/(?P<b>\w+)(\[(?P<start>\d*),(?P<end>\d*)\))?$")
_OPERATIONS = {"": "upsert", "-": "delete", "!": "truncate"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One line of the table."""

    name: str
    batches: tuple[tuple[str, tuple[EventRow, ...]], ...]
    rows: frozenset[tuple[object, ...]]


def read_scenarios(path: Path) -> tuple[Scenario, ...]:
    """The scenarios of a file; blank lines and lines that begin with `#` are left out."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(_scenario(line) for line in lines if line and not line.startswith("#"))


def _scenario(line: str) -> Scenario:
    name, batches, rows = (part.strip() for part in line.split("|"))
    return Scenario(
        name=name,
        batches=tuple(_batch(text.strip()) for text in batches.split(";")),
        rows=frozenset(_row(text.strip()) for text in re.split(r",\s+", rows) if text.strip() and text.strip() != "-"),
    )


def _batch(text: str) -> tuple[str, tuple[EventRow, ...]]:
    flow, _, events = text.rpartition(":")
    return flow.strip() or "changes", tuple(_event(event.strip()) for event in events.split(","))


def _event(text: str) -> EventRow:
    match = _EVENT.match(text)
    assert match is not None, text
    at = match["at"]
    values = (_value(match["a"]), _value(match["b"]))
    return (match["key"] or None, *values, _OPERATIONS[match["op"]], None if at is None else int(at))


def _row(text: str) -> tuple[object, ...]:
    match = _ROW.match(text)
    assert match is not None, text
    row = (match["key"], _value(match["a"]), _value(match["b"]))
    if match["start"] is None:
        return row
    return (*row, int(match["start"]) if match["start"] else None, int(match["end"]) if match["end"] else None)


def _value(text: str | None) -> str | None:
    return None if text in {None, "_"} else text
