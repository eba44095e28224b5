"""The change from one schema to another: columns that are added, widened, renamed, dropped or retyped.

These terms are defined only here, for schemas as JSON, and used by the planner, the executor, AUTO CDC and the file
readers. Differences in nullability, comments and text length are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from framework.schema.lattice import TABLE

_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""Types whose JSON names differ from Spark SQL's names."""
_COLLATIONS = "__COLLATIONS"
"""The metadata key for the collations of a field's texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """One column or field, before and after.

    Args:
        path: its names, outermost first; the parts of arrays and maps are named `element`, `key` and `value`.
        before: its type before, as Spark writes it; None if the column is new.
        after: its type after; None if the column is dropped.
        was: the path before, if the column is renamed.
    """

    path: tuple[str, ...]
    before: str | None = None
    after: str | None = None
    was: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The path, joined with dots."""
        return ".".join(self.path)

    def __str__(self) -> str:
        """Return the column for texts: with its type, or with the types before and after."""
        if self.was:
            return f"{'.'.join(self.was)} to {self.name}"
        if self.before is None or self.after is None:
            return self.name if self.after is None else f"{self.name} {self.after}"
        return f"{self.name} from {self.before} to {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """The difference of two schemas. Fields of an added or dropped column are not listed separately.

    Args:
        added: columns of the later schema only.
        widened: columns that Delta widens to their later type.
        renamed: columns with a changed name.
        dropped: columns of the earlier schema only.
        retyped: columns whose later type is not a widening.
    """

    added: tuple[ColumnChange, ...] = ()
    widened: tuple[ColumnChange, ...] = ()
    renamed: tuple[ColumnChange, ...] = ()
    dropped: tuple[ColumnChange, ...] = ()
    retyped: tuple[ColumnChange, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return any((self.added, self.widened, self.renamed, self.dropped, self.retyped))

    @property
    def is_additive(self) -> bool:
        """Whether all earlier columns are unchanged."""
        return not (self.widened or self.renamed or self.dropped or self.retyped)

    @property
    def is_widening(self) -> bool:
        """Whether all earlier columns remain, with the same type or a wider one."""
        return not (self.renamed or self.dropped or self.retyped)

    def gained(self, *, widens: bool) -> SchemaChange:
        """Return the additive part of the change: new columns and, if the table widens types, wider types."""
        return SchemaChange(added=self.added, widened=self.widened if widens else ())

    def conflicts(self, *, widens: bool) -> tuple[ColumnChange, ...]:
        """Return the columns whose earlier type can't hold the later type's values, and that are not widened to it.

        VOID, whose only value is NULL, conflicts with no type.
        """
        narrow = () if widens else self.widened
        return (*narrow, *(each for each in self.retyped if not _takes(each.before, each.after)))

    def without(self, *columns: str) -> SchemaChange:
        """Return the change without some columns."""
        parts = {name: tuple(e for e in getattr(self, name) if e.path[0] not in columns) for name in self.__slots__}
        return SchemaChange(**parts)

    def is_part_of(self, other: SchemaChange) -> bool:
        """Whether another change contains every part of this one."""
        return all(set(getattr(self, name)) <= set(getattr(other, name)) for name in self.__slots__)

    def words(self) -> str:
        """Return the change as a clause; empty if there is no change."""
        parts = (
            ("adds", self.added),
            ("widens", self.widened),
            ("renames", self.renamed),
            ("drops", self.dropped),
            ("changes", self.retyped),
        )
        return "; ".join(f"{verb} {', '.join(map(str, columns))}" for verb, columns in parts if columns)


def schema_change(before: Mapping[str, Any], after: Mapping[str, Any], number: str | None = None) -> SchemaChange:
    """Return the change from one schema to another.

    Args:
        before: the earlier schema, as the JSON of a struct.
        after: the later one.
        number: the metadata key that identifies a renamed column; None to match columns by name, case-insensitively.
    """
    found: dict[str, list[ColumnChange]] = {name: [] for name in SchemaChange.__slots__}
    for kind, change in _fields(before["fields"], after["fields"], (), number):
        found[kind].append(change)
    return SchemaChange(**{kind: tuple(changes) for kind, changes in found.items()})


def type_change(before: Any, after: Any) -> SchemaChange:
    """Return the change between two types, given as JSON; paths begin with `value`."""
    first, second = ({"fields": [{"name": "value", "type": each}]} for each in (before, after))
    return schema_change(first, second)


def _takes(before: str | None, after: str | None) -> bool:
    """Whether a column of the earlier type takes the values of the later type."""
    return "void" in (before, after) or TABLE.stands_for(before or "", after or "")


_Changes = Iterator[tuple[str, ColumnChange]]


def _fields(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], path: tuple[str, ...], number: str | None
) -> _Changes:
    """Yield the changes of a struct's fields, in the order of the earlier fields, followed by new fields."""

    def identity(field: Mapping[str, Any]) -> Any:
        name, metadata = field["name"].lower(), field.get("metadata") or {}
        return name if number is None else metadata.get(number, name)

    left = {identity(field): field for field in after}
    for field in before:
        own, other = (*path, field["name"]), left.pop(identity(field), None)
        if other is None:
            yield "dropped", ColumnChange(path=own, before=type_text(_type_of(field)))
            continue
        if number is not None and other["name"] != field["name"]:
            kind = type_text(_type_of(other))
            yield "renamed", ColumnChange(path=(*path, other["name"]), before=kind, after=kind, was=own)
        earlier, later = _type_of(field), _type_of(other)
        if earlier != later:
            yield from _types(earlier, later, own, number)
    for field in left.values():
        yield "added", ColumnChange(path=(*path, field["name"]), after=type_text(_type_of(field)))


