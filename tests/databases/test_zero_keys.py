"""Keys that PostgreSQL and Spark compare as equal, although their text differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.cdc.unconfirmed import delete_unconfirmed
from tests.support.copied_tables import copied, failures, pipeline_of, resync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.cdc.delta.destination import Destination
    from framework.cdc.model.metrics import CdcMetrics

Run = Callable[..., list[tuple[Any, ...]]]


def test_the_key_zero_is_one_key_whatever_its_sign(
    interpreting: SparkSession, folder: Path, run: Run, swap: pytest.MonkeyPatch
) -> None:
    """No row is lost or doubled, in chunks, changes or a second snapshot; the copy has zero without a sign.

    The second snapshot of a table is confirmed once, though several flows end after it.
    """
    confirmed = list[str]()

    def confirmed_once(session: SparkSession, destination: Destination, *arguments: Any, **named: Any) -> CdcMetrics:
        confirmed.append(str(destination.table.path).rpartition("/")[2])
        return delete_unconfirmed(session, destination, *arguments, **named)

    swap.setattr("framework.cdc.writer.delete_unconfirmed", confirmed_once)
    run("CREATE TABLE minus (id FLOAT8 PRIMARY KEY, n INT); INSERT INTO minus VALUES ('-0.0', 1), (1, 1)")
    run("CREATE TABLE pairs (a FLOAT4, b FLOAT8, n INT, PRIMARY KEY (a, b))")
    run("INSERT INTO pairs VALUES ('-0.0', 0, 1), (0.0, 1, 1), (1, 1, 1)")
    pipeline = pipeline_of(interpreting, folder)

    def check() -> None:
        assert failures(pipeline.run()) == {}
        for table in ("minus", "pairs"):
            rows = copied(pipeline, table)
            assert rows == sorted(run(f"SELECT * FROM {table}"))  # in Python the two are equal, too
            assert not [row for row in rows if "-0.0" in map(str, row)]

    check()
    run("UPDATE minus SET id = 0.0 WHERE id = 0; UPDATE pairs SET b = '-0.0' WHERE b = 0")
    run("UPDATE pairs SET a = '-0.0' WHERE b = 1 AND a = 0")
    check()
    run("DELETE FROM minus WHERE id = 0; DELETE FROM pairs WHERE b = 1 AND a = 0; INSERT INTO pairs VALUES (0.0, 1, 3)")
    run("UPDATE pairs SET n = 2 WHERE b = 0; UPDATE pairs SET a = 0.0, b = 0.0 WHERE b = 0")
    check()
    resync(pipeline, "minus", "pairs")
    run("UPDATE pairs SET a = '-0.0' WHERE b = 1 AND a = 0; DELETE FROM pairs WHERE b = 0")
    check()
    assert sorted(confirmed) == ["minus", "pairs"]
