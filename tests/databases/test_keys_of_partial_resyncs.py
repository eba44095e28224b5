"""Rows that a snapshot of some rows did not confirm, looked up at the source by keys of any type."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from tests.support.copied_tables import failures, pipeline_of, resync
from tests.support.database_keys import CITEXT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]

_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[{"schema": {"source_schema": "public", "destination_schema": "copies"}}],
)
"""

# Type of the key, keys that stay, keys that are gone at the source but in the copy, keys that come, a condition.
_CASES = {
    "instants": (
        "TIMESTAMPTZ",
        # In Berlin, the first is of the year 0, the next two are of local mean time, and the last of the hour twice.
        ["0001-01-01 00:00Z", "1753-01-01 00:00Z", "1850-06-01 12:00:00.5Z", "2023-10-29 01:30Z", "9999-12-31 23:59Z"],
        ["2023-10-29 00:30Z"],
        [],
        "id > '2023-01-01'",
    ),
    "numbers": ("NUMERIC", ["2"], ["1.0"], ["1.00"], "id = 1"),
    "words": ("ext.citext", ["b"], ["a"], ["A"], "v IN ('a', 'A')"),
    "lists": ("INT[]", ["{1}", "{2,NULL,3}"], ["{4,5}"], [], "id = '{4,5}'"),
    "names": ("TEXT[]", ['{"a,\\"b\\\\c{}",NULL,"NULL",""}', "{}"], ["{x}"], [], "id = '{x}'"),
    "wide": ("NUMERIC(38,0)", ["1"], ["2"], [], "id > 1.5"),
}


@pytest.fixture
def berlin(interpreting: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session whose process and queries are in the zone of Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    interpreting.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield interpreting
    monkeypatch.undo()
    time.tzset()


def _copied(pipeline: Pipeline, table: str) -> list[str]:
    rows = pipeline.table(f"copies.{table}")
    return sorted(row[0] for row in rows.selectExpr("cast(v AS string)").collect())


def test_exactly_the_rows_that_are_gone_are_deleted(berlin: SparkSession, folder: Path, run: Run) -> None:
    """Whatever the type of the key and the zones of session and process."""
    for statement in CITEXT:
        if "CREATE CAST" not in statement:  # like most types of extensions, it is no text
            run(statement)
    for table, (kind, stay, gone, _, _) in _CASES.items():
        run(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, v TEXT)")
        for key in (*stay, *gone):
            run(f"INSERT INTO {table} VALUES (%s::{kind}, %s)", key, key)
    pipeline = pipeline_of(berlin, folder, _MODULE)
    assert failures(pipeline.run()) == {}

    run("ALTER PUBLICATION sluice_shop SET (publish = '')")
    for table, (kind, _, gone, come, _) in _CASES.items():
        for key in gone:
            run(f"DELETE FROM {table} WHERE v = %s", key)
        for key in come:
            run(f"INSERT INTO {table} VALUES (%s::{kind}, %s)", key, key)
    run("ALTER PUBLICATION sluice_shop SET (publish = 'insert, update, delete, truncate')")
    for table, (_, _, _, _, where) in _CASES.items():
        resync(pipeline, table, where=where)

    assert failures(pipeline_of(berlin, folder, _MODULE).run()) == {}
    assert {table: _copied(pipeline, table) for table in _CASES} == {
        table: sorted([*stay, *come]) for table, (_, stay, _, come, _) in _CASES.items()
    }
