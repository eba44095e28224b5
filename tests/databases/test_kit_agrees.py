"""What a test with the kit says is what an update on a real database does: the pipeline of the bank."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from framework.run.update.results import UpdateState
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
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
    folder: Path, run: Callable[..., list[Any]], spark: SparkSession
) -> None:
    """The views over given copies have the rows and the counts of those over a database that is copied."""
    for name, (columns, rows) in TABLES.items():
        run(f"CREATE TABLE pgbench_{name} ({columns})")
        for row in rows:
            run(f"INSERT INTO pgbench_{name} VALUES ({', '.join(['%s'] * len(row))})", *row)
    shutil.copytree(SPEC.parent, folder, dirs_exist_ok=True)  # beside the file with the connection
    real = Pipeline.from_spec(folder / SPEC.name, storage=folder / "storage", spark=spark)
    expected = real.run()
    assert expected.state is UpdateState.COMPLETED

    with Pipeline.from_spec(SPEC, spark=spark).sandbox(folder / "sandbox") as sandbox:  # has no connection
        for name, (_, rows) in TABLES.items():
            source = f"postgres:bank/public.pgbench_{name}" if name == "history" else name
            sandbox.given(source, rows, schema=real.table(name).schema)
        found = sandbox.update()

        counts = {str(flow.flow): flow.expectations for flow in expected.flows if flow.dataset.table in VIEWS}
        assert counts == {str(flow.flow): flow.expectations for flow in found.flows}
        for view in VIEWS:
            place = f"tables/main/bank/{view}"
            assert sorted(table_rows(spark, f"{folder}/storage/{place}")) == sorted(
                table_rows(spark, f"{sandbox.storage}/{place}")
            )
