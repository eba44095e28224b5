"""Guards: pipeline code must not change the session, and other threads are not blocked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.declare.session.mutations import guarded_module, guarded_query, refusals, unguarded
from framework.foundation.errors import UserError

Guard = Callable[[], AbstractContextManager[None]]
Deed = Callable[[SparkSession, DataFrame], object]

MUTATIONS: list[tuple[str, Deed]] = [
    ("SET_RUNTIME_CONF", lambda spark, _: spark.conf.set("a", "b")),
    ("SET_RUNTIME_CONF", lambda spark, _: spark.conf.unset("a")),
    ("SET_CURRENT_CATALOG", lambda spark, _: spark.catalog.setCurrentCatalog("x")),
    ("SET_CURRENT_DATABASE", lambda spark, _: spark.catalog.setCurrentDatabase("x")),
    ("DROP_TEMP_VIEW", lambda spark, _: spark.catalog.dropTempView("x")),
    ("DROP_GLOBAL_TEMP_VIEW", lambda spark, _: spark.catalog.dropGlobalTempView("x")),
    ("CREATE_TEMP_VIEW", lambda _, frame: frame.createTempView("x")),
    ("CREATE_OR_REPLACE_TEMP_VIEW", lambda _, frame: frame.createOrReplaceTempView("x")),
    ("CREATE_GLOBAL_TEMP_VIEW", lambda _, frame: frame.createGlobalTempView("x")),
    ("CREATE_OR_REPLACE_GLOBAL_TEMP_VIEW", lambda _, frame: frame.createOrReplaceGlobalTempView("x")),
    ("REGISTER_UDF", lambda spark, _: spark.udf.register("f", str)),
    ("REGISTER_JAVA_UDF", lambda spark, _: spark.udf.registerJavaFunction("f", "x")),
    ("REGISTER_JAVA_UDAF", lambda spark, _: spark.udf.registerJavaUDAF("f", "x")),
    ("STOP_SESSION", lambda spark, _: spark.stop()),
    ("SET_RUNTIME_CONF", lambda spark, _: spark.sql("SET spark.sql.ansi.enabled = false")),
    ("SET_CURRENT_DATABASE", lambda spark, _: spark.sql("USE elsewhere")),
    ("CREATE_TEMP_VIEW", lambda spark, _: spark.sql("CREATE TEMPORARY VIEW v AS SELECT 1")),
]
ACTIONS: list[Deed] = [
    lambda _, frame: frame.collect(),
    lambda _, frame: frame.count(),
    lambda _, frame: frame.show(),
    lambda _, frame: frame.toPandas(),
    lambda _, frame: frame.first(),
    lambda _, frame: frame.isEmpty(),
    lambda _, frame: frame.rdd,
    lambda _, frame: frame.write,
    lambda _, frame: frame.writeStream,
    lambda _, frame: frame.writeTo("t"),
    lambda _, frame: frame.localCheckpoint(),
    lambda _, frame: frame.approxQuantile("id", [0.5], 0.1),
    lambda _, frame: frame.groupBy("id").pivot("id"),
]


@pytest.mark.parametrize("guard", [guarded_module, guarded_query])
def test_code_may_set_the_access_to_a_storage(spark: SparkSession, guard: Guard) -> None:
    """It is the same for all flows, and Spark's file systems read it from the session."""
    key = "fs.azure.account.key.landing.dfs.core.windows.net"
    with guard():
        spark.conf.set(key, "secret")
    assert spark.conf.get(key) == "secret"
    spark.conf.unset(key)


@pytest.mark.parametrize("guard", [guarded_module, guarded_query])
@pytest.mark.parametrize(("kind", "deed"), MUTATIONS)
def test_session_mutations_are_refused_with_the_line(spark: SparkSession, guard: Guard, kind: str, deed: Deed) -> None:
    """In modules and in query functions."""
    with pytest.raises(UserError) as caught, guard():
        deed(spark, spark.range(1))
    assert caught.value.condition == f"SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.{kind}"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("deed", ACTIONS)
def test_actions_are_refused_in_query_functions_only(spark: SparkSession, deed: Deed) -> None:
    """They would run rows while rows are only described."""
    with pytest.raises(UserError) as caught, guarded_query():
        deed(spark, spark.range(1))
    assert caught.value.condition == "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_what_only_describes_rows_is_allowed(spark: SparkSession) -> None:
    """Schemas, settings that are read, a pivot that names its values; and actions in a module."""
    with guarded_query():
        frame = spark.range(3).withColumn("k", F.lit("a"))
        assert (frame.columns, spark.conf.get("spark.app.name") is not None) == (["id", "k"], True)
        pivoted = frame.groupBy("id").pivot("k", ["a"]).count()
    with guarded_module():
        assert frame.count() == 3
        assert spark.sql("SET spark.app.name").count() == 1
        assert spark.sql("SELECT {n} AS n", n=2).collect() == [(2,)]
    assert pivoted.columns == ["id", "a"]


def test_other_threads_and_the_engine_are_not_held_up(spark: SparkSession) -> None:
    """A guard is open for the code that is called in it, and can be lifted for our own work."""
    counted: list[int] = []
    with guarded_query():
        worker = threading.Thread(target=lambda: counted.append(spark.range(3).count()))
        worker.start()
        worker.join()
        with unguarded():
            counted.append(spark.range(4).count())
            spark.sql("SET sluice.test.unguarded = 5")
    counted.append(int(spark.conf.get("sluice.test.unguarded") or 0))
    assert counted == [3, 4, 5]


def test_afterwards_pysparks_classes_are_as_before() -> None:
    """Also when the guarded code raised."""
    before = [refusal.owner.__dict__[refusal.method] for refusal in refusals()]
    sql = SparkSession.__dict__["sql"]
    with pytest.raises(ZeroDivisionError), guarded_query(), guarded_module():
        raise ZeroDivisionError
    assert [refusal.owner.__dict__[refusal.method] for refusal in refusals()] == before
    assert SparkSession.__dict__["sql"] is sql
