"""SQL of a Databricks workspace: functions of catalogs, DISTINCT over streams, keys that modules set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.foundation.errors import GraphErrors
from framework.plan.steps import SkipStep
from framework.run.update.results import UpdateState
from framework.views.graph import graph_json
from tests.support.plain_tables import append_rows, table_rows

MODULE = """
CREATE OR REPLACE FUNCTION main.default.price(cents BIGINT) RETURNS DOUBLE COMMENT 'x' RETURN cents / 100;
USE SCHEMA tools;
CREATE FUNCTION IF NOT EXISTS twice(x DOUBLE) RETURNS DOUBLE RETURN x * 2;
CREATE TEMPORARY FUNCTION ids() RETURNS TABLE (id INT) RETURN SELECT explode(array(1, 2)) AS id;
USE main.default;
CREATE OR REPLACE MATERIALIZED VIEW prices AS
SELECT main.default.price(250) AS a, `Default`.price(100) AS b, tools.twice(main.tools.twice(1)) AS c, count(*) AS n
FROM ids() WHERE 'price(1)' <> '' AND id = id;
CREATE STREAMING TABLE landed AS
SELECT id, name FROM STREAM read_files('{folder}', format => 'js' || secret('f', 'end'));
CREATE STREAMING TABLE once AS SELECT DISTINCT id FROM STREAM landed;
CREATE STREAMING TABLE united AS
SELECT * FROM (SELECT id, name FROM STREAM landed UNION SELECT id, upper(name) FROM STREAM landed) WHERE id < 3;
CREATE STREAMING TABLE counted AS SELECT id, count(*) AS n FROM STREAM landed GROUP BY id ORDER BY n;
CREATE TEMPORARY VIEW named AS SELECT upper(name) AS name FROM STREAM landed WHERE name < 'z';
CREATE STREAMING TABLE total (CONSTRAINT some EXPECT (n > 1)) AS
SELECT max(name) AS last, count(*) AS n FROM STREAM named;
CREATE MATERIALIZED VIEW casts AS SELECT CAST('' AS FLOAT) AS f, CAST('2.5' AS INT) AS i, '2.5' > 0 AS more;
SELECT * FROM once;
"""


def rows(made: Pipeline, spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    """The stored rows of a table, sorted."""
    path = made.storage.path("tables", "main", "default", table)
    return sorted(map(tuple, table_rows(spark, path, without="__sluice")), key=repr)


def land(folder: Path, name: str, *found: tuple[int, str]) -> None:
    """Write a file of rows."""
    lines = (json.dumps({"id": number, "name": text}) for number, text in found)
    (folder / name).write_text("\n".join(lines), encoding="utf-8")


def test_functions_of_a_catalog_and_distinct_streams_have_their_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function is found by each of its names; a row that came in an earlier update is appended once.

    An option may be a secret, also in part.
    """
    monkeypatch.setenv("SLUICE_SECRET_F_END", "on")
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "a.sql").write_text(MODULE.replace("{folder}", str(folder)), encoding="utf-8")
    made = Pipeline(
        name="workspace", modules=[tmp_path / "a.sql"], storage=tmp_path / "storage", spark=spark, development=True,
        spark_conf={"spark.sql.ansi.enabled": "false"},
    )  # fmt: skip
    land(folder, "1.json", (1, "a"), (1, "a"), (2, "b"))
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "prices") == [(2.5, 1.0, 4.0, 2)]
    assert rows(made, spark, "casts") == [(None, 2, True)]
    assert rows(made, spark, "once") == [(1,), (2,)]
    assert rows(made, spark, "counted") == [(1, 2), (2, 1)]
    assert rows(made, spark, "total") == [("B", 3)]
    land(folder, "2.json", (2, "b"), (2, "c"), (3, "d"))
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "once") == [(1,), (2,), (3,)]
    assert rows(made, spark, "counted") == [(1, 2), (2, 3), (3, 1)]
    assert rows(made, spark, "total") == [("D", 6)]
    assert rows(made, spark, "united") == [(1, "A"), (1, "a"), (2, "B"), (2, "C"), (2, "b"), (2, "c")]
    skipped = {step.dataset.table for step in made.plan().steps if isinstance(step, SkipStep)}
    assert {"counted", "total", "casts"} <= skipped
    conditions = [each.condition for each in made.validate().warnings]
    assert conditions == ["STATEMENT_PASSED_OVER", "STREAM_GROUPED_AS_VIEW", "STREAM_GROUPED_AS_VIEW"]


