"""`CREATE FLOW` and `AUTO CDC INTO`, as calls of the Python interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from framework.declare.sql.clauses import Reader, read_clauses
from framework.declare.sql.cursor import Cursor, Keywords
from framework.declare.sql.statements import Argument, SqlCall, SqlQuery, SqlScope

_CLAUSES = (
    ("KEYS", "("),
    ("WHERE",),
    ("IGNORE", "NULL"),
    ("APPLY", "AS"),
    ("SEQUENCE", "BY"),
    ("SYSTEM", "SEQUENCE"),
    ("COLUMNS",),
    ("STORED", "AS"),
    ("TRACK", "HISTORY"),
    ("SOFT", "DELETES"),
)

_NOT_HERE: dict[Keywords, str] = {("SYSTEM", "SEQUENCE", "BY"): "Delete the clause, and write SEQUENCE BY only."}


def flow_calls(cursor: Cursor, scope: SqlScope) -> Iterator[SqlCall]:
    """Yield the calls for a statement, from after its CREATE FLOW.

    Args:
        cursor: the tokens after CREATE FLOW.
        scope: the settings of earlier statements.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    line = cursor.line
    arguments: dict[str, Argument] = {"name": cursor.name()}
    if cursor.accept("COMMENT"):
        arguments["comment"] = cursor.string()
    cursor.expect("AS")
    arguments.update(scope.spark_conf())
    if cursor.accept("AUTO", "CDC") or cursor.accept("APPLY", "CHANGES"):
        yield from change_calls(cursor, line, arguments, scope)
        return
    cursor.expect("INSERT")
    arguments.update(_into(cursor, scope))
    cursor.accept("BY", "NAME")
    refuse_replacement(cursor)
    query = SqlQuery(line=cursor.line, text=cursor.until(), namespace=scope.namespace)
    yield SqlCall(function="append_flow", line=line, arguments=tuple(arguments.items()), query=query)


def refuse_replacement(cursor: Cursor) -> None:
    """Refuse a flow that replaces rows of its target.

    Raises:
        UserError: PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    for words in (("REPLACE", "WHERE"), ("REPLACE", "USING")):
        if cursor.is_at(*words):
            cursor.refuse(f"a flow with {' '.join(words)}", "Write a materialized view, or an AUTO CDC flow.")


def change_calls(cursor: Cursor, line: int, arguments: Mapping[str, Argument], scope: SqlScope) -> Iterator[SqlCall]:
    """Yield the calls for the rest of AUTO CDC or APPLY CHANGES: `INTO target FROM …`."""
    into = _into(cursor, scope)
    yield from auto_cdc_calls(cursor, line, {"name": into["target"], **arguments, **into}, scope)


def _into(cursor: Cursor, scope: SqlScope) -> dict[str, Argument]:
    """Read `[ONCE] INTO target`, or `INTO ONCE target`."""
    is_once = cursor.accept("ONCE")
    cursor.expect("INTO")
    is_once = cursor.accept("ONCE") or is_once
    target = ".".join(scope.namespace.full(cursor.parts()))
    return {"target": target, **({"once": True} if is_once else {})}


def auto_cdc_calls(cursor: Cursor, line: int, arguments: Mapping[str, Argument], scope: SqlScope) -> Iterator[SqlCall]:
    """Yield the calls for an AUTO CDC flow, from its FROM on.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    cursor.expect("FROM")
    if cursor.is_at("SNAPSHOT") and cursor.is_at_symbol("(", after=1):
        yield from _snapshot_calls(cursor, line, arguments, scope)
        return
    line_of_source = cursor.line
    text = f"SELECT * FROM {cursor.until(_CLAUSES)}"
    query = SqlQuery(line=line_of_source, text=text, namespace=scope.namespace)
    found = {**arguments, **_clauses(cursor, _READERS)}
    _check_given(cursor, found, {"keys": "KEYS (…)", "sequence_by": "SEQUENCE BY"})
    yield SqlCall(function="auto_cdc_flow", line=line, arguments=tuple(found.items()), query=query)


