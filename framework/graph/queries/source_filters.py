"""The conditions that a query applies to the rows of its streams, read from its analysed plan.

Only `column = value`, `column <=> value`, `column IN (values)` and `column IS NULL` count, combined by AND, for the
types of `ColumnType`. Any other expression is ignored: a missed condition may start a flow in vain, but a wrong
condition loses rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from framework.declare.specs import DatasetSpec
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.plans.plans import analysed_plan, children_of, is_streaming, node_name
from framework.foundation.names import QualifiedName
from framework.graph.graph import Read
from framework.sources.delta.source import table_source
from framework.sources.port import ColumnType, ColumnValues, SourceReference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTEGER_BITS: Mapping[str, int] = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_TYPES: Mapping[str, ColumnType] = {
    "string": ColumnType.STRING,
    "date": ColumnType.DATE,
    "boolean": ColumnType.BOOLEAN,
    **dict.fromkeys(_INTEGER_BITS, ColumnType.INTEGER),
}
_EPOCH = date(1970, 1, 1)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
# Nodes that pass a condition above them through to their input, and that keep the identifiers of columns.
_TRANSPARENT = frozenset({"Filter", "Project", "SubqueryAlias", "View"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFilter:
    """The conditions on one stream of a query.

    Args:
        dataset: full name of the pipeline's dataset that is read; None for a stream of an external source.
        only: the conditions; () if there are none.
    """

    dataset: str | None = None
    only: tuple[ColumnValues, ...] = ()


def with_conditions(
    reads: tuple[Read, ...],
    frame: DataFrame,
    sources: tuple[SourceReference, ...],
    specs: Mapping[QualifiedName, DatasetSpec],
) -> tuple[Read, ...]:
    """Return the reads of a query with the conditions that it applies to the streams of partitioned tables.

    A table that the query reads as two streams gets no conditions.

    Args:
        reads: the reads of the query.
        frame: the query.
        sources: its streaming sources that are not stand-ins, in the order of its plan.
        specs: the declared datasets; the partition columns of other tables are known only when their logs are read.
    """
    if not any(read.streaming and _may_be_partitioned(read, specs) for read in reads):
        return reads
    filters = stream_filters(frame)
    others = [each.only for each in filters if each.dataset is None]
    places = [str(source.location) for source in sources] if len(others) == len(sources) else []
    found: dict[str, list[tuple[ColumnValues, ...]]] = {}
    for place, only in (
        *((each.dataset, each.only) for each in filters if each.dataset is not None),
        *zip(places, others, strict=False),
    ):
        found.setdefault(place, []).append(only)
    return tuple(replace(read, only=_only(read, found, specs)) for read in reads)


def source_names(
    frame: DataFrame,
    sources: tuple[SourceReference, ...],
    specs: Mapping[QualifiedName, DatasetSpec],
    count: int | None,
) -> tuple[str, ...]:
    """Return the streaming sources of a query as text, in the order of its plan, including the datasets that it reads.

    Datasets are left out if there is only one source, so that the order does not matter, or if the order is unknown.

    Args:
        frame: the query.
        sources: its streaming sources that are not stand-ins, in the order of its plan.
        specs: the declared datasets.
        count: the number of its streaming sources; None if it is unknown.
    """
    others = tuple(map(str, sources))
    if count is None or count in {1, len(sources)}:
        return others
    places = {str(name): table_source(spec.path) if spec.path else f"{name} (table)" for name, spec in specs.items()}
    datasets = [stream.dataset for stream in _streams(analysed_plan(frame))]
    if datasets.count(None) != len(others) or not places.keys() >= {*filter(None, datasets)}:
        return others
    rest = iter(others)
    return tuple(next(rest) if name is None else str(places[name]) for name in datasets)


def _may_be_partitioned(read: Read, specs: Mapping[QualifiedName, DatasetSpec]) -> bool:
    return bool(specs[read.dataset].partition_columns) if read.dataset is not None else read.path is not None


def _only(
    read: Read, found: Mapping[str, list[tuple[ColumnValues, ...]]], specs: Mapping[QualifiedName, DatasetSpec]
) -> tuple[ColumnValues, ...]:
    streams = found.get(str(read.dataset or read.path), []) if read.streaming else []
    if len(streams) != 1:
        return ()
    if read.dataset is None:
        return streams[0]
    columns = {column.lower() for column in specs[read.dataset].partition_columns}
    return tuple(condition for condition in streams[0] if condition.column.lower() in columns)


def stream_filters(frame: DataFrame) -> tuple[StreamFilter, ...]:
    """Return the conditions on each stream of a query, in the order of its plan; () if its plan can't be read.

    Streams in subqueries are not included.
    """
    plan = analysed_plan(frame)
    try:
        return tuple(_stream_filter(stream) for stream in _streams(plan))
    except (Py4JError, ValueError):  # a node without a JSON description
        return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stream:
    """A stream of a plan.

    Args:
        leaf: its node.
        dataset: see `StreamFilter`.
        conditions: the conditions of the filters above it, the lowest one first.
        is_open: whether conditions further up still apply to it.
    """

    leaf: Any
    dataset: str | None
    conditions: tuple[Any, ...] = ()
    is_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A node of an expression."""

    name: str
    fields: Mapping[str, Any]
    children: tuple[_Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of a stream: its name, and its type as in the JSON of a schema."""

    name: str
    type: str


def _streams(plan: Any, alias: str = "") -> Iterator[_Stream]:
    """Yield the streams of a plan; `alias` is the name that the node above assigns to it."""
    name, children = node_name(plan), children_of(plan)
    if not children:
        if name.startswith("StreamingRelation"):
            yield _Stream(leaf=plan, dataset=None)
        elif name == "LocalRelation" and is_streaming(plan):  # a stand-in, named by its alias
            yield _Stream(leaf=plan, dataset=alias)
        return
    below = _full_name(plan.identifier()) if name == "SubqueryAlias" else ""
    for child in children:
        for stream in _streams(child, below):
            if not stream.is_open:
                yield stream
            elif name == "Filter":
                yield replace(stream, conditions=(*stream.conditions, plan.condition()))
            else:
                yield replace(stream, is_open=name in _TRANSPARENT)


def _stream_filter(stream: _Stream) -> StreamFilter:
    if not stream.conditions:
        return StreamFilter(dataset=stream.dataset)
    columns = _columns(_tree(json.loads(str(stream.leaf.toJSON()))))
    trees = [_tree(json.loads(str(condition.toJSON()))) for condition in stream.conditions]
    found = tuple(each for tree in trees for each in _conditions(tree, columns))
    return StreamFilter(dataset=stream.dataset, only=_merged(found))


def _tree(nodes: list[dict[str, Any]]) -> _Node:
    """Return the root of a list of nodes in preorder: each node precedes its children."""
    rest = iter(nodes)

    def take() -> _Node:
        fields = next(rest)
        children = tuple(take() for _ in range(int(fields["num-children"])))
        return _Node(name=str(fields["class"]).rpartition(".")[2], fields=fields, children=children)

    return take()


def _columns(leaf: _Node) -> dict[str, _Column]:
    """Return the columns of a stream by identifier, except columns that Spark pads or compares in a special way.

    An identifier stands for the same value in the whole plan. Conditions on renamed or computed columns are not found.
    """
    outputs = [_tree(output) for output in leaf.fields["output"]]
    return {
        _identifier(each): _Column(name=str(each.fields["name"]), type=str(each.fields["dataType"]))
        for each in outputs
        if not any(key.startswith("__") for key in each.fields["metadata"] or ())
    }


def _conditions(condition: _Node, columns: Mapping[str, _Column]) -> Iterator[ColumnValues]:
    if condition.name == "And":
        for side in condition.children:
            yield from _conditions(side, columns)
        return
    found = _condition(condition, columns)
    if found is not None:
        yield found


def _condition(node: _Node, columns: Mapping[str, _Column]) -> ColumnValues | None:
    match node.name:
        case "EqualTo" | "EqualNullSafe":
            left, right = node.children
            return _one_of(left, (right,), columns) or _one_of(right, (left,), columns)
        case "In":
            return _one_of(node.children[0], node.children[1:], columns)
        case "IsNull":
            column = _column(node.children[0], columns)
            return ColumnValues(column=column.name, type=_TYPES[column.type], values=(None,)) if column else None
    return None


def _one_of(node: _Node, literals: tuple[_Node, ...], columns: Mapping[str, _Column]) -> ColumnValues | None:
    """Return the condition that a column has one of some literals; None unless it is a column and plain literals."""
    column = _column(node, columns)
    values = [_value(literal, column.type) for literal in literals] if column is not None else []
    known = sorted({value for value in values if value is not None})
    if column is None or not values or None in values:
        return None
    return ColumnValues(column=column.name, type=_TYPES[column.type], values=tuple(known))


def _column(node: _Node, columns: Mapping[str, _Column]) -> _Column | None:
    """Return the column of a stream with a comparable type, which may be cast to a wider integer; None for others."""
    if node.name == "Cast" and node.children[0].name == "AttributeReference":
        inner = _column(node.children[0], columns)
        wide = _INTEGER_BITS.get(str(node.fields["dataType"]), 0)
        return inner if inner is not None and 0 < _INTEGER_BITS.get(inner.type, 65) <= wide else None
    found = columns.get(_identifier(node)) if node.name == "AttributeReference" else None
    return found if found is not None and found.type in _TYPES else None


def _value(node: _Node, wanted: str) -> str | None:
    """Return the text of a literal, which may be cast to the column's type; None for NULL or any other expression."""
    if node.name == "Cast" and node.children[0].name == "Literal":
        target = str(node.fields["dataType"])
        inner = node.children[0]
        return _text(inner, target) if _same_family(target, wanted) else None
    if node.name != "Literal" or not _same_family(str(node.fields["dataType"]), wanted):
        return None
    return _text(node, str(node.fields["dataType"]))


def _same_family(one: str, other: str) -> bool:
    return one in _TYPES and _TYPES[one] is _TYPES.get(other)


def _text(literal: _Node, target: str) -> str | None:
    """Return the text of a literal as a value of a type; None if Spark might convert it differently."""
    text, own = literal.fields["value"], str(literal.fields["dataType"])
    if not isinstance(text, str) or own not in _TYPES:
        return None
    match _TYPES[target]:
        case ColumnType.STRING:  # Delta stores an empty text as NULL
            return text if own == target and text else None
        case ColumnType.BOOLEAN:
            return text if own == target and text in {"true", "false"} else None
        case ColumnType.INTEGER:
            return _integer_text(text, target) if _TYPES[own] in {ColumnType.INTEGER, ColumnType.STRING} else None
        case ColumnType.DATE:
            return _day_text(text, of_date=own == target) if own in {target, "string"} else None


def _integer_text(text: str, target: str) -> str | None:
    if _WHOLE.fullmatch(text) is None:
        return None
    number, limit = int(text), 2 ** (_INTEGER_BITS[target] - 1)
    return str(number) if -limit <= number < limit else None


def _day_text(text: str, *, of_date: bool) -> str | None:
    """Return the ISO text of a date; some versions of Spark write a literal as days since 1970."""
    try:
        if of_date and _WHOLE.fullmatch(text):
            return (_EPOCH + timedelta(days=int(text))).isoformat()
        return date.fromisoformat(text).isoformat() if _DAY.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None


def _identifier(node: _Node) -> str:
    found = node.fields.get("exprId") or {}
    return f"{found.get('id')} {found.get('jvmId')}"


def _full_name(identifier: Any) -> str:
    """Return the qualified name of an alias."""
    qualifier = identifier.qualifier()
    return ".".join([*(str(qualifier.apply(index)) for index in range(qualifier.size())), str(identifier.name())])


def _merged(conditions: tuple[ColumnValues, ...]) -> tuple[ColumnValues, ...]:
    """Return the conditions with one per column: the first if a column has several."""
    found: dict[str, ColumnValues] = {}
    for condition in conditions:
        found.setdefault(condition.column.lower(), condition)
    return tuple(found.values())
