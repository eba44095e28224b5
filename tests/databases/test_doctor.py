"""A database that can not be read: the doctor explains it, although no flow can be examined."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.errors import SluiceError, UserError
from framework.ingest.operations import GatewayTables, Operations
from framework.recovery.doctor.findings import Finding
from framework.run.update.results import UpdateState
from framework.views.doctor import cost_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
TABLES = ("days", "kinds", "lines", "notes", "orders", "parts", "prices")
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
FREE = "lost: none; repeated: none; read again: none"


def again(table: str, lost: str = "none") -> str:
    """The cost of reading a table again."""
    return f"lost: {lost}; repeated: none; read again: unknown: all rows of public.{table}"


class Shop:
    """A source with seven tables, and the pipeline that copies them."""

    def __init__(self, spark: SparkSession, folder: Path, run: Run) -> None:
        self._spark, self._folder, self.run = spark, folder, run
        self.uri = (folder / "connections.yml").read_text("utf-8").removeprefix("bank: ").strip()
        (folder / "module.py").write_text(MODULE, "utf-8")
        libraries = [{"file": {"path": "module.py"}}]
        spec = {"name": "shop", "storage": "storage", "libraries": libraries}
        (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
        for table in TABLES:
            run(f"CREATE TABLE {table} (id INT PRIMARY KEY, day DATE)")
            run(f"INSERT INTO {table} SELECT i, '2026-01-01' FROM generate_series(1, 5) i")

    def connect(self, uri: str) -> None:
        """Change the connection of the pipeline."""
        (self._folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")

    def pipeline(self) -> Pipeline:
        """The pipeline, loaded again with the tables that the source has now."""
        return Pipeline.from_spec(self._folder / "pipeline.yml", spark=self._spark)

    def operate(self, operation: Callable[..., None], table: str) -> None:
        """Do what an operator asks for a table."""
        pipeline = self.pipeline()
        operation(Operations(storage=pipeline.storage), *GatewayTables(gateways=pipeline.gateways).table(table))

    def update(self) -> UpdateState:
        """Run an update."""
        return self.pipeline().run().state

    def found(self) -> dict[str, Finding]:
        """The findings by the short name of their flow."""
        return {each.flow.table if each.flow else "": each for each in self.pipeline().doctor.examine().findings}

    def treat(self, flow: str, way: str, cost: str) -> None:
        """Do a way out of a flow, whose cost must be this one."""
        doctor = self.pipeline().doctor
        (finding,) = doctor.examine([flow]).findings
        number = [each.way.name for each in finding.ways].index(way) + 1
        assert cost_text(finding.ways[number - 1].cost) == cost
        treatment = doctor.treat(finding, number)
        assert treatment.result is None or treatment.result.state is UpdateState.COMPLETED

    def differing(self) -> list[str]:
        """The tables whose copies differ from them."""
        pipeline, different = self.pipeline(), []
        for table in TABLES:
            frame = pipeline.table(table)
            frame = frame.where("__END_AT IS NULL") if table == "prices" else frame
            rows = sorted(tuple(row) for row in frame.select("id", "day").collect())
            different += [table] if rows != sorted(self.run(f"SELECT * FROM {table}")) else []
        return different


@pytest.fixture
def shop(interpreting: SparkSession, folder: Path, run: Run) -> Shop:
    """The source before the first update."""
    return Shop(interpreting, folder, run)


def test_a_source_that_can_not_be_read_is_the_only_finding(shop: Shop) -> None:
    """A refused login and a missing server are explained although no flow can be examined; nothing can be applied."""
    host = shop.uri.partition("@")[2]
    for uri, condition, diagnosis in (
        (f"postgresql://stranger@{host}", "DATABASE_LOGIN_REFUSED", "PERMISSION_MISSING"),
        ("postgresql://postgres@127.0.0.1:1/none", "DATABASE_UNREACHABLE", "CONNECTION_LOST"),
    ):
        shop.connect(uri)
        with pytest.raises(SluiceError, match=condition):
            shop.update()
        examination = shop.pipeline().doctor.examine(["orders_cdc_flow"])
        (finding,) = examination.findings
        assert (finding.flow, finding.condition, finding.diagnosis.name) == (None, condition, diagnosis)
        assert finding.location.endswith("module.py:4")
        assert [way.way.name for way in finding.ways] == ["FOLLOW"]
        with pytest.raises(UserError, match="DOCTOR_WAY_FOR_PERSON"):
            shop.pipeline().doctor.treat(finding, 1)
    shop.connect(shop.uri)
    assert shop.found() == {}
