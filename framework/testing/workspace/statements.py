"""SQL statements: the few forms that a deploy needs, done on tables of rows and on event logs.

A query is `SELECT columns FROM table WHERE column = :parameter AND … ORDER BY column [DESC] LIMIT n`,
where the table is a name of three parts or `event_log(`id`)`, and a condition may be `IN (…)`.
`INSERT INTO` takes named parameters. What is not of these forms fails, as wrong SQL would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from framework.testing.workspace.exchange import Request, ServiceFault, missing

_SELECT = re.compile(
    r"^SELECT (?P<columns>.+?) FROM (?P<table>\S+)(?: WHERE (?P<where>.+?))?"
    r"(?: ORDER BY (?P<order>\w+)(?P<desc> DESC)?)?(?: LIMIT (?P<limit>\d+))?$",
    re.IGNORECASE,
)
_INSERT = re.compile(r"^INSERT INTO (?P<table>\S+) \((?P<columns>[^)]+)\) VALUES \((?P<values>[^)]+)\)$", re.IGNORECASE)
_CREATE = re.compile(r"^CREATE TABLE IF NOT EXISTS (?P<table>\S+) \((?P<columns>.+)\)", re.IGNORECASE)
_EVENT_LOG = re.compile(r"^event_log\(`?(?P<id>[^`)]+)`?\)$", re.IGNORECASE)
_ROWS_PER_CHUNK = 1000

EventRows = Callable[[str], list[dict[str, Any]] | None]


class Statements:
    """The SQL of one warehouse.

    Args:
        event_rows: the rows of a pipeline's event log, by the pipeline's id or its published table; None when there
            is no such log.
    """

    def __init__(self, warehouse_id: str, event_rows: EventRows, new_id: Callable[[str], str]) -> None:
        self.warehouse_id = warehouse_id
        self._event_rows = event_rows
        self._new_id = new_id
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self._results: dict[str, list[list[str | None]]] = {}

    def execute(self, request: Request) -> dict[str, Any]:
        """Run a statement and answer with the first chunk of its rows."""
        if request.body.get("warehouse_id") != self.warehouse_id:
            raise missing("Warehouse", request.body.get("warehouse_id"))
        statement_id = self._new_id("statement")
        statement = " ".join(str(request.body["statement"]).split())
        values = {each["name"]: each.get("value") for each in request.body.get("parameters", [])}
        try:
            columns, rows = self._run(statement, values)
        except SyntaxError as error:
            status = {"state": "FAILED", "error": {"error_code": "BAD_REQUEST", "message": str(error)}}
            return {"statement_id": statement_id, "status": status}
        self._results[statement_id] = rows
        return {
            "statement_id": statement_id,
            "status": {"state": "SUCCEEDED"},
            "manifest": {"schema": {"columns": [{"name": name} for name in columns]}, "total_row_count": len(rows)},
            "result": self._chunk(statement_id, 0),
        }

    def chunk(self, request: Request) -> dict[str, Any]:
        """A later chunk of a statement's rows."""
        if request.parameters["statement_id"] not in self._results:
            raise missing("Statement", request.parameters["statement_id"])
        return self._chunk(request.parameters["statement_id"], int(request.parameters["index"]))

    def _chunk(self, statement_id: str, index: int) -> dict[str, Any]:
        rows, first = self._results[statement_id], index * _ROWS_PER_CHUNK
        chunk: dict[str, Any] = {"chunk_index": index, "data_array": rows[first : first + _ROWS_PER_CHUNK]}
        return chunk | ({"next_chunk_index": index + 1} if first + _ROWS_PER_CHUNK < len(rows) else {})

    def _run(self, statement: str, values: dict[str, str | None]) -> tuple[list[str], list[list[str | None]]]:
        if match := _CREATE.match(statement):
            self.tables.setdefault(_name(match["table"]), [])
            return [], []
        if match := _INSERT.match(statement):
            names = [name.strip() for name in match["columns"].split(",")]
            given = [_value(text.strip(), values) for text in match["values"].split(",")]
            self._table(match["table"]).append(dict(zip(names, given, strict=True)))
            return [], []
        match = _SELECT.match(statement)
        if match is None:
            raise SyntaxError(f"[PARSE_SYNTAX_ERROR] {statement}")
        rows = [row for row in self._rows(match["table"]) if _holds(row, match["where"], values)]
        if match["order"]:
            rows.sort(key=lambda row: str(row.get(match["order"])), reverse=bool(match["desc"]))
        columns = [name.strip() for name in match["columns"].split(",")]
        rows = rows[: int(match["limit"])] if match["limit"] else rows
        return columns, [[_text(_field(row, name)) for name in columns] for row in rows]

    def _rows(self, table: str) -> list[dict[str, Any]]:
        log = _EVENT_LOG.match(table)
        rows = self._event_rows(log["id"] if log else _name(table))
        return list(rows) if rows is not None else list(self._table(table))

    def _table(self, table: str) -> list[dict[str, Any]]:
        rows = self.tables.get(_name(table))
        if rows is None:
            raise SyntaxError(f"[TABLE_OR_VIEW_NOT_FOUND] {table}")
        return rows


def permission_denied() -> ServiceFault:
    """403, as a principal without rights gets it."""
    return ServiceFault(403, "PERMISSION_DENIED", "The user does not have the permission that this needs.")


def _name(table: str) -> str:
    return table.replace("`", "").lower()


def _field(row: dict[str, Any], name: str) -> Any:
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _holds(row: dict[str, Any], where: str | None, values: dict[str, str | None]) -> bool:
    for condition in re.split(r" AND ", where or "", flags=re.IGNORECASE) if where else []:
        column, _, rest = condition.partition(" ")
        operator, _, operand = rest.partition(" ")
        texts = operand.strip("()").split(",")
        wanted = [_value(text.strip(), values) for text in texts]
        found = _text(_field(row, column))
        if operator.upper() not in ("=", "IN"):
            raise SyntaxError(f"[PARSE_SYNTAX_ERROR] {condition}")
        if found not in wanted:
            return False
    return True


def _value(text: str, values: dict[str, str | None]) -> str | None:
    if text.startswith(":"):
        if text[1:] not in values:
            raise SyntaxError(f"[UNBOUND_SQL_PARAMETER] {text}")
        return values[text[1:]]
    return text.strip("'")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
