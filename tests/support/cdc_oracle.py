"""A second implementation of AUTO CDC: sorts all events and applies them one by one.

It is independent of the product: no Spark, no batches, no merge, and short enough to verify by reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

Values = tuple[str | None, ...]
Point = tuple[int, int]
Tie = Callable[[Values], int]

RANK = {"truncate": 0, "upsert": 1, "delete": 2}
DELETES_FIRST = {"truncate": 0, "delete": 1, "upsert": 2}


@dataclass(frozen=True, slots=True)
class Event:
    """One change event.

    `point` is (0, literal) for rows of a once flow with a literal sequence, else (1, sequence).
    `authored` says which values the event wrote; None: all of them.
    """

    point: Point
    operation: str
    key: str
    values: Values = ()
    authored: tuple[bool, ...] | None = None


def in_order(events: Iterable[Event], tie: Tie, rank: Mapping[str, int] = RANK) -> list[Event]:
    """Return each event once, by point; at one point truncates first and deletes by rank, upserts by their content."""
    return sorted(set(events), key=lambda e: (e.point, rank[e.operation], tie(e.values) if e.values else 0))


def applied(old: Values | None, event: Event) -> Values:
    """Return the values after an upsert: columns that it did not write keep their values."""
    before = old if old is not None else (None,) * len(event.values)
    authored = event.authored or (True,) * len(event.values)
    return tuple(new if wrote else kept for new, kept, wrote in zip(event.values, before, authored, strict=True))


def scd1(events: Iterable[Event], tie: Tie, rank: Mapping[str, int] = RANK) -> set[tuple[str, Values]]:
    """The rows of SCD type 1: key and values."""
    rows: dict[str, Values] = {}
    for event in in_order(events, tie, rank):
        if event.operation == "truncate":
            rows.clear()
        elif event.operation == "delete":
            rows.pop(event.key, None)
        else:
            rows[event.key] = applied(rows.get(event.key), event)
    return set(rows.items())


def soft(events: Iterable[Event], tie: Tie, rank: Mapping[str, int] = RANK) -> set[tuple[str, Values, bool]]:
    """The rows of SCD type 1 with soft deletes: key, values, and whether the row is deleted; no row ever goes."""
    rows: dict[str, tuple[Values, bool]] = {}
    for event in in_order(events, tie, rank):
        if event.operation == "upsert":
            before = rows[event.key][0] if event.key in rows else None
            rows[event.key] = (applied(before, event), False)
            continue
        gone = [*rows] if event.operation == "truncate" else [key for key in rows if key == event.key]
        rows |= {key: (rows[key][0], True) for key in gone}
    return {(key, values, is_deleted) for key, (values, is_deleted) in rows.items()}


Version = tuple[str, Values, Point, Point | None]


def scd2(events: Iterable[Event], tie: Tie, tracked: Sequence[int], rank: Mapping[str, int] = RANK) -> set[Version]:
    """The rows of SCD type 2: key, values, start and end; a new row where a tracked value changes."""
    done: set[Version] = set()
    current: dict[str, tuple[Values, Point]] = {}
    ordered = in_order(events, tie, rank)
    for (point, key), together in groupby(sorted(ordered, key=lambda e: (e.point, e.key)), lambda e: (e.point, e.key)):
        at_once = list(together)
        open_row = current.pop(key, None)
        if at_once[-1].operation == "delete":
            done |= set() if open_row is None else {(key, *open_row, point)}
            continue
        is_cleared = open_row is None or at_once[0].operation == "delete"
        values = None if open_row is None or is_cleared else open_row[0]
        for event in at_once:
            values = values if event.operation == "delete" else applied(values, event)
        assert values is not None
        if open_row is not None and all(values[index] == open_row[0][index] for index in tracked):
            current[key] = (values, open_row[1])
            continue
        done |= set() if open_row is None else {(key, *open_row, point)}
        current[key] = (values, point)
    return done | {(key, values, start, None) for key, (values, start) in current.items()}
