"""Rows that a snapshot of some rows did not confirm, looked up at the source by keys of any type."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from tests.support.copied_tables import failures, pipeline_of, resync
from tests.support.database_keys import CITEXT
from tests.support.plain_tables import plain_rows

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

# Columns of the key: type, usual value, values of rows that stay, that are gone at the source, and that come. Spark
# evaluates no condition of these types, so the keys of all rows are looked up.
_KEY = {
    "instant": (
        "TIMESTAMPTZ",
        "2000-01-01Z",
        # In Berlin, the first is of the year 0, the next two are of local mean time, and the last of the hour twice.
        ["0001-01-01 00:00Z", "1753-01-01 00:00Z", "1850-06-01 12:00:00.5Z", "2023-10-29 01:30Z", "9999-12-31 23:59Z"],
        ["2023-10-29 00:30Z"],
        [],
    ),
    "number": ("NUMERIC", "7", ["2"], ["1.0"], ["1.00"]),
    "word": ("ext.citext", "w", ["b"], ["a"], ["A"]),
    "list": ("INT[]", "{7}", ["{1}", "{2,NULL,3}"], ["{4,5}"], []),
    "names": ("TEXT[]", "{n}", ['{"a,\\"b\\\\c{}",NULL,"NULL",""}', "{}"], ["{x}"], []),
    "wide": ("NUMERIC(38,0)", "0", ["1"], ["2"], []),
}
_WHERE = (
    "instant > '2023-01-01' OR number = 1 OR v IN ('word a', 'word A') OR list = '{4,5}' OR names = '{x}' OR wide > 1.5"
)


@pytest.fixture
def berlin(interpreting: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session whose process and queries are in the zone of Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    interpreting.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield interpreting
    monkeypatch.undo()
    time.tzset()


def _insert(run: Run, column: str, values: Sequence[str]) -> None:
    """Insert rows that have these values in one column of the key."""
    for value in values:
        row = [value if name == column else usual for name, (_, usual, *_) in _KEY.items()]
        casts = ", ".join(f"%s::{kind}" for kind, *_ in _KEY.values())
        run(f"INSERT INTO keyed VALUES ({casts}, %s)", *row, f"{column} {value}")


def _copied(pipeline: Pipeline, schema: str) -> list[str]:
    rows = plain_rows(pipeline.storage.path("tables", "main", schema, "keyed"), lambda _: ["v"])
    assert rows is not None
    return sorted(row.v for row in rows)


def test_exactly_the_rows_that_are_gone_are_deleted(berlin: SparkSession, folder: Path, run: Run) -> None:
    """Whatever the type of the key and the zones of session and process.

    A copy of another name that begins afterwards is a new one, with all rows.
    """
    for statement in CITEXT:
        if "CREATE CAST" not in statement:  # like most types of extensions, it is no text
            run(statement)
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, (kind, *_) in _KEY.items())
    run(f"CREATE TABLE keyed ({columns}, v TEXT, PRIMARY KEY ({', '.join(_KEY)}))")
    for name, (_, _, stay, gone, _) in _KEY.items():
        _insert(run, name, [*stay, *gone])
    pipeline = pipeline_of(berlin, folder, _MODULE)
    assert failures(pipeline.run()) == {}

    run("ALTER PUBLICATION sluice_shop SET (publish = '')")
    for name, (_, _, _, gone, come) in _KEY.items():
        for value in gone:
            run("DELETE FROM keyed WHERE v = %s", f"{name} {value}")
        _insert(run, name, come)
    run("ALTER PUBLICATION sluice_shop SET (publish = 'insert, update, delete, truncate')")
    resync(pipeline, "keyed", where=_WHERE)

    assert failures(pipeline_of(berlin, folder, _MODULE).run()) == {}
    expected = [f"{name} {value}" for name, (_, _, stay, _, come) in _KEY.items() for value in (*stay, *come)]
    assert _copied(pipeline, "copies") == sorted(expected)

    run("DELETE FROM keyed WHERE v = %s", expected.pop())
    pipeline = pipeline_of(berlin, folder, _MODULE.replace('"copies"', '"others"'))
    assert failures(pipeline.run()) == {}
    assert _copied(pipeline, "others") == sorted(expected)