FAULTY = """CREATE STREAMING TABLE before AS
SELECT id,
FROM STREAM read_files(
  'in',
  format => 'json'
);
CREATE STREAMING TABLE behind AS
SELECT id FROM STREAM read_files(
  '{folder}', schema => 'id INT', format => 'json'
) WHERE id ==== 3;
CREATE STREAMING TABLE within AS
SELECT id
FROM STREAM read_files('in', format => );
CREATE STREAMING TABLE columns AS SELECT id FROM STREAM read_files(
  '{folder}', schema => 'id INT', format => 'json'
)
WHERE name = 'a';
"""


def test_faults_of_a_query_that_reads_files_show_its_own_text_and_line(spark: SparkSession, tmp_path: Path) -> None:
    """Before, behind and within a call of several lines: the mark is at the place in the text, which is complete."""
    file = tmp_path / "a.sql"
    file.write_text(FAULTY.replace("{folder}", str(tmp_path)), encoding="utf-8")
    with pytest.raises(GraphErrors) as raised:
        Pipeline(name="faulty", modules=[file], storage=tmp_path / "storage", spark=spark).validate()
    found = {str(error.fields["flow"]).rpartition(".")[2]: error for error in raised.value.errors}
    lines = {flow: error.location and error.location.line for flow, error in found.items()}
    assert lines == {"before": 3, "behind": 10, "within": 13, "columns": 17}
    text = str(raised.value)
    assert "__sluice" not in text
    assert "at or near 'read_files'" in text
    assert "FROM STREAM read_files(\n------------^^^\n  'in',\n  format => 'json'\n)" in text
    assert f") WHERE id ==== 3\n{'-' * 13}^^^\n" in text
    assert "SELECT id\nFROM STREAM read_files('in', format => )\n---------------------------------------^^^" in text


PYTHON = """from framework import pipelines as dp

spark.conf.set("pipelines.maxParallelFlows", 1)
spark.conf.set(key="pipelines.maxFlowRetryAttempts", value="0")


@dp.materialized_view(
    schema="id BIGINT NOT NULL COMMENT 'a, b', n INT PRIMARY KEY RELY COMMENT 'c', CONSTRAINT k PRIMARY KEY (id)",
    table_properties={
        "delta.tuneFileSizesForRewrites": "true", "delta.feature.catalogManaged": "supported",
        "delta.isolationLevel": "WriteSerializable",
        "delta.enableChangeDataFeed": "true", "delta.feature.deletionVectors": "supported",
        "Delta.LogRetentionDuration": "interval 3 days", "delta.deletedFileRetentionDuration": "interval 2 days",
    },
)
def numbers():
    return spark.sql("SELECT id, CAST(1 AS INT) AS n FROM range(3)")
"""
INVALID = """from framework import pipelines as dp


@dp.materialized_view(table_properties={"delta.%s": "%s", "of.mine": "1", "pipelines.reset.alowed": "false"})
def numbers():
    return spark.range(3)
"""


def test_what_only_tunes_has_no_effect_and_keys_are_information(spark: SparkSession, tmp_path: Path) -> None:
    """Notes name the properties; columns keep their comments and NOT NULL; modules set keys of the configuration."""
    (tmp_path / "a.py").write_text(PYTHON, encoding="utf-8")
    made = Pipeline(name="tuned", modules=[tmp_path / "a.py"], storage=tmp_path / "storage", spark=spark)
    graph = made.validate()
    properties = [each.fields["property"] for each in graph.warnings]
    assert properties == [
        "delta.feature.catalogManaged = supported", "delta.isolationLevel = WriteSerializable",
        "delta.tuneFileSizesForRewrites = true",
    ]  # fmt: skip
    assert graph_json(graph)["datasets"][0]["keys"] == ["n PRIMARY KEY RELY", "CONSTRAINT k PRIMARY KEY (id)"]
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "numbers") == [(0, 1), (1, 1), (2, 1)]
    fields = made.table("numbers").schema.fields
    assert [each.metadata.get("comment") for each in fields] == ["a, b", "c"]
    assert spark.conf.get("pipelines.maxParallelFlows", None) is None


