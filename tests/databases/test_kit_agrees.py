"""What a test with the kit says is what an update on a real database does: the pipeline of the bank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

SPEC = Path(__file__).parents[2] / "pipelines" / "bank" / "pipeline.yml"
TABLES: Mapping[str, tuple[str, list[tuple[Any, ...]]]] = {
    "accounts": ("aid INT PRIMARY KEY, bid INT, abalance INT, filler CHAR(84)", [(1, 1, 30, "x"), (2, 2, -5, None)]),
    "branches": ("bid INT PRIMARY KEY, bbalance INT, filler CHAR(88)", [(1, 30, None), (2, -5, None)]),
    "tellers": ("tid INT PRIMARY KEY, bid INT, tbalance INT, filler CHAR(84)", [(1, 1, 30, None), (2, 2, -6, None)]),
    "history": (
        "tid INT, bid INT, aid INT, delta INT, mtime TIMESTAMP, filler CHAR(22), entry BIGINT PRIMARY KEY",
        [(1, 1, 1, 30, None, None, 1), (2, 2, 2, -5, None, None, 2)],
    ),
}
VIEWS = ("branch_balances", "balances")


def test_the_bank_of_a_sandbox_is_that_of_an_update(
    database: str, run: Callable[..., list[Any]], spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """The views over given copies have the rows and the counts of those over a database that is copied."""
    for name, (columns, rows) in TABLES.items():
        run(f"CREATE TABLE pgbench_{name} ({columns})")
        for row in rows:
            run(f"INSERT INTO pgbench_{name} VALUES ({', '.join(['%s'] * len(row))})", *row)
    swap.setenv("SLUICE_CONNECTION_BANK", database)
    real = Pipeline.from_spec(SPEC, storage=tmp_path / "storage", spark=spark)
    expected = real.run()

    with Pipeline.from_spec(SPEC, spark=spark).sandbox(tmp_path / "sandbox") as sandbox:
        swap.setenv("SLUICE_CONNECTION_BANK", "postgresql://nobody@127.0.0.1:1/none")  # nothing connects
        for name, (_, rows) in TABLES.items():
            source = f"postgres:bank/public.pgbench_{name}" if name == "history" else name
            sandbox.given(source, rows, schema=real.table(name).schema)
        found = sandbox.update()

        counts = {str(flow.flow): flow.expectations for flow in expected.flows if flow.dataset.table in VIEWS}
        assert counts == {str(flow.flow): flow.expectations for flow in found.flows}
        for view in VIEWS:
            place = f"tables/main/bank/{view}"
            assert sorted(table_rows(spark, f"{tmp_path}/storage/{place}")) == sorted(
                table_rows(spark, f"{sandbox.storage}/{place}")
            )
