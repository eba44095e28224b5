"""`CREATE STREAMING TABLE` and `CREATE [MATERIALIZED | TEMPORARY] VIEW`, as calls of the Python interface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from framework.declare.registry import add_note
from framework.declare.specs import ViolationAction
from framework.declare.sql.clauses import Reader, read_clauses
from framework.declare.sql.cursor import Cursor, Keywords
from framework.declare.sql.flows import auto_cdc_calls, refuse_replacement
from framework.declare.sql.informational_keys import is_key
from framework.declare.sql.statements import Argument, SqlCall, SqlExpectation, SqlQuery, SqlScope
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_CLAUSES = (
    ("USING",),
    ("PARTITIONED", "BY"),
    ("CLUSTER", "BY"),
    ("LOCATION",),
    ("COMMENT",),
    ("TBLPROPERTIES",),
    ("REFRESH", "POLICY"),
    ("WITH",),
    ("FLOW",),
    ("AS",),
)
_QUERIES = ("SELECT", "FROM", "WITH", "VALUES")
_GROUPS = {
    ViolationAction.WARN: "expect_all",
    ViolationAction.DROP: "expect_all_or_drop",
    ViolationAction.FAIL: "expect_all_or_fail",
}
_KINDS = (
    (("MATERIALIZED", "VIEW"), "materialized_view"),
    (("STREAMING", "TABLE"), "create_streaming_table"),
    (("STREAMING", "LIVE", "TABLE"), "create_streaming_table"),
    (("INCREMENTAL", "LIVE", "TABLE"), "create_streaming_table"),
    (("LIVE", "TABLE"), "materialized_view"),
    (("LIVE", "VIEW"), "temporary_view"),
    (("STREAMING", "LIVE", "VIEW"), "temporary_view"),
    (("INCREMENTAL", "LIVE", "VIEW"), "temporary_view"),
)
_ELSEWHERE = {
    "TABLE": "Write CREATE STREAMING TABLE or CREATE MATERIALIZED VIEW.",
    "FUNCTION": "Write the function in a Python module, and register it with `spark.udf.register`.",
}
_NOT_HERE: dict[Keywords, str] = {
    ("SCHEDULE",): "Delete the clause, and schedule `sluice run`.",
    ("TRIGGER",): "Delete the clause, and schedule `sluice run`.",
    ("DEFAULT", "COLLATION"): "Delete the clause.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns and constraints in the parentheses after a name."""

    schema: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    labels: list[tuple[str, str | None]] = field(default_factory=list)
    expectations: list[SqlExpectation] = field(default_factory=list)


def dataset_calls(cursor: Cursor, scope: SqlScope) -> Iterator[SqlCall]:
    """Yield the calls for a statement, from after its CREATE.

    Args:
        cursor: the tokens after CREATE.
        scope: the settings of earlier statements.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR, DUPLICATE_EXPECTATION.
    """
    line, location = cursor.line, cursor.location
    if not cursor.accept("OR", "REFRESH"):
        cursor.accept("OR", "REPLACE")  # a declaration has the same effect for a new and a stored dataset
    if cursor.accept("VIEW"):
        yield _view(cursor, line, location, scope)
        return
    function, is_private = _kind(cursor)
    cursor.accept("IF", "NOT", "EXISTS")
    if cursor.is_at("AS"):  # otherwise AS would be the name, because a query needs no AS
        cursor.fail("a name")
    parts = cursor.parts()  # a temporary view has no catalog or schema
    full_name = ".".join(parts if function == "temporary_view" else scope.namespace.full(parts))
    arguments: dict[str, Argument] = {"name": full_name}
    columns = _columns(cursor.inside()) if cursor.is_at_symbol("(") else _Columns()
    if function == "temporary_view" and columns.schema:
        cursor.fail("columns without types in a view")
    if is_private:
        arguments["private"] = True
    if function != "temporary_view" and (columns.schema or columns.keys):
        arguments["schema"] = ", ".join(columns.schema + columns.keys)
    readers = _READERS_OF_VIEWS if function == "temporary_view" else _READERS
    expected = "a clause of the dataset, or AS and a query"
    arguments.update(read_clauses(cursor, readers, refused=_NOT_HERE, expected=expected, is_over=_is_over))
    if function == "create_streaming_table":
        yield from _streaming_table(cursor, line, arguments, columns, scope)
        return
    arguments.update(scope.spark_conf())
    if not _is_at_query(cursor):
        cursor.expect("AS")
    query = _query(cursor, columns, scope)
    if function == "temporary_view":
        arguments.pop("table_properties", None)  # a view has no table
    yield SqlCall(
        function=function,
        line=line,
        arguments=tuple(arguments.items()),
        expectations=tuple(columns.expectations),
        query=query,
    )


