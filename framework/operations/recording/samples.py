"""A sample of the inputs of a dataset whose rows belong together, as far as the names of their columns say so."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from framework.foundation.errors import UserError
from framework.sandbox.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY_ENDS = ("id", "_key", "_code", "_no", "_number", "uuid")
_JSON, _CSV = (".json", ".jsonl", ".ndjson"), (".csv",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Some rows of an input.

    Args:
        name: the input, as a test names it.
        rows: its rows.
        schema: its columns; None for files, whose reads decide.
        chosen: how the rows were chosen, in words.
    """

    name: str
    rows: tuple[dict[str, Any], ...]
    schema: StructType | None
    chosen: str


class Sampler:
    """Chooses the rows of inputs that belong to rows that are chosen already.

    Args:
        keys: columns that are known to be keys, in lower case.
        limit: the most rows of an input.
    """

    def __init__(self, keys: Collection[str], limit: int) -> None:
        self._keys, self._limit = keys, limit
        self._chosen: dict[str, tuple[StructType, tuple[dict[str, Any], ...]]] = {}

    def add(self, name: str, frame: DataFrame) -> Sample:
        """Choose the first rows of a table; those of other tables then belong to them."""
        return self._take(name, frame, "all")

    def tables(self, frames: Mapping[str, DataFrame]) -> list[Sample]:
        """Choose rows of each table: those with the values of chosen rows in the columns that both have."""
        waiting, found = dict(frames), list[Sample]()
        while waiting:
            linked = ((name, self._link(frame)) for name, frame in waiting.items())
            name, link = next(((name, link) for name, link in linked if link is not None), (next(iter(waiting)), None))
            frame = waiting.pop(name)
            if link is None:
                found.append(self._take(name, frame, "all, as no column links it to another input"))
                continue
            of, columns = link
            chosen = f"those with {', '.join(columns)} of the rows of {of}"
            found.append(self._take(name, _with_values(frame, columns, self._chosen[of][1]), chosen))
        return found

    def _link(self, frame: DataFrame) -> tuple[str, tuple[str, ...]] | None:
        """Return the chosen table with which a table has columns in common, and these columns: keys if possible."""
        types = {each.name.lower(): each.dataType for each in frame.schema if not _is_deep(each.dataType)}
        for of, (schema, rows) in self._chosen.items():
            common = [each.name for each in schema if types.get(each.name.lower()) == each.dataType]
            columns = [name for name in common if self._is_key(name)] or common
            if columns and rows:
                return of, tuple(columns)
        return None

    def _is_key(self, name: str) -> bool:
        return name.lower() in self._keys or name.lower().endswith(_KEY_ENDS)

    def _take(self, name: str, frame: DataFrame, chosen: str) -> Sample:
        plain = [each.name for each in frame.schema if not _is_deep(each.dataType)]
        found = rows_of(frame.orderBy(*(F.col(f"`{each}`") for each in plain)).limit(self._limit + 1))
        rows = found[: self._limit]
        self._chosen[name] = frame.schema, rows
        cut = f", cut at the limit of {self._limit}" if len(found) > self._limit else ""
        return Sample(name=name, rows=rows, schema=frame.schema, chosen=f"{chosen}{cut}")


def rows_of(frame: DataFrame) -> tuple[dict[str, Any], ...]:
    """Return the rows of a DataFrame as plain values, with points in time in UTC."""
    found = Rows.of(frame)
    return tuple(
        {name: _plain(value) for name, value in zip(found.columns or (), row, strict=True)} for row in found.values
    )


def file_sample(name: str, folder: str, limit: int) -> Sample:
    """Choose the first records of the files of a folder, or of a file, in the order of their names.

    Raises:
        UserError: TEST_RECORD_FILES_UNREADABLE.
    """
    path = Path(folder.removeprefix("file:"))
    files = sorted(each for each in (path.rglob("*") if path.is_dir() else [path]) if each.suffix in _JSON + _CSV)
    if not files:
        raise UserError("TEST_RECORD_FILES_UNREADABLE", folder=folder)
    found = tuple(islice((record for file in files for record in _records(file)), limit + 1))
    chosen = f"the first records, cut at the limit of {limit}" if len(found) > limit else "all"
    return Sample(name=name, rows=found[:limit], schema=None, chosen=chosen)


def _records(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8", newline="") as lines:
        if file.suffix in _CSV:
            yield from ({key: value or None for key, value in row.items()} for row in csv.DictReader(lines))
            return
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _with_values(frame: DataFrame, columns: Sequence[str], rows: Collection[Mapping[str, Any]]) -> DataFrame:
    """Return the rows that have, in these columns, the values of one of the given rows."""
    values = {tuple(row[name] for name in columns) for row in rows}
    conditions = [
        reduce(lambda one, two: one & two, (_equals(name, value) for name, value in zip(columns, each, strict=True)))
        for each in values
    ]
    return frame.where(reduce(lambda one, two: one | two, conditions))


def _equals(column: str, value: Any) -> Any:
    return F.col(f"`{column}`").eqNullSafe(F.lit(value))


def _is_deep(data_type: object) -> bool:
    return isinstance(data_type, StructType | ArrayType | MapType | VariantType)


def _plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
