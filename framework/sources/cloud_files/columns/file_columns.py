"""Matching of file columns to stream columns by name, case-sensitive or not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pyspark.sql.types import DataType, StringType, StructField, StructType

from framework.sources.cloud_files.columns.fields import distinct_names
from framework.sources.cloud_files.columns.headers import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A file column whose name differs from a known column only in case.

    Args:
        place: its name in the query.
        name: its name in the files.
        known: the column of the stream.
        type: its type in the files.
    """

    place: str
    name: str
    known: str
    type: DataType


def header_columns(header: Header, known: StructType, *, any_case: bool) -> tuple[StructType, list[Variant]]:
    """Return CSV columns by position, with the types of the stream; a column that the stream lacks is a string.

    A name that differs from a column only by surrounding spaces matches it, unless the file also has the exact name.

    Args:
        header: the header of the files.
        known: the columns of the stream.
        any_case: whether names match in any case.
    """
    columns = {each.name: each for each in known.fields}
    often = Counter(header.written)
    claimed: dict[int, str] = {}

    def claim(place: int, name: str | None) -> None:
        if name in columns and name not in claimed.values() and place not in claimed:
            claimed[place] = name

    numbered = list(enumerate(zip(header.names, header.written, strict=True)))
    for place, (name, _) in numbered:
        claim(place, name)
    for place, (_, written) in numbered:
        claim(place, written if often[written] == 1 else None)
    lower = {name.lower(): name for name in columns}
    if any_case:
        for place, (name, _) in numbered:
            claim(place, lower.get(name.lower()))
        for place, (_, written) in numbered:
            claim(place, lower.get((written or "").lower()) if often[written] == 1 else None)
    for place, (_, written) in numbered:
        claim(place, (written or "").strip())
    return _in_places(header, columns, claimed)


def _in_places(
    header: Header, columns: dict[str, StructField], claimed: dict[int, str]
) -> tuple[StructType, list[Variant]]:
    lower = {name.lower(): name for name in columns}
    names, others = [], {}
    for place, (name, written) in enumerate(zip(header.names, header.written, strict=True)):
        if place in claimed:
            names.append(claimed[place])
            continue
        spelled = written if written is not None and written.lower() in lower else name
        if spelled.lower() in lower:
            others[place] = spelled
        names.append(f"{spelled}\u0001{place}" if spelled.lower() in lower else name)
    distinct = distinct_names(names)
    fields = [
        columns[name] if place in claimed else StructField(name, StringType()) for place, name in enumerate(distinct)
    ]
    variants = [
        Variant(place=distinct[place], name=name, known=lower[name.lower()], type=StringType())
        for place, name in others.items()
    ]
    return StructType(fields), variants