def _view(cursor: Cursor, line: int, location: SourceLocation, scope: SqlScope) -> SqlCall:
    """Read CREATE VIEW; the view's rows are stored for readers outside, because no catalog has its query."""
    cursor.accept("IF", "NOT", "EXISTS")
    if cursor.is_at("AS"):
        cursor.fail("a name")
    name = ".".join(scope.namespace.full(cursor.parts()))
    columns = _columns(cursor.inside()) if cursor.is_at_symbol("(") else _Columns()
    if columns.schema:
        cursor.fail("columns without types in a view")
    expected = "a clause of the view, or AS and a query"
    clauses = read_clauses(cursor, _READERS_OF_VIEWS, refused=_NOT_HERE, expected=expected, is_over=_is_over)
    clauses.pop("table_properties", None)  # a view has no table
    cursor.expect("AS")
    add_note(UserError("VIEW_STORED_AS_TABLE", location=location, view=name))
    arguments: dict[str, Argument] = {"name": name, **clauses, **scope.spark_conf()}
    return SqlCall(
        function="materialized_view",
        line=line,
        arguments=tuple(arguments.items()),
        expectations=tuple(columns.expectations),
        query=_query(cursor, columns, scope),
    )


def _kind(cursor: Cursor) -> tuple[str, bool]:
    """Read the kind of a dataset; return the function that declares it, and whether it is private."""
    is_private = cursor.accept("PRIVATE")
    is_temporary = not is_private and (cursor.accept("TEMPORARY") or cursor.accept("TEMP"))
    if is_temporary and cursor.accept("VIEW"):
        return "temporary_view", False
    kind = next((kind for kind in _KINDS if cursor.accept(*kind[0])), None)
    if kind is not None:
        return kind[1], (is_private or is_temporary) and kind[1] != "temporary_view"
    for word, advice in _ELSEWHERE.items():
        if cursor.is_at(word):
            cursor.refuse(f"CREATE {word}", advice)
    return cursor.fail("STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW or FLOW")


def _streaming_table(
    cursor: Cursor, line: int, arguments: dict[str, Argument], columns: _Columns, scope: SqlScope
) -> Iterator[SqlCall]:
    """Yield the calls for a streaming table and its flow, if the statement has one."""
    for action, group in _GROUPS.items():
        chosen = {each.name: each.condition for each in columns.expectations if each.action is action}
        if chosen:
            arguments[group] = chosen
    name = arguments["name"]
    assert isinstance(name, str)
    yield SqlCall(function="create_streaming_table", line=line, arguments=tuple(arguments.items()))
    if cursor.at_end():
        if columns.labels:
            cursor.fail("AS, because the columns have no types")
        return
    flow: dict[str, Argument] = {"target": name, "name": name, **scope.spark_conf()}
    flow_line = cursor.line
    if cursor.accept("FLOW"):
        if columns.labels:
            cursor.fail("AS, because the columns have no types")
        if cursor.accept("AUTO", "CDC"):
            yield from auto_cdc_calls(cursor, flow_line, flow, scope)
            return
        refuse_replacement(cursor)
        cursor.expect("INSERT")
        if cursor.accept("ONCE"):
            flow["once"] = True
        cursor.expect("BY", "NAME")
    else:
        cursor.accept("AS")
    yield SqlCall(
        function="append_flow", line=flow_line, arguments=tuple(flow.items()), query=_query(cursor, columns, scope)
    )


def _is_at_query(cursor: Cursor) -> bool:
    """Whether a query follows without AS, which may be left out as in Spark's CREATE TABLE."""
    return any(cursor.is_at(word) for word in _QUERIES) and not cursor.is_at("WITH", "ROW", "FILTER")


