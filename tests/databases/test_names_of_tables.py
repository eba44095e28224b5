"""Source tables with names that need quotes somewhere are copied like all others: rows, changes, queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.run.update.results import UpdateState
from framework.sources.databases.tables import quote_identifier
from tests.databases.test_ingest_database import pipeline_of, schema, shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]

NAMES = ('back`tick "quote" a.b', "it's %s %41 a=b #1:{x} $1*?[a] ß")


def quoted(name: str) -> str:
    """The name for Spark's SQL."""
    return f"`{name.replace('`', '``')}`"


def test_a_table_of_any_name_follows_its_source(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """After a snapshot, after changes, and after a full refresh; each is read by its path and by its name."""
    for number, name in enumerate(NAMES):
        run(f"CREATE TABLE {quote_identifier(name)} (id INT PRIMARY KEY, b TEXT)")
        run(f"INSERT INTO {quote_identifier(name)} SELECT i, '{number}' FROM generate_series(1, 3) i")
    pipeline = pipeline_of(interpreting, folder, shop(schema()))

    def update(**request: Any) -> None:
        result = pipeline.run(**request)
        assert result.state is UpdateState.COMPLETED, [flow.error.render() for flow in result.flows if flow.error]
        for name in NAMES:
            expected = run(f"SELECT id, b FROM {quote_identifier(name)} ORDER BY id")
            path = str(folder / "storage/tables/main/copies" / name.lower())
            by_path = interpreting.read.format("delta").load(path).orderBy("id").collect()
            query = f"SELECT id, b FROM copies.{quoted(name.lower())} ORDER BY id"
            by_name = pipeline.sql(query).collect()
            assert [tuple(row)[:2] for row in by_path] == [tuple(row) for row in by_name] == expected, name

    update()
    for name in NAMES:
        table = quote_identifier(name)
        run(f"UPDATE {table} SET b = 'new' WHERE id = 1; DELETE FROM {table} WHERE id = 2")
        run(f"INSERT INTO {table} VALUES (4)")
    update()
    first, last = f"main.copies.{quoted(NAMES[0])}", f"main.copies.{quoted(NAMES[1])}"
    update(full_refresh=(first, last))
