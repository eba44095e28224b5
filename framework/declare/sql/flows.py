"""`CREATE FLOW` and `AUTO CDC INTO`, as calls of Python's interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.declare.sql.cursor import Cursor
from framework.declare.sql.statements import Argument, SqlCall, SqlQuery, SqlScope

_CLAUSES = (
    ("KEYS",), ("WHERE",), ("IGNORE", "NULL"), ("APPLY", "AS"), ("SEQUENCE", "BY"), ("SYSTEM", "SEQUENCE"),
    ("COLUMNS",), ("STORED", "AS"), ("TRACK", "HISTORY"),
)  # fmt: skip


def flow_call(cursor: Cursor, scope: SqlScope) -> SqlCall:
    """Return the call for a statement, after its CREATE FLOW.

    Args:
        cursor: the tokens after CREATE FLOW.
        scope: what earlier statements set.

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
        return change_call(cursor, line, arguments, scope)
    cursor.expect("INSERT")
    is_once = cursor.accept("ONCE")
    cursor.expect("INTO")
    if cursor.accept("ONCE") or is_once:
        arguments["once"] = True
    arguments["target"] = ".".join(scope.namespace.full(cursor.parts()))
    cursor.accept("BY", "NAME")
    refuse_replacement(cursor)
    query = SqlQuery(line=cursor.line, text=cursor.until(), namespace=scope.namespace)
    return SqlCall(function="append_flow", line=line, arguments=tuple(arguments.items()), query=query)


def refuse_replacement(cursor: Cursor) -> None:
    """Refuse a flow that replaces rows of its target.

    Raises:
        UserError: PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    for words in (("REPLACE", "WHERE"), ("REPLACE", "USING")):
        if cursor.is_at(*words):
            cursor.refuse(f"a flow with {' '.join(words)}", "Write a materialized view, or an AUTO CDC flow.")


def change_call(cursor: Cursor, line: int, arguments: Mapping[str, Argument], scope: SqlScope) -> SqlCall:
    """Return the call for what follows on AUTO CDC or APPLY CHANGES: `INTO target FROM …`."""
    is_once = cursor.accept("ONCE")
    cursor.expect("INTO")
    is_once = cursor.accept("ONCE") or is_once
    target = ".".join(scope.namespace.full(cursor.parts()))
    once: dict[str, Argument] = {"once": True} if is_once else {}
    return auto_cdc_call(cursor, line, {"name": target, **arguments, "target": target, **once}, scope)


def auto_cdc_call(cursor: Cursor, line: int, arguments: Mapping[str, Argument], scope: SqlScope) -> SqlCall:
    """Return the call for an AUTO CDC flow, from its FROM on.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    found = dict(arguments)
    cursor.expect("FROM")
    if cursor.is_at("SNAPSHOT") and cursor.is_at_symbol("(", after=1):
        advice = "Declare the flow in a Python module, by `create_auto_cdc_from_snapshot_flow`."
        cursor.refuse("AUTO CDC … FROM SNAPSHOT", advice)
    line_of_source = cursor.line
    text = f"SELECT * FROM {cursor.until(_CLAUSES)}"
    query = SqlQuery(line=line_of_source, text=text, namespace=scope.namespace)
    while not cursor.at_end():
        place = cursor.copy()
        clause = next((words for words in _READERS if cursor.accept(*words)), None)
        if clause is None:
            cursor.fail("a clause of AUTO CDC")
        read = _READERS[clause](cursor)
        if read.keys() & found.keys():
            place.fail("each clause once")
        found.update(read)
    for name, needed in (("keys", "KEYS (…)"), ("sequence_by", "SEQUENCE BY")):
        if name not in found:
            cursor.fail(needed)
    return SqlCall(function="auto_cdc_flow", line=line, arguments=tuple(found.items()), query=query)


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


def _system_sequence(cursor: Cursor) -> dict[str, Argument]:
    cursor.refuse("SYSTEM SEQUENCE BY", "Delete the clause, and write SEQUENCE BY only.")


_READERS: dict[tuple[str, ...], Callable[[Cursor], dict[str, Argument]]] = {
    ("KEYS",): lambda cursor: {"keys": _texts(cursor.inside())},
    ("WHERE",): lambda cursor: {"where": cursor.until(_CLAUSES)},
    ("IGNORE", "NULL", "UPDATES"): _nulls,
    ("APPLY", "AS", "DELETE", "WHEN"): lambda cursor: {"apply_as_deletes": cursor.until(_CLAUSES)},
    ("APPLY", "AS", "TRUNCATE", "WHEN"): lambda cursor: {"apply_as_truncates": cursor.until(_CLAUSES)},
    ("SEQUENCE", "BY"): lambda cursor: {"sequence_by": cursor.until(_CLAUSES)},
    ("SYSTEM", "SEQUENCE", "BY"): _system_sequence,
    ("COLUMNS", "TO", "UPDATE"): lambda cursor: {"columns_to_update": cursor.until(_CLAUSES)},
    ("COLUMNS",): lambda cursor: _selected(cursor, "column_list", "except_column_list"),
    ("STORED", "AS"): _type,
    ("TRACK", "HISTORY", "ON"): lambda cursor: _selected(
        cursor, "track_history_column_list", "track_history_except_column_list"
    ),
}