def _snapshot_calls(cursor: Cursor, line: int, arguments: Mapping[str, Argument], scope: SqlScope) -> Iterator[SqlCall]:
    """Yield the calls for a flow that compares snapshots, and for a view with the query of the snapshot."""
    cursor.accept("SNAPSHOT")
    line_of_source = cursor.line
    query = SqlQuery(line=line_of_source, text=cursor.inside().until(), namespace=scope.namespace)
    if cursor.is_at("WITH", "VERSION"):
        advice = "Declare the flow in a Python module, with a function of versions as the source."
        cursor.refuse("AUTO CDC … FROM SNAPSHOT … WITH VERSION", advice)
    found = {**arguments, **_clauses(cursor, _READERS_OF_SNAPSHOTS)}
    _check_given(cursor, found, {"keys": "KEYS (…)"})
    flow = str(found["name"]).rpartition(".")[2]
    source = f"`{flow.strip('`')}_snapshot`"
    of_view: dict[str, Argument] = {name: found.pop(name) for name in ("comment", "spark_conf") if name in found}
    view: dict[str, Argument] = {"name": source, **of_view}
    yield SqlCall(function="temporary_view", line=line, arguments=tuple(view.items()), query=query)
    found["source"] = source
    yield SqlCall(function="create_auto_cdc_from_snapshot_flow", line=line, arguments=tuple(found.items()))


def _clauses(cursor: Cursor, readers: Mapping[Keywords, Reader]) -> dict[str, Argument]:
    """Read the clauses after a source to the end."""
    return read_clauses(cursor, readers, refused=_NOT_HERE, expected="a clause of AUTO CDC")


def _check_given(cursor: Cursor, found: Mapping[str, Argument], needed: Mapping[str, str]) -> None:
    """Fail at the end of a statement that lacks a clause."""
    for name, clause in needed.items():
        if name not in found:
            cursor.fail(clause)


def _selected(cursor: Cursor, argument: str, excepted: str) -> dict[str, Argument]:
    """Read columns: a list, or `* EXCEPT (…)`."""
    if not cursor.accept_symbol("*"):
        return {argument: _texts(cursor.inside() if cursor.is_at_symbol("(") else cursor.part(_CLAUSES))}
    if cursor.accept("EXCEPT"):
        return {excepted: _texts(cursor.inside())}
    return {}


def _texts(cursor: Cursor) -> list[str]:
    return [item.until() for item in cursor.items()]


def _nulls(cursor: Cursor) -> dict[str, Argument]:
    if not cursor.accept("ON"):
        return {"ignore_null_updates": True}
    chosen = _selected(cursor, "ignore_null_updates_column_list", "ignore_null_updates_except_column_list")
    return chosen or {"ignore_null_updates": True}


def _type(cursor: Cursor) -> dict[str, Argument]:
    if cursor.is_at("BITEMPORAL"):
        cursor.refuse("STORED AS BITEMPORAL", "Write SCD TYPE 1 or SCD TYPE 2.")
    cursor.expect("SCD", "TYPE")
    return {"stored_as_scd_type": cursor.identifier()}


_READERS: dict[Keywords, Reader] = {
    ("KEYS",): lambda cursor: {"keys": _texts(cursor.inside())},
    ("WHERE",): lambda cursor: {"where": cursor.until(_CLAUSES)},
    ("IGNORE", "NULL", "UPDATES"): _nulls,
    ("APPLY", "AS", "DELETE", "WHEN"): lambda cursor: {"apply_as_deletes": cursor.until(_CLAUSES)},
    ("APPLY", "AS", "TRUNCATE", "WHEN"): lambda cursor: {"apply_as_truncates": cursor.until(_CLAUSES)},
    ("SEQUENCE", "BY"): lambda cursor: {"sequence_by": cursor.until(_CLAUSES)},
    ("COLUMNS", "TO", "UPDATE"): lambda cursor: {"columns_to_update": cursor.until(_CLAUSES)},
    ("COLUMNS",): lambda cursor: _selected(cursor, "column_list", "except_column_list"),
    ("STORED", "AS"): _type,
    ("SOFT", "DELETES"): lambda cursor: {"soft_deletes": cursor.identifier() if cursor.accept("AS") else True},
    ("TRACK", "HISTORY", "ON"): lambda cursor: _selected(
        cursor, "track_history_column_list", "track_history_except_column_list"
    ),
}
_READERS_OF_SNAPSHOTS: dict[Keywords, Reader] = {
    words: _READERS[words] for words in (("KEYS",), ("STORED", "AS"), ("TRACK", "HISTORY", "ON"), ("SOFT", "DELETES"))
}