@pytest.mark.parametrize(
    ("name", "value"), [("nothing", "1"), ("appendOnly", "maybe"), ("feature.nothing", "supported")]
)
def test_a_property_that_delta_refuses_is_an_error_before_a_row_is_written(
    spark: SparkSession, tmp_path: Path, name: str, value: str
) -> None:
    """Delta would refuse it when the table is created, after other tables were written."""
    (tmp_path / "a.py").write_text(INVALID % (name, value), encoding="utf-8")
    made = Pipeline(name="refused", modules=[tmp_path / "a.py"], storage=tmp_path / "storage", spark=spark)
    with pytest.raises(GraphErrors) as caught:
        made.validate()
    (unknown, error) = sorted(caught.value.errors, key=lambda each: each.condition, reverse=True)
    assert (unknown.condition, unknown.fields["property"]) == ("TABLE_PROPERTY_UNKNOWN", "pipelines.reset.alowed")
    assert "Did you mean `pipelines.reset.allowed`?" in unknown.render()
    assert (error.condition, error.fields["property"]) == ("TABLE_PROPERTY_INVALID", f"delta.{name}")
    assert error.location is not None
    assert error.location.line == 4


VIEWS = """from framework import pipelines as dp

spark.conf.set("pipelines.incompatibleViewCheck.enabled", "false")


@dp.temporary_view
def changes():
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()


@dp.materialized_view
def total():
    return spark.read.table("changes").groupBy().count()


@dp.table
def messages():
    login = {"kafka.sasl.jaas.config": "kafkashaded.org.x.Login required;", "rowsPerBatch": "3"}
    reader = spark.readStream.format("kafka").options(**login)
    try:
        return reader.load()
    except Exception:
        options = reader._jreader.extraOptions()
        raise ValueError(options.apply("kafka.sasl.jaas.config"))
"""


def test_an_error_names_the_key_of_databricks_and_classes_of_kafka_have_their_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The check of views can't be switched off here; a login module is looked for where the client has it."""
    (tmp_path / "a.py").write_text(VIEWS, encoding="utf-8")
    made = Pipeline(name="views", modules=[tmp_path / "a.py"], storage=tmp_path / "storage", spark=spark)
    with pytest.raises(GraphErrors) as caught:
        made.validate()
    errors = {each.condition: each.render() for each in caught.value.errors}
    assert "`pipelines.incompatibleViewCheck.enabled` has no effect" in errors["INCOMPATIBLE_STREAMING_VIEW_READ"]
    assert "ValueError: org.x.Login required;" in errors["FLOW_QUERY_FAILED"]


SQL_VIEWS = """
CREATE VIEW base COMMENT 'c' AS SELECT 1 AS id;
USE main.tools;
CREATE OR REPLACE VIEW IF NOT EXISTS shown (id COMMENT 'x') AS SELECT id + 1 AS id FROM main.default.base;
CREATE MATERIALIZED VIEW main.default.stored AS SELECT id FROM shown UNION ALL SELECT id FROM main.tools.shown;
"""
PYTHON_VIEWS = """from framework import pipelines as dp


@dp.materialized_view
def joined():
    spark.read.table("stored").createOrReplaceTempView("Numbers")
    spark.sql("CREATE OR REPLACE TEMP VIEW doubled AS SELECT id * 2 AS id FROM numbers")
    spark.range(1).createTempView("gone")
    assert spark.catalog.dropTempView("gone")
    columns = "n.id, d.id AS twice, m.id AS again"
    return spark.sql(f"SELECT {columns} FROM numbers n CROSS JOIN doubled d JOIN numbers m USING (id)")


@dp.table
def streamed():
    spark.readStream.table("landed").createOrReplaceTempView("numbers")
    return spark.sql("SELECT id + 100 AS id FROM numbers").union(spark.table("numbers"))


@dp.table
def landed():
    return spark.readStream.format("delta").load("{source}")
"""


