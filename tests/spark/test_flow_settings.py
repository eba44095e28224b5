"""A flow is analysed with the Spark settings that it runs with: its own, its target's and those of its views."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework import Pipeline
from framework import pipelines as dp
from framework.plan.steps import RefreshView
from framework.run.flows.flow_run import FlowSessions
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.fake_pipeline import name
from tests.support.plain_tables import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
MODULE = """
from framework import pipelines as dp
from pyspark.sql import functions as F

LENIENT = {"spark.sql.ansi.enabled": "false"}
CASED = {"spark.sql.caseSensitive": "true"}
EXACT, ROUNDED = {"PRECISION_LOSS": "false"}, {"PRECISION_LOSS": "true"}
DATE_AS_NUMBER = "CAST(DATE'2020-01-01' AS INT)"  # an error of analysis in ANSI mode, else NULL
NUMBER = "CAST(1 AS DECIMAL(38, 10))"
PRODUCT = f"{NUMBER} * {NUMBER}"  # decimal(38,20) if exact, decimal(38,6) if rounded

@dp.materialized_view(spark_conf=LENIENT)
def own():
    return spark.sql(f"SELECT {DATE_AS_NUMBER} AS n")

@dp.temporary_view(spark_conf=LENIENT | CASED)
def lenient():
    return spark.sql(f"SELECT {DATE_AS_NUMBER} AS n, 1 AS a").withColumn("A", F.lit(2))

@dp.materialized_view
def by_view():
    return spark.read.table("lenient").select("n", "A")

@dp.temporary_view(spark_conf=EXACT)
def product():
    return spark.sql(f"SELECT {PRODUCT} AS d")

@dp.materialized_view
def exact():
    return spark.read.table("product")

@dp.temporary_view(spark_conf=LENIENT)
def first_of_two():
    return spark.sql(f"SELECT {PRODUCT} AS d")

@dp.materialized_view
def two_views():
    return spark.read.table("first_of_two").join(spark.read.table("product").select(F.lit(1).alias("one")))

@dp.materialized_view(spark_conf=ROUNDED)
def rounded():
    return spark.read.table("product")

@dp.materialized_view(spark_conf=EXACT)
def around():
    return spark.read.table("within").withColumn("e", F.expr(PRODUCT))

@dp.materialized_view
def within():
    return spark.sql(f"SELECT {PRODUCT} AS d")

@dp.materialized_view(spark_conf=ROUNDED)
def computed_again():
    return spark.read.table("stream")

dp.create_streaming_table("stream", spark_conf=EXACT, expect_all={"null": "CAST(day AS INT) IS NULL"})

@dp.append_flow(target="stream", spark_conf=LENIENT)
def into_stream():
    return spark.readStream.format("delta").load("SOURCE").select("day", F.expr(PRODUCT).alias("d"))
"""


def pipeline_of(world: EngineWorld, module: str) -> Pipeline:
    """The pipeline of a module's text."""
    path = world.root / "module.py"
    path.write_text(module.replace("PRECISION_LOSS", PRECISION_LOSS).replace("SOURCE", world.source()))
    return Pipeline(
        name=world.name, modules=[path], storage=world.root / "storage", schema="s", spark=world.spark, development=True
    )


def test_a_flow_is_analysed_and_run_with_its_own_settings(spark: SparkSession, tmp_path: Path) -> None:
    """A query that a setting makes valid passes validate; the schema is that of the run; a new setting recomputes."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(date(2020, 1, 1),)], "day DATE")
    pipeline = pipeline_of(world, MODULE)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert pipeline.spark.conf.get("spark.sql.ansi.enabled") == spark.conf.get("spark.sql.ansi.enabled") == "true"
    names = ("own", "by_view", "exact", "two_views", "rounded", "within", "around", "stream")
    tables = {name: stored_schema(world.path(name)) for name in names}
    assert {name: [field.dataType.simpleString() for field in schema] for name, schema in tables.items()} == {
        "own": ["int"],
        "by_view": ["int", "int"],
        "exact": ["decimal(38,20)"],
        "two_views": ["decimal(38,20)", "int"],
        "rounded": ["decimal(38,6)"],
        "within": ["decimal(38,6)"],
        "around": ["decimal(38,6)", "decimal(38,20)"],
        "stream": ["date", "decimal(38,20)"],
    }
    assert (world.rows("own"), world.rows("by_view")) == ([(None,)], [(None, 2)])
    before, after = (f"spark_conf={conf})\ndef computed_again" for conf in ("ROUNDED", "EXACT"))
    for module, is_computed in ((MODULE, False), (MODULE.replace(before, after), True)):
        steps = pipeline_of(world, module).plan().steps
        views = [step.dataset.table for step in steps if isinstance(step, RefreshView)]
        assert ("computed_again" in views) is is_computed


def test_a_flow_gets_its_own_settings_and_none_that_were_set_later_on_the_pipelines_session(
    spark: SparkSession,
) -> None:
    """Query functions run in the pipeline's session with the settings of their own flows, which no other flow gets."""
    partitions = "spark.sql.shuffle.partitions"
    pipeline = spark.newSession()
    before = pipeline.conf.get(partitions)
    sessions = FlowSessions(pipeline)
    pipeline.conf.set(partitions, "77")
    own = sessions.of(name("own"), {partitions: "5"})
    other = sessions.of(name("other"), {})
    assert (own.conf.get(partitions), other.conf.get(partitions)) == ("5", before)
    assert sessions.of(name("own"), {partitions: "5"}) is own


def test_a_view_whose_declared_columns_are_more_than_its_query_has_is_idle_in_the_second_update(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its table has the columns of the query, which does not count as a change of its definition."""

    def declare() -> None:
        @dp.materialized_view(schema="n BIGINT, more STRING")
        def numbers() -> DataFrame:
            return spark.range(3).withColumnRenamed("id", "n").withColumn("more", F.lit(None).cast("string"))

    pipeline = Pipeline(name="views", modules=[declare], storage=tmp_path / "storage", spark=spark)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert pipeline.run().is_idle
