"""Options of `cloudFiles`: the names that Spark's formats have, and warnings about options without an effect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.errors import SluiceError
from framework.foundation.jvm_cache import java_class, scala_items
from framework.sources.cloud_files.option_names import OF_FORMATS
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLASSES = {
    "csv": "catalyst.csv.CSVOptions", "json": "catalyst.json.JSONOptions", "xml": "catalyst.xml.XmlOptions",
    "parquet": "execution.datasources.parquet.ParquetOptions", "orc": "execution.datasources.orc.OrcOptions",
    "text": "execution.datasources.text.TextOptions", "avro": "avro.AvroOptions",
}  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.usefixtures("spark")
def test_each_format_has_the_options_that_spark_lists(kind: str) -> None:
    """A new option of Spark must not be refused, and one that is gone must not be accepted."""
    listed = java_class(f"org.apache.spark.sql.{CLASSES[kind]}").getAllOptions().toSeq()
    assert set(OF_FORMATS[kind]) == set(scala_items(listed))


def test_options_without_an_effect_are_warnings_and_unknown_ones_are_errors(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each as the user spells it, of a reader and of `read_files`."""
    landing = Landing(world=EngineWorld(spark, tmp_path), root=tmp_path / "landing")
    landing.put("in/1.json", {"id": 1})
    given = {"cloudFiles.useNotifications": "true", "cloudFiles.BackfillInterval": "1 day", "Header": "true"}
    warnings = landing.world.pipeline(landing.declare({"in": given})).validate().warnings
    assert sorted((each.condition, each.fields["option"]) for each in warnings) == [
        ("CLOUD_FILES_OPTION_WITHOUT_EFFECT", name)
        for name in ("Header", "cloudFiles.BackfillInterval", "cloudFiles.useNotifications")
    ]
    assert all(each.location is not None for each in warnings)
    assert landing.run({"in": given}) == {}
    assert landing.shown("in") == [({"id": "1"}, {})]

    def declare() -> None:
        @dp.table(name="rows")
        def rows() -> DataFrame:
            query = "SELECT * FROM STREAM read_files('{}', format => 'json', MultiLin => 'true')"
            return spark.sql(query.format(landing.root / "in"))

    with pytest.raises(SluiceError, match=r"no option `MultiLin`\. Did you mean `multiLine`\?"):
        landing.world.run(declare)