def test_views_of_sql_files_and_of_query_functions_have_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    """CREATE VIEW stores its rows, which each of its names has; a query function's own view is that of its call."""
    append_rows(spark, str(tmp_path / "source"), [(5,)], "id LONG")
    (tmp_path / "a.sql").write_text(SQL_VIEWS, encoding="utf-8")
    (tmp_path / "b.py").write_text(PYTHON_VIEWS.replace("{source}", str(tmp_path / "source")), encoding="utf-8")
    modules = [tmp_path / "a.sql", tmp_path / "b.py"]
    made = Pipeline(name="views", modules=modules, storage=tmp_path / "storage", spark=spark, development=True)
    result = made.run()
    assert result.state is UpdateState.COMPLETED, str(result)
    assert rows(made, spark, "stored") == [(2,), (2,)]
    assert rows(made, spark, "joined") == [(2, 4, 2)] * 8
    assert rows(made, spark, "streamed") == [(105,), (5,)]
    notes = {each.fields["view"]: each for each in made.validate().warnings}
    assert {str(view): each.condition for view, each in notes.items()} == {
        "base": "VIEW_STORED_AS_TABLE", "main.tools.shown": "VIEW_STORED_AS_TABLE"
    }  # fmt: skip
    assert str(notes["base"].location).endswith("a.sql:2")
    assert spark.catalog.tableExists("numbers") is False
    skipped = {step.dataset.table for step in made.plan().steps if isinstance(step, SkipStep)}
    assert {"base", "shown", "stored", "joined"} <= skipped


HABITS = """
DECLARE OR REPLACE VARIABLE least INT DEFAULT 2;
CREATE OR REPLACE FUNCTION main.default.shout(word STRING COMMENT 'a; b', times INT)
RETURNS STRING LANGUAGE PYTHON NOT DETERMINISTIC COMMENT 'c'
AS $$
  # it's Python; with quotes
  text = '''!
!'''
  return word.upper() + text * times if word else None
$$;
CREATE FUNCTION one() RETURNS INT LANGUAGE PYTHON AS $$ return 1 $$;
CREATE MATERIALIZED VIEW loud AS
SELECT main.default.shout('a', 1) AS a, one() AS b, id FROM range(4) WHERE id >= least;
CREATE MATERIALIZED VIEW pivoted AS
SELECT * FROM (SELECT id, 'x' AS k FROM loud) PIVOT (sum(id) FOR k IN ('x', 'y'));
"""
SINK = """from framework import pipelines as dp

dp.create_sink(name="outlet", format="delta", options={"tableName": "main.exported.numbers"})
dp.create_sink(name="into", format="delta", options={"tableName": "TARGET"})


@dp.table(name="TARGET")
def numbers():
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load().select("value")


@dp.append_flow(target="outlet")
def copy_out():
    return spark.readStream.table("target")
"""


def test_bodies_in_python_variables_pivots_and_sinks_by_name_are_as_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A sink's table is found by its name in the storage; a sink into a dataset of the pipeline is an error."""
    (tmp_path / "a.sql").write_text(HABITS, encoding="utf-8")
    (tmp_path / "b.py").write_text(SINK, encoding="utf-8")
    modules = [tmp_path / "a.sql", tmp_path / "b.py"]
    made = Pipeline(name="habits", modules=modules, storage=tmp_path / "storage", spark=spark)
    with pytest.raises(GraphErrors) as caught:
        made.validate()
    assert [each.condition for each in caught.value.errors] == ["DELTA_SINK_INTO_DATASET"], str(caught.value)
    (tmp_path / "b.py").write_text(SINK.replace(SINK.splitlines()[3], ""), encoding="utf-8")
    made = Pipeline(name="habits", modules=modules, storage=tmp_path / "storage", spark=spark)
    assert made.run().state is UpdateState.COMPLETED
    assert rows(made, spark, "loud") == [("A!\n!", 1, 2), ("A!\n!", 1, 3)]
    assert rows(made, spark, "pivoted") == [(5, None)]
    exported = made.storage.path("tables", "main", "exported", "numbers")
    assert sorted(map(tuple, table_rows(spark, exported))) == rows(made, spark, "target")
    assert made.sql("SELECT count(*) > 0 FROM main.exported.numbers").collect()[0][0]
