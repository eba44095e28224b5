"""Folders of files, and a pipeline with a table for each of them, for tests of `cloudFiles`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import pipelines as dp
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Landing:
    """Folders of files, and a pipeline with a table for each."""

    world: EngineWorld
    root: Path

    def put(self, name: str, *rows: Mapping[str, Any], at: float | None = None) -> Path:
        """Write a file of JSON lines; `at` sets its modification time."""
        return self.text(name, "".join(f"{json.dumps(row)}\n" for row in rows), at=at)

    def text(self, name: str, text: str, at: float | None = None) -> Path:
        """Write a file as it is."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if at is not None:
            os.utime(path, (at, at))
        return path

    def declare(self, tables: Mapping[str, Mapping[str, Any]]) -> Callable[[], None]:
        """A streaming table for each folder; options of `cloudFiles`, and `schema`, `path` and `columns`."""

        def declared() -> None:
            for name, options in tables.items():
                self._table(name, dict(options))

        return declared

    def _table(self, name: str, options: dict[str, Any]) -> None:
        schema, columns = options.pop("schema", None), options.pop("columns", ["*"])
        folder = options.pop("path", name)

        @dp.table(name=name)
        def rows() -> DataFrame:
            given = {"cloudFiles.format": "json", **options}
            reader = self.world.spark.readStream.format("cloudFiles").options(**given)
            found = (reader.schema(schema) if schema else reader).load(str(self.root / folder))
            return found.selectExpr(*columns)

    def run(self, tables: Mapping[str, Mapping[str, Any]], **request: Any) -> dict[str, str]:
        """Run an update; the conditions of the flows that failed, by table."""
        result = self.world.run(self.declare(tables), **request)
        return {flow.flow.table: flow.error.condition for flow in result.flows if flow.error}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table without their null values, sorted by text."""
        found = [row.asDict(recursive=True) for row in table_rows(self.world.spark, self.world.path(table))]
        rows = ({k: v for k, v in row.items() if v is not None} for row in found)
        return sorted(rows, key=lambda row: json.dumps(row, default=str))

    def rescued(self, table: str) -> list[dict[str, Any]]:
        """The rescued data of a table, without the path of the file."""
        return [rescued for _, rescued in self.shown(table)]

    def shown(self, table: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The rows of a table, each with its rescued data without the path of the file."""
        found = []
        for row in self.rows(table):
            rescued = json.loads(row.pop("_rescued_data", "{}"))
            found.append((row, {name: value for name, value in rescued.items() if name != "_file_path"}))
        return found
