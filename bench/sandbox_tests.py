"""(s) Tests with a sandbox: 50 tests of three tables, one of them AUTO CDC, in one process, each with its own sandbox.

A test gives rows to two inputs, updates, and reads all tables, as the fixture `pipeline` does.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.measure import Measure
from framework.pipeline import Pipeline
from framework.sandbox import test_session
from framework.session.spark_session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = 50
WARM_GOAL_SECONDS, FIRST_GOAL_SECONDS = 1.5, 12.0
_SPEC = "name: shop\nlibraries:\n  - glob: {include: 'src/**'}\n"
_MODULE = """\
from pyspark.sql import functions as F

from framework import pipelines as dp


@dp.table
@dp.expect_or_drop("has an id", "id IS NOT NULL")
def orders():
    return spark.readStream.schema("id INT, customer INT, amount DOUBLE").json("data/orders")


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(target="customers", source="customer_events", keys=["id"], sequence_by="at")


@dp.materialized_view
def revenue():
    customers = spark.read.table("customers").withColumnRenamed("id", "customer")
    bought = spark.read.table("orders").join(customers, "customer")
    return bought.groupBy("name").agg(F.sum("amount").alias("total"))
"""
_ORDERS = "id | customer | amount\n1 | 1 | 120\n2 | 2 | 40\n   | 2 | 500"
_EVENTS = [{"id": 1, "at": 1, "name": "Ada"}, {"id": 2, "at": 1, "name": "Grace"}, {"id": 1, "at": 2, "name": "Ada L."}]


def measure(tests: int = TESTS) -> list[Measure]:
    """The time of the first test with the start of Spark, and the median of the others."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "pipeline.yml")
        spec.write_text(_SPEC, "utf-8")
        Path(folder, "src").mkdir()
        Path(folder, "src", "shop.py").write_text(_MODULE, "utf-8")
        began = time.perf_counter()
        spark = start_session(app_name="tests", master=test_session.MASTER, spark_conf=test_session.JVM)
        first = time.perf_counter() - began + _seconds(spec, spark)
        times = [_seconds(spec, spark) for _ in range(tests)]
        stop_session(spark)
    detail = f"{tests} tests, from {min(times):.2f} to {max(times):.2f} s"
    return [
        Measure(
            benchmark="s", what="first test with a sandbox", unit="s", goal=FIRST_GOAL_SECONDS, value=first,
            detail="with the start of Spark",
        ),
        Measure(
            benchmark="s", what="warm test with a sandbox", unit="s", goal=WARM_GOAL_SECONDS, value=median(times),
            detail=detail,
        ),
    ]  # fmt: skip


def _seconds(spec: Path, spark: SparkSession) -> float:
    began = time.perf_counter()
    with Pipeline.from_spec(spec, spark=spark).sandbox() as test:
        test.given("data/orders", _ORDERS)
        test.given("customer_events", _EVENTS)
        test.update()
        test.expect("orders", [(1, 1, 120.0), (2, 2, 40.0)])
        test.expect("customers", [(1, "Ada L."), (2, "Grace")], only=["id", "name"])
        test.expect("revenue", [("Ada L.", 120.0), ("Grace", 40.0)])
    return time.perf_counter() - began
