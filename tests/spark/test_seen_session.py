"""Pipeline code sees the pipeline's session, whichever call it uses to get a session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.foundation.errors import GraphErrors
from tests.support.plain_tables import table_rows

MODULE = """
from framework import pipelines as dp
from pyspark.sql import SparkSession

session = SparkSession.{call}

@dp.materialized_view
def first():
    return session.range(int(session.conf.get("wanted")))

@dp.materialized_view
def second():
    return SparkSession.{call}.range(int(SparkSession.{call}.conf.get("wanted")) + 1)
"""


def pipeline(folder: Path, spark: SparkSession, call: str) -> Pipeline:
    """A pipeline whose views have the number of rows in its configuration."""
    path = folder / "module.py"
    path.write_text(MODULE.format(call=call), encoding="utf-8")
    wanted = {"wanted": "3"}
    return Pipeline(name="seen", modules=[path], storage=str(folder / "storage"), configuration=wanted, spark=spark)


@pytest.mark.parametrize(
    "call", ["active()", "getActiveSession()", "builder.getOrCreate()", "builder.appName('mine').getOrCreate()"]
)
def test_every_way_to_the_session_leads_to_the_pipelines_configuration(
    spark: SparkSession, tmp_path: Path, call: str
) -> None:
    """While a module loads and while its query functions run."""
    made = pipeline(tmp_path, spark, call)
    made.run()
    paths = [made.storage.path("tables", "main", "default", name) for name in ("first", "second")]
    assert [len(table_rows(spark, path)) for path in paths] == [3, 4]


def test_a_builder_with_settings_is_a_session_mutation(spark: SparkSession, tmp_path: Path) -> None:
    """Settings belong into the pipeline's spec; they are not dropped without a word."""
    with pytest.raises(GraphErrors) as caught:
        pipeline(tmp_path, spark, "builder.config('a', 'b').getOrCreate()").validate()
    (error,) = caught.value.errors
    assert error.condition == "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF"
    assert error.location is not None
    assert (Path(error.location.file).name, error.location.line) == ("module.py", 5)


def test_outside_a_pipeline_pysparks_own_answer_stands(spark: SparkSession, tmp_path: Path) -> None:
    """The patches are lifted when the modules are loaded."""
    before = SparkSession.getActiveSession()
    pipeline(tmp_path, spark, "active()").validate()
    assert SparkSession.getActiveSession() is before
    assert "seen_session" not in SparkSession.Builder.getOrCreate.__module__
