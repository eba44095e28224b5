"""A database that can not be read: the doctor explains it, although its tables are not known yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.errors import UserError
from framework.run.update.results import UpdateState
from tests.support.copied_tables import failures, of_both_flows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[
        {"schema": {"source_schema": "public", "exclude": ["prices"]}},
        {"table": {"source_schema": "public", "source_table": "prices",
                   "table_configuration": {"scd_type": "SCD_TYPE_2"}}},
    ],
)
"""


def connected(spark: SparkSession, folder: Path, uri: str) -> Pipeline:
    """Return the pipeline of two tables, loaded again with a connection."""
    (folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
    (folder / "module.py").write_text(MODULE, "utf-8")
    spec = {"name": "shop", "storage": "storage", "libraries": [{"file": {"path": "module.py"}}]}
    (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    return Pipeline.from_spec(folder / "pipeline.yml", spark=spark)


def test_a_source_that_can_not_be_read_is_the_only_finding(
    interpreting: SparkSession, folder: Path, run: Run, database: str
) -> None:
    """A refused login and a missing server are explained, also for a flow that no update had; no way is applied."""
    for table in ("orders", "prices"):
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, day DATE)")
    host = database.partition("@")[2]
    for uri, condition, diagnosis in (
        (f"postgresql://nobody_known@{host}", "DATABASE_LOGIN_REFUSED", "PERMISSION_MISSING"),
        ("postgresql://postgres@127.0.0.1:1/none", "DATABASE_UNREACHABLE", "CONNECTION_LOST"),
    ):
        failed = failures(connected(interpreting, folder, uri).run())
        assert failed == {"shop_changes": condition, **of_both_flows(prices=condition)}
        doctor = connected(interpreting, folder, uri).doctor
        (finding,) = doctor.examine(["orders_cdc_flow"]).findings
        assert (finding.flow and finding.flow.table, finding.condition) == ("shop_changes", condition)
        assert finding.diagnosis.name == diagnosis
        assert finding.location.endswith("module.py:4")
        assert [way.way.name for way in finding.ways] == ["FOLLOW", "RUN_AGAIN"]
        with pytest.raises(UserError, match="DOCTOR_WAY_FOR_PERSON"):
            doctor.treat(finding, 1)
    pipeline = connected(interpreting, folder, database)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert pipeline.doctor.examine().findings == ()
