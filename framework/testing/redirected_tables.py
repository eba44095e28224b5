"""The tables by name of one test: databases of Spark's session catalog that stand for catalogs and schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.declare.sql_tokens import Token, TokenKind, string_value, tokens
from framework.engine.plans.named_tables import named_tables
from framework.engine.sessions.session import has_temporary_view, run_statement
from framework.foundation.names import QualifiedName, split_parts, string_literal
from framework.record.events import EVENT_READ_OPTIONS, EVENT_SCHEMA
from framework.run.tables.table_record import TableRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OutputOf = Callable[[QualifiedName], TableRecord | None]
"""Returns the record of a table that the pipeline has written; None if it has not."""

Parts = tuple[str, ...]

_NOT_REDIRECTED = frozenset({"global_temp", "session", "system"})
_FILES = ("/", ":")  # in the last part of files as a table, such as parquet.`/folder`
_MOST_PARTS = 3


class RedirectedTables:
    """The databases of one test, by the catalogs and schemas that they stand for.

    Args:
        spark: the session of the test; its current database becomes that of the default catalog and schema.
        folder: the folder of the test's tables.
        catalog: the catalog of names without one.
        schema: the schema of names without one.
        output_of: finds the tables of the pipeline, which appear under their names, too.
    """

    def __init__(self, spark: SparkSession, folder: Path, *, catalog: str, schema: str, output_of: OutputOf) -> None:
        self._spark, self._folder, self._output_of = spark, folder, output_of
        self._default = (catalog.lower(), schema.lower())
        self._prefix = f"redirecting_{uuid4().hex[:8]}"
        self._databases: dict[Parts, str] = {}
        self._outputs: dict[QualifiedName, str] = {}
        run_statement(spark, f"USE spark_catalog.`{self.database(())}`")

    def database(self, parts: Parts) -> str:
        """Return the database that stands for a schema, given as `()`, `(schema,)` or `(catalog, schema)`."""
        full = (*self._default, *(part.lower() for part in parts))[-2:] if len(parts) < 2 else parts
        key = (self._default[0], full[-1]) if len(parts) == 1 else tuple(part.lower() for part in full)
        if key not in self._databases:
            name = "__".join([self._prefix, *("".join(c if c.isalnum() else "_" for c in part) for part in key)])
            name = name if name not in self._databases.values() else f"{name}_{len(self._databases)}"
            self._databases[key] = name
            run_statement(self._spark, f"CREATE DATABASE `{name}` LOCATION {string_literal(str(self._folder / name))}")
        return self._databases[key]

    def table(self, parts: Parts) -> str | None:
        """Return the name of a table in its database, in backticks; None if the name is not redirected."""
        if len(parts) > _MOST_PARTS or not parts or parts[0].lower() in _NOT_REDIRECTED:
            return None
        if len(parts) == 2 and any(mark in parts[1] for mark in _FILES):
            return None
        if len(parts) == 1 and has_temporary_view(self._spark, parts[0]):
            return None
        database = self.database(parts[:-1])
        padded = (*self._default[: _MOST_PARTS - len(parts)], *(part.lower() for part in parts))
        full = QualifiedName(catalog=padded[0], schema=padded[1], table=padded[2])
        quoted = f"`{database}`.`{full.table}`"
        record = self._output_of(full)
        if record is not None and self._outputs.get(full) != record.schema:
            self._add_output(record, quoted)
            self._outputs[full] = record.schema
        return quoted

    def _add_output(self, record: TableRecord, quoted: str) -> None:
        """Add a table of the pipeline to the catalog; a view if it has a column that users do not see."""
        columns = [field["name"] for field in json.loads(record.schema)["fields"]]
        if HIDDEN_COLUMN not in columns:
            path = string_literal(record.path)
            run_statement(self._spark, f"CREATE TABLE IF NOT EXISTS {quoted} USING delta LOCATION {path}")
            return
        shown = ", ".join(quoted_name(column) for column in columns if column != HIDDEN_COLUMN)
        rows = f"SELECT {shown} FROM delta.{quoted_name(record.path)}"
        run_statement(self._spark, f"CREATE OR REPLACE VIEW {quoted} AS {rows}")

    def named(self, name: str) -> str:
        """Return the name to use for a table's name in a call."""
        return self.table(tuple(split_parts(name))) or name

    def statement(self, text: str) -> str:
        """Return an SQL statement with the names of the tables here; exceptions of Spark's parser are not caught."""
        named, schemas = named_tables(self._spark, text)
        tables = {tuple(part.lower() for part in parts) for parts in named}
        for parts in tables:
            if len(parts) == 1:
                self.table(parts)  # resolved by the current database
        return _replaced(text, self._spans(text, tables, {tuple(p.lower() for p in each) for each in schemas}))

    def created(self) -> Iterator[tuple[QualifiedName, str]]:
        """Yield the name and the folder of each Delta table that the test has created."""
        for (catalog, schema), database in self._databases.items():
            for folder in sorted((self._folder / database).glob("*/_delta_log")):
                name = QualifiedName(catalog=catalog, schema=schema, table=folder.parent.name.lower())
                yield name, str(folder.parent)

    def events(self, folder: str) -> str:
        """Return the full name of a table with the events in a folder, as they are now."""
        catalog, schema = self._default
        table = f"event_log_{self._prefix}"
        quoted = f"`{self.database(())}`.`{table}`"
        options = ", ".join(f"{key} {string_literal(value)}" for key, value in EVENT_READ_OPTIONS.items())
        run_statement(
            self._spark,
            f"CREATE TABLE IF NOT EXISTS {quoted} ({EVENT_SCHEMA}) USING json OPTIONS ({options}) "
            f"LOCATION {string_literal(folder)}",
        )
        run_statement(self._spark, f"REFRESH TABLE {quoted}")  # Spark remembers the files of a table
        return f"{catalog}.{schema}.{table}"

    def drop(self) -> None:
        """Remove the databases from the catalog; the files of the pipeline's tables remain."""
        run_statement(self._spark, "USE spark_catalog.default")
        for database in self._databases.values():
            run_statement(self._spark, f"DROP DATABASE IF EXISTS `{database}` CASCADE")

    def _spans(self, text: str, tables: set[Parts], schemas: set[Parts]) -> Iterator[tuple[int, int, str]]:
        found = list(tokens(text))
        # A column may be qualified by the last parts of its table's name.
        suffixes = {parts[-2:] for parts in tables if len(parts) == _MOST_PARTS}
        for sequence in _dotted(found):
            parts = tuple(_part(token) for token in sequence)
            if parts in schemas:
                yield sequence[0].start, sequence[-1].end, f"`{self.database(parts)}`"
                continue
            for size in range(min(len(parts), _MOST_PARTS), 1, -1):
                is_table = parts[:size] in tables or (size == 2 < len(parts) and parts[:2] in suffixes)
                target = self.table(parts[:size]) if is_table else None
                if target is not None:
                    yield sequence[0].start, sequence[size - 1].end, target
                    break
        for before, opening, token in zip(found, found[1:], found[2:], strict=False):
            if before.is_word("IDENTIFIER") and opening.is_symbol("(") and token.kind is TokenKind.STRING:
                yield token.start, token.end, string_literal(self.named(string_value(token)))


def quoted_name(name: str) -> str:
    """Return a name in backticks."""
    return f"`{name.replace('`', '``')}`"


def _dotted(found: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the identifiers of a statement, as the tokens of their parts."""
    sequence: list[Token] = []
    after_dot = False
    for token in found:
        is_name = token.kind in {TokenKind.WORD, TokenKind.QUOTED}
        if is_name and (after_dot and sequence):
            sequence.append(token)
        elif is_name:
            if sequence:
                yield sequence
            sequence = [token]
        elif not (token.is_symbol(".") and sequence and not after_dot):
            if sequence:
                yield sequence
            sequence = []
        after_dot = token.is_symbol(".")
    if sequence:
        yield sequence


def _part(token: Token) -> str:
    text = token.text[1:-1].replace("``", "`") if token.kind is TokenKind.QUOTED else token.text
    return text.lower()


def _replaced(text: str, spans: Iterator[tuple[int, int, str]]) -> str:
    parts, place = [], 0
    for start, end, replacement in sorted(spans):
        parts += [text[place:start], replacement]
        place = end
    return "".join([*parts, text[place:]])