def _query(cursor: Cursor, columns: _Columns, scope: SqlScope) -> SqlQuery:
    line = cursor.line
    return SqlQuery(text=cursor.until(), line=line, labels=tuple(columns.labels), namespace=scope.namespace)


def _columns(cursor: Cursor) -> _Columns:
    """Read the columns and constraints of a dataset."""
    found = _Columns()
    for item in cursor.items():
        if is_key(item):
            found.keys.append(item.until())
        elif item.is_at("CONSTRAINT"):
            _read_constraint(item, found)
        else:
            _read_column(item, found)
    if found.schema and found.labels:
        cursor.fail("either a type for each column, or for none")
    return found


def _read_constraint(item: Cursor, found: _Columns) -> None:
    line, location = item.line, item.location
    item.accept("CONSTRAINT")
    name = item.identifier()
    if not item.accept("EXPECT"):
        item.refuse(
            f"CONSTRAINT without EXPECT ({name})", "Delete it: it is not checked. CONSTRAINT … EXPECT checks each row."
        )
    condition = item.until([("ON", "VIOLATION")])
    action = ViolationAction.WARN
    if item.accept("ON", "VIOLATION"):
        action = ViolationAction.FAIL if item.accept("FAIL", "UPDATE") else ViolationAction.DROP
        if action is ViolationAction.DROP:
            item.expect("DROP", "ROW")
    item.finish()
    other = next((each for each in found.expectations if each.name == name), None)
    if other is not None:
        raise UserError("DUPLICATE_EXPECTATION", location=location, name=name, other=f"line {other.line}")
    found.expectations.append(SqlExpectation(name=name, condition=condition, action=action, line=line))


def _read_column(item: Cursor, found: _Columns) -> None:
    """Read a column: its name with a type, as text, or its name with only a comment."""
    rest = item.copy()
    name = rest.identifier()
    if rest.at_end() or rest.is_at("COMMENT"):
        found.labels.append((name, rest.string() if rest.accept("COMMENT") else None))
        rest.finish()
    else:
        found.schema.append(item.until())


def _is_over(cursor: Cursor) -> bool:
    """Whether the flow or the query of a dataset follows, or the end."""
    return cursor.at_end() or cursor.is_at("AS") or cursor.is_at("FLOW") or _is_at_query(cursor)


def _partitions(cursor: Cursor) -> dict[str, Argument]:
    return {"partition_cols": _names(cursor.inside())}


def _clusters(cursor: Cursor) -> dict[str, Argument]:
    if cursor.accept("AUTO"):
        return {"cluster_by_auto": True}
    return {"cluster_by": [] if cursor.accept("NONE") else _names(cursor.inside())}


def _properties(cursor: Cursor) -> dict[str, Argument]:
    found: dict[str, str] = {}
    for item in cursor.inside().items():
        key = item.string() if item.is_at_string() else item.name().replace("`", "")
        item.accept_symbol("=")
        found[key] = item.string() if item.is_at_string() else item.until()
        item.finish()
    return {"table_properties": found}


def _policy(cursor: Cursor) -> dict[str, Argument]:
    if cursor.accept("INCREMENTAL", "STRICT"):
        return {"refresh_policy": "incremental_strict"}
    return {"refresh_policy": cursor.identifier()}


_READERS: dict[Keywords, Reader] = {
    ("USING",): lambda cursor: {"format": cursor.identifier()},
    ("PARTITIONED", "BY"): _partitions,
    ("CLUSTER", "BY"): _clusters,
    ("LOCATION",): lambda cursor: {"path": cursor.string()},
    ("COMMENT",): lambda cursor: {"comment": cursor.string()},
    ("TBLPROPERTIES",): _properties,
    ("REFRESH", "POLICY"): _policy,
    ("WITH",): lambda cursor: {"row_filter": cursor.until(_CLAUSES)},
}
_READERS_OF_VIEWS: dict[Keywords, Reader] = {words: _READERS[words] for words in (("COMMENT",), ("TBLPROPERTIES",))}


def _names(cursor: Cursor) -> list[str]:
    """Read column names separated by commas, without backticks; `a.b` is a field of a struct."""
    found = []
    for item in cursor.items():
        parts = [item.identifier()]
        while item.accept_symbol("."):
            parts.append(item.identifier())
        found.append(".".join(parts))
        item.finish()
    return found
