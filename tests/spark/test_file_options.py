"""Options of `cloudFiles`: the names that Spark's formats have, and warnings about options without an effect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.engine.jvm.java import java_class, scala_items
from framework.foundation.errors import SluiceError
from framework.sources.cloud_files.settings.option_names import OF_FORMATS
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


NESTED = "<at><code>007</code><n>7</n></at><item><id>1</id></item><item><id>02</id><n>0.5</n></item>"


def test_columns_that_lose_leading_zeros_are_named_with_the_hints_that_keep_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In CSV of several headers, in XML, also within columns, and in folders; a hint, a text and a zero are none."""
    landing = Landing(world=EngineWorld(spark, tmp_path), root=tmp_path / "landing")
    for name, text in {
        "csv/day=01/a.csv": "zip,n,text,code,part\n01234,0,007,1,0.5\n",
        "csv/day=02/b.csv": "code,zip\n-007,99\n",
        "xml/a.xml": f"<rows><row><zip>00501</zip><n>10</n>{NESTED}</row></rows>",
    }.items():
        path = landing.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    infer = {"cloudFiles.inferColumnTypes": "true"}
    given = {
        "csv": {**infer, "cloudFiles.format": "csv", "header": "true", "cloudFiles.schemaHints": "text STRING"},
        "xml": {**infer, "cloudFiles.format": "xml", "rowTag": "row"},
    }

    def told() -> dict[str, tuple[str, str]]:
        found = landing.world.pipeline(landing.declare(given)).validate().warnings
        assert {each.condition for each in found} <= {"CLOUD_FILES_ZEROS_LOST"}
        places = [str(each.fields["path"]).rpartition("/")[2] for each in found]
        texts = [(str(each.fields["columns"]), str(each.fields["hints"])) for each in found]
        return dict(zip(places, texts, strict=True))

    all_of_csv = ("day, zip, code", "day STRING, zip STRING, code STRING")
    all_of_xml = ("at.code, item.element.id, zip", "at.code STRING, item.element.id STRING, zip STRING")
    assert told() == {"csv": all_of_csv, "xml": all_of_xml}
    given["xml"]["cloudFiles.schemaHints"] = "zip STRING, at.n INT, item ARRAY<STRUCT<id STRING, n DOUBLE>>"
    assert told() == {"csv": all_of_csv, "xml": ("at.code", "at.code STRING")}
    given["csv"]["cloudFiles.schemaHints"] = all_of_csv[1] + ", text STRING"
    given["xml"]["cloudFiles.schemaHints"] = all_of_xml[1]
    assert told() == {}
    assert landing.run(given) == {}
    found = landing.shown("xml")[0][0]
    assert (found["zip"], found["at"]["code"], [each["id"] for each in found["item"]]) == ("00501", "007", ["1", "02"])
    rows = [row for row, _ in landing.shown("csv")]
    assert sorted((row["zip"], row["code"], row["day"]) for row in rows) == [("01234", "1", "01"), ("99", "-007", "02")]


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
