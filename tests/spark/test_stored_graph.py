"""`validate` and each update store the graph, which is read and drawn without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.diagrams.page import graph_page
from framework.diagrams.picture import picture_of
from framework.diagrams.svg import svg
from framework.graph.stored_graph import GraphStore
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.stored_graphs import check_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DRAWN = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j", "delta", "pandas"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refused())
from framework.diagrams.page import graph_page
from framework.diagrams.picture import picture_of
from framework.diagrams.svg import svg
from framework.foundation.files.local_storage import LocalStorage
from framework.views.stored_graph import stored_graph

graph = stored_graph(LocalStorage(sys.argv[1]), sys.argv[2])
sys.stdout.write(graph_page(graph) + svg(picture_of(graph)))
"""


def declare(world: EngineWorld, landing: Path) -> None:
    """Files, an AUTO CDC target with history, a quarantine, expectations, and a view of both."""
    spark = world.spark

    dp.create_streaming_table(
        "orders", table_properties={"sluice.quarantine": "true"}, expect_all_or_drop={"positive": "n > 0"},
        comment="Orders",
    )  # fmt: skip

    @dp.append_flow(target="orders", name="live")
    def live() -> DataFrame:
        return spark.readStream.schema("n long").json(str(landing))

    @dp.append_flow(target="orders", name="backfill", once=True)
    def backfill() -> DataFrame:
        return spark.range(3).selectExpr("id AS n")

    @dp.temporary_view
    def changes() -> DataFrame:
        return spark.readStream.format("delta").load(world.source())

    dp.create_streaming_table("customers")
    dp.create_auto_cdc_flow(
        target="customers", source="changes", keys=["id"], sequence_by="at", stored_as_scd_type=2,
        track_history_except_column_list=["at"],
    )  # fmt: skip

    @dp.materialized_view(private=True)
    def totals() -> DataFrame:
        return spark.read.table("orders").crossJoin(spark.read.table("customers").select("name"))


def declare_simple(world: EngineWorld, landing: Path) -> None:
    """The same without the view."""
    spark = world.spark

    @dp.table
    def orders() -> DataFrame:
        return spark.readStream.schema("n long").json(str(landing))


def test_validate_and_each_update_store_the_graph(interpreting: SparkSession, tmp_path: Path) -> None:
    """The stored graph is that of the last resolution; a Python without PySpark draws the same page from it."""
    world = EngineWorld(interpreting, tmp_path / "world")
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "1.json").write_text('{"n": 5}\n{"n": -5}\n', "utf-8")
    world.feed([(1, "a", 1)], "id long, name string, at long")

    pipeline = world.pipeline(lambda: declare(world, landing))
    pipeline.validate()
    check_stored(pipeline)
    store = GraphStore(pipeline.storage, pipeline.name)
    validated = Path(store.path).stat()
    assert pipeline.run().state is UpdateState.COMPLETED
    check_stored(pipeline)
    assert Path(store.path).stat() == validated  # the graph is the same
    found = store.read()
    assert found is not None
    assert {str(name): folder for name, folder in found.folders.items()} == {
        "main.s.orders": world.path("orders"),
        "main.s.customers": world.path("customers"),
        "main.s.totals": pipeline.storage.path("private", "main", "s", "totals"),
    }

    drawn = subprocess.run(
        [sys.executable, "-c", _DRAWN, pipeline.storage.root, pipeline.name], capture_output=True, text=True, check=True
    )
    assert graph_page(pipeline.graph) + svg(picture_of(pipeline.graph)) == drawn.stdout

    fewer = world.pipeline(lambda: declare_simple(world, landing))
    fewer.validate()
    check_stored(fewer)
    assert [each.spec.name.table for each in fewer.graph.datasets] == ["orders"]


def test_a_storage_that_can_not_be_written_is_no_fault_of_validate(interpreting: SparkSession, tmp_path: Path) -> None:
    """`validate` succeeds where the graph can't be stored, and leaves no file."""
    world = EngineWorld(interpreting, tmp_path / "world")
    (tmp_path / "landing").mkdir()
    pipeline = world.pipeline(lambda: declare_simple(world, tmp_path / "landing"))
    folder = Path(pipeline.storage.path("graphs"))
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder", "utf-8")  # as root, no mode of a folder refuses a file
    assert [each.spec.name.table for each in pipeline.validate().datasets] == ["orders"]
    assert folder.read_text("utf-8") == "no folder"
