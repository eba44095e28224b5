"""SQL statements that a deploy uses, run on in-memory tables and event logs.

A query is `SELECT columns FROM table [WHERE] [QUALIFY] [ORDER BY column [DESC]] [LIMIT n]`, where the table is a
three-part name or `event_log(`id`)`. `window_queries` has the grammar of columns and windows. The other statements are
`CREATE TABLE IF NOT EXISTS` and `INSERT INTO` with named parameters. Any other text fails with a syntax error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from framework.testing.workspace.exchange import Request, ServiceFault, missing
from framework.testing.workspace.window_queries import holds, newest_rows, select_columns, value_of

_SELECT = re.compile(
    r"^SELECT (?P<columns>.+?) FROM (?P<table>\S+)(?: WHERE (?P<where>.+?))?(?: QUALIFY (?P<qualify>.+?))?"
    r"(?: ORDER BY (?P<order>\w+)(?P<desc> DESC)?)?(?: LIMIT (?P<limit>\d+))?$",
    re.IGNORECASE,
)
_INSERT = re.compile(r"^INSERT INTO (?P<table>\S+) \((?P<columns>[^)]+)\) VALUES \((?P<values>[^)]+)\)$", re.IGNORECASE)
_CREATE = re.compile(r"^CREATE TABLE IF NOT EXISTS (?P<table>\S+) \((?P<columns>.+)\)", re.IGNORECASE)
_EVENT_LOG = re.compile(r"^event_log\(`?(?P<id>[^`)]+)`?\)$", re.IGNORECASE)
_ROWS_PER_CHUNK = 1000
_MOST_INLINE_BYTES = 25 * 1024 * 1024

EventRows = Callable[[str], list[dict[str, Any]] | None]


class Statements:
    """The SQL of one warehouse.

    Args:
        event_rows: returns the rows of a pipeline's event log, by the pipeline's id or its published table; None if
            there is no such log.
    """

    def __init__(self, warehouse_id: str, event_rows: EventRows, new_id: Callable[[str], str]) -> None:
        self.warehouse_id = warehouse_id
        self._event_rows = event_rows
        self._new_id = new_id
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.rows_sent = 0
        self._results: dict[str, list[list[str | None]]] = {}

    def execute(self, request: Request) -> dict[str, Any]:
        """Run a statement and return the first chunk of its rows."""
        if request.body.get("warehouse_id") != self.warehouse_id:
            raise missing("Warehouse", request.body.get("warehouse_id"))
        statement_id = self._new_id("statement")
        statement = " ".join(str(request.body["statement"]).split())
        values = {each["name"]: each.get("value") for each in request.body.get("parameters", [])}
        try:
            columns, rows = self._run(statement, values)
            _check_size(rows)
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
        """Return a later chunk of a statement's rows."""
        if request.parameters["statement_id"] not in self._results:
            raise missing("Statement", request.parameters["statement_id"])
        return self._chunk(request.parameters["statement_id"], int(request.parameters["index"]))

    def _chunk(self, statement_id: str, index: int) -> dict[str, Any]:
        rows, first = self._results[statement_id], index * _ROWS_PER_CHUNK
        chunk: dict[str, Any] = {"chunk_index": index, "data_array": rows[first : first + _ROWS_PER_CHUNK]}
        self.rows_sent += len(chunk["data_array"])
        return chunk | ({"next_chunk_index": index + 1} if first + _ROWS_PER_CHUNK < len(rows) else {})

    def _run(self, statement: str, values: dict[str, str | None]) -> tuple[list[str], list[list[str | None]]]:
        if match := _CREATE.match(statement):
            self.tables.setdefault(_name(match["table"]), [])
            return [], []
        if match := _INSERT.match(statement):
            names = [name.strip() for name in match["columns"].split(",")]
            given = [value_of(text.strip(), values) for text in match["values"].split(",")]
            self._table(match["table"]).append(dict(zip(names, given, strict=True)))
            return [], []
        match = _SELECT.match(statement)
        if match is None:
            raise SyntaxError(f"[PARSE_SYNTAX_ERROR] {statement}")
        rows = [row for row in self._rows(match["table"]) if holds(row, match["where"], values)]
        if match["qualify"]:
            columns, selected = select_columns(rows, match["columns"])
            kept = newest_rows(rows, match["qualify"], values)
            return columns, [selected[number] for number in kept]
        if match["order"]:
            rows.sort(key=lambda row: str(row.get(match["order"])), reverse=bool(match["desc"]))
        rows = rows[: int(match["limit"])] if match["limit"] else rows
        return select_columns(rows, match["columns"])

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
    """Return a 403, as for a principal without permissions."""
    return ServiceFault(403, "PERMISSION_DENIED", "The user does not have the permission that this needs.")


def _name(table: str) -> str:
    return table.replace("`", "").lower()


def _check_size(rows: list[list[str | None]]) -> None:
    """Abort a statement whose result is too large for an inline response, as the service does."""
    size = sum(len(text or "") for row in rows for text in row)
    if size > _MOST_INLINE_BYTES:
        raise SyntaxError(f"The result of {size} bytes is larger than 25 MiB, so that the execution was aborted.")