def _types(before: Any, after: Any, path: tuple[str, ...], number: str | None) -> _Changes:
    """Yield the changes of one column's type, by comparing the same parts of both types."""
    match before, after:
        case {"type": "struct", "fields": earlier}, {"type": "struct", "fields": later}:
            yield from _fields(earlier, later, path, number)
        case {"type": "array", "elementType": earlier}, {"type": "array", "elementType": later}:
            yield from _types(earlier, later, (*path, "element"), number)
        case {"type": "map"}, {"type": "map"}:
            parts = (("key", "keyType"), ("value", "valueType"))
            yield from chain(*(_types(before[part], after[part], (*path, name), number) for name, part in parts))
        case _:
            earlier, later = type_text(before), type_text(after)
            if _stored(earlier) != _stored(later):
                kind = "widened" if TABLE.wider(earlier, later) == later else "retyped"
                yield kind, ColumnChange(path=path, before=earlier, after=later)


def _type_of(field: Mapping[str, Any]) -> Any:
    """Return the type of a field with the collations of its texts, which are stored in its metadata."""
    collations = (field.get("metadata") or {}).get(_COLLATIONS)
    return _collated(field["type"], collations, field["name"]) if collations else field["type"]


def _collated(kind: Any, collations: Mapping[str, str], path: str) -> Any:
    """Return a type with collations by path; the fields of a nested struct have their own metadata."""
    match kind:
        case {"type": "array" | "map"}:
            parts = {"elementType": "element", "keyType": "key", "valueType": "value"}
            inner = {key: _collated(kind[key], collations, f"{path}.{parts[key]}") for key in kind.keys() & parts}
            return {**kind, **inner}
        case "string" if path in collations:
            return f"string collate {collations[path].partition('.')[2]}"
        case _:
            return kind


def _stored(kind: str) -> str:
    """Return a type as Delta stores it: texts have no length."""
    return "string" if kind.startswith(("char(", "varchar(")) else kind


def type_text(kind: Any) -> str:
    """Return a type of a schema's JSON in the notation of Spark SQL."""
    match kind:
        case {"type": "struct", "fields": fields}:
            named = (f"{field['name']}:{type_text(_type_of(field))}" for field in fields)
            return f"struct<{','.join(named)}>"
        case {"type": "array", "elementType": element}:
            return f"array<{type_text(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{type_text(key)},{type_text(value)}>"
        case {"type": "udt", "sqlType": stored}:
            return type_text(stored)
        case _:
            return _SQL_NAMES.get(str(kind), str(kind))
