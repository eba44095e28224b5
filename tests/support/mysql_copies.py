"""Copies of a schema of MySQL or MariaDB: their pipeline, the ways out that errors print, and both sides' rows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
from click.testing import CliRunner
from pymysql.cursors import DictCursor

from framework import Pipeline
from framework.cli.main import cli
from framework.foundation.errors import SluiceError
from framework.run.update.results import FlowState, UpdateState
from tests.support.copied_tables import copy_rows, pipeline_of
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

SCHEMA = "d"
USER = "copier"
_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[{{"schema": {{"source_schema": "d", "destination_schema": "copies", "exclude": ["tmp_*"]}}}}, *{more!r}],
    options={options!r},
)
"""
_COMMAND = re.compile(r"`(?P<command>sluice [^`]*)`")
_STATEMENT = re.compile(r"`(?P<statement>[A-Z][A-Z]+ [^`]*(?:`[^` ]+`[^`]*)*)`")
_MOST_ATTEMPTS = 12


@dataclass(kw_only=True)
class Copies:
    """The schema `d` of a server, and the pipeline that copies it to the schema `copies` in a folder.

    Args:
        server: the server.
        spark: the session of updates.
        folder: of the pipeline.
        more: other objects of the ingestion.
        options: of the ingestion.
        port: where the pipeline connects, such as a proxy; the server's if 0.
        is_plain: whether the rows of copies are read by `spark.read` alone.
    """

    server: MysqlServer
    spark: SparkSession
    folder: Path
    more: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, str] = field(default_factory=lambda: {"chunkBytes": "16k", "maxChunksPerTrigger": "2"})
    port: int = 0
    is_plain: bool = False
    followed: list[str] = field(default_factory=list)
    """The conditions that were met, and what was done about each."""

    def create(self, *statements: str) -> None:
        """Create the schema with tables, the user of the pipeline, and its connection."""
        self.server.query(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        self.server.query(f"CREATE USER {USER}@'%'")
        self.server.query(f"GRANT SELECT ON {SCHEMA}.* TO {USER}@'%'")
        self.server.query(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {USER}@'%'")
        self.run(*statements)
        self.connect()
        self.pipeline()

    def connect(self, server: MysqlServer | None = None) -> None:
        """Name a server in `connections.yml`: that of the schema if omitted."""
        self.server = server or self.server
        scheme = "mariadb" if self.server.is_mariadb else "mysql"
        uri = f"{scheme}://{USER}@127.0.0.1:{self.port or self.server.port}/{SCHEMA}"
        (self.folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")

    def run(self, *statements: str) -> None:
        """Run statements at the source, each as a transaction of its own."""
        with self.server.connect(SCHEMA) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Return rows of the source."""
        with self.server.connect(SCHEMA, cursorclass=DictCursor) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return [dict(row) for row in cursor.fetchall()]

    def pipeline(self) -> Pipeline:
        """Return the pipeline, with the tables that the source has now."""
        return pipeline_of(self.spark, self.folder, _MODULE.format(more=list(self.more), options=dict(self.options)))

    def differing(self, *tables: str) -> dict[str, tuple[list[str], list[str]]]:
        """Return the rows that only the source has, and those that only the copy has, of the tables that differ."""
        pipeline, found = self.pipeline(), dict[str, tuple[list[str], list[str]]]()
        for table in tables:
            source = sorted(map(_shown, self.rows(f"SELECT * FROM `{table}`")))
            copy = sorted(_shown(row.asDict()) for row in self._copy_rows(pipeline, table.lower()))
            if source != copy:
                found[table] = (_without(source, copy)[:5], _without(copy, source)[:5])
        return found

    def _copy_rows(self, pipeline: Pipeline, table: str) -> list[Row]:
        if not self.is_plain:
            return copy_rows(pipeline, table)
        frame = self.spark.read.format("delta").load(pipeline.storage.path("tables", "main", "copies", table))
        return frame.drop(*(name for name in frame.columns if name.startswith("__sluice"))).collect()

    def sluice(self, command: str, *, exit_code: int | None = 0) -> str:
        """Run a command as it was printed, for this pipeline, and return its output."""
        words = shlex.split(command)[1:]
        called = CliRunner().invoke(cli, [*words, "--spec", str(self.folder / "pipeline.yml")])
        assert exit_code in (None, called.exit_code), (command, called.output, called.exception)
        return called.output

    def status(self) -> dict[str, Any]:
        """Return what `sluice ingest status` says."""
        (gateway,) = json.loads(self.sluice("sluice ingest status -o json"))
        return dict(gateway)

    def update(self, *refresh: str) -> dict[str, SluiceError]:
        """Run an update of the whole or of some datasets, and return the errors of its flows, or of the whole."""
        try:
            result = self.pipeline().run(refresh=refresh)
        except SluiceError as error:
            return {"": error}
        failed = {
            flow.flow.table: flow.error
            for flow in result.flows
            if flow.state is FlowState.FAILED and isinstance(flow.error, SluiceError)
        }
        assert failed or result.state is UpdateState.COMPLETED, result
        return failed

    def settle(self) -> set[str]:
        """Run updates until one completes, doing what each error says, and once more; return the conditions.

        Raises:
            AssertionError: an error says nothing that helps.
        """
        met, failed = set[str](), dict[str, SluiceError]()
        for _ in range(_MOST_ATTEMPTS):
            failed = self.update()
            if not failed:
                assert self.update() == {}
                return met
            met |= {error.condition for error in failed.values()}
            self.follow(*failed.values())
        raise AssertionError({flow: error.render() for flow, error in failed.items()})

    def follow(self, *errors: SluiceError) -> None:
        """Do what errors say, each thing once: statements as an administrator, then commands."""
        for statement in dict.fromkeys(statement for error in errors for statement in statements_of(error)):
            self.followed.append(statement)
            self.run(statement)
        for command in dict.fromkeys(command for error in errors for command in commands_of(error)):
            self.followed.append(command)
            self.sluice(command)


def commands_of(error: SluiceError) -> list[str]:
    """Return the commands of `sluice` that a person runs who reads an error; those for other cases are left out."""
    remedy = error.remedy.partition("Without `ingest_database`")[0]
    # A table that has a new column goes on by itself: its remedy names the next update first.
    found = [match["command"] for match in _COMMAND.finditer(remedy)]
    return [command for command in found if command.startswith("sluice ingest re")]


def statements_of(error: SluiceError) -> list[str]:
    """Return the SQL statements that an error says to run."""
    return [match["statement"] for match in _STATEMENT.finditer(error.remedy)]


def cut_connections(server: MysqlServer) -> int:
    """End all connections of the pipeline at the server; return how many there were."""
    found = server.query("SELECT id FROM information_schema.processlist WHERE user = %s", USER)
    for (number,) in found:
        with suppress(pymysql.Error):  # it has ended
            server.query(f"KILL {number}")
    return len(found)


def _shown(row: Mapping[str, Any]) -> str:
    return repr({column.lower(): _plain(row[column]) for column in sorted(row)})


def _plain(value: object) -> object:
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def _without(rows: Sequence[str], others: Sequence[str]) -> list[str]:
    known = {*others}
    return [row for row in rows if row not in known] or [f"{len(rows)} rows"]
