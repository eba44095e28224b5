"""The inputs of a sandbox: what the code reads is what the test gives, in every kind and format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql.types import StructType

from framework import Pipeline
from framework import pipelines as dp
from framework.declare.workspace.dbutils import DBUtils
from framework.foundation.errors import GraphErrors, RequestErrors, UserError
from framework.sandbox.input_files import FileFormat
from framework.sandbox.rows import Rows
from framework.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark: Any = None
dbutils = DBUtils()
"""The globals of pipeline modules."""

ORDERS = "id INT, customer STRING, amount DECIMAL(9,2), at TIMESTAMP"
TABLE = """
    id | customer | amount | at
    1  | Ada      | 120.50 | 2026-01-31 12:00
    2  | "a, b"   | 40     | 2026-01-31 12:00:01.5
    3  |          |        |
"""
ROWS = [(1, "Ada"), (2, "a, b"), (3, None)]


def sandbox(spark: SparkSession, folder: Path, *modules: Any, **options: Any) -> Sandbox:
    """A sandbox of a pipeline that functions declare."""
    pipeline = Pipeline(name="kit", modules=[*modules], schema="s", spark=spark, storage=folder / "real", **options)
    return pipeline.sandbox(folder / "sandbox")


def pairs(test: Sandbox, dataset: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a dataset as tuples, sorted."""
    return sorted((tuple(row.values()) for row in test.rows(dataset, *columns)), key=repr)


def batch_of(kind: str, options: dict[str, str]) -> Callable[[], Any]:
    """A query that reads files of a format."""

    def batch() -> Any:
        reader = spark.read.format(kind).options(**options)
        return (reader if kind == "delta" else reader.schema(ORDERS)).load(f"s3://lake/batch/{kind}")

    return batch


def stream_of(kind: str, options: dict[str, str]) -> Callable[[], Any]:
    """A query that streams files of a format; the path is an option."""

    def stream() -> Any:
        reader = spark.readStream.format(kind).options(**options)
        reader = reader if kind == "delta" else reader.schema(ORDERS)
        return reader.option("path", f"dbfs:/mnt/stream/{kind}").load()

    return stream


def by_path() -> None:
    """Declare a dataset for each format, most as batches and as streams."""
    shapes: dict[str, dict[str, str]] = {
        "json": {}, "csv": {"header": "true", "sep": ";"}, "parquet": {}, "delta": {}, "orc": {},
        "xml": {"rowTag": "order"},
    }  # fmt: skip
    for kind, options in shapes.items():
        dp.materialized_view(name=f"batch_{kind}")(batch_of(kind, options))
        if kind in {"json", "csv", "delta"}:
            dp.table(name=f"stream_{kind}")(stream_of(kind, options))

    @dp.table
    def loaded() -> Any:
        reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "csv").option("header", "true")
        reader = reader.option("cloudFiles.schemaHints", "id INT").option(
            "cloudFiles.schemaLocation", "s3://lake/schema"
        )
        return reader.load("/Volumes/main/raw/orders/*.csv")

    @dp.materialized_view
    def lines() -> Any:
        return spark.read.text(["data/a.txt", "data/b.txt"])

    @dp.materialized_view
    def files() -> Any:
        return (
            spark.read.format("binaryFile")
            .option("pathGlobFilter", "*.png")
            .load("images")
            .selectExpr("element_at(split(path, '/'), -1) AS name", "content")
        )

    @dp.materialized_view
    def inferred() -> Any:
        return spark.read.json("landing/*/events_*.json", multiLine=True)

    @dp.materialized_view
    def in_sql() -> Any:
        return spark.sql(
            "SELECT id, customer FROM parquet.`s3://lake/batch/parquet` UNION ALL "
            "SELECT * FROM read_files('s3://lake/sql', format => 'json', schema => 'id INT, customer STRING')"
        )


def test_a_read_by_path_reads_given_rows_in_the_format_of_the_read(spark: SparkSession, tmp_path: Path) -> None:
    """Each format is read with its real reader and its options from files with the given rows, as batch and stream."""
    with sandbox(spark, tmp_path, by_path) as test:
        for kind in ("json", "csv", "parquet", "orc", "xml"):
            test.given(f"s3://lake/batch/{kind}", TABLE)
        test.given("lake/batch/delta", TABLE, schema=ORDERS)
        for kind in ("json", "csv"):
            test.given(f"mnt/stream/{kind}", TABLE)
        test.given("mnt/stream/delta", TABLE)
        test.given("raw/orders", "id | name\n1 | Ada")
        test.given("a.txt", [("first",), ("second",)])
        test.given("b.txt", content="third\n")
        test.given("images", [{"path": "x/one.png", "content": b"1"}, {"path": "two.jpg", "content": b"2"}])
        test.given("landing", [{"id": 1, "tags": ["a"]}, {"id": 2, "tags": []}])
        test.given("lake/sql", [{"id": 9, "customer": "Grace"}])
        test.update()
        for kind in ("json", "csv", "parquet", "orc", "xml", "delta"):
            assert (kind, pairs(test, f"batch_{kind}", "id", "customer")) == (kind, ROWS)
        amounts = [str(row["amount"]) for row in test.rows("batch_json")]
        assert sorted(amounts) == ["120.50", "40.00", "None"]
        for kind in ("json", "csv", "delta"):
            assert pairs(test, f"stream_{kind}", "id", "customer") == ROWS
        assert pairs(test, "loaded", "id", "name") == [(1, "Ada")]
        assert pairs(test, "lines") == [("first",), ("second",), ("third",)]
        assert [(name, bytes(content)) for name, content in pairs(test, "files")] == [("one.png", b"1")]
        assert pairs(test, "inferred") == [(1, ["a"]), (2, [])]
        assert pairs(test, "in_sql") == [(1, "Ada"), (2, "a, b"), (3, None), (9, "Grace")]

        test.arrives("mnt/stream/json", [(4, "Alan", 1, None)])
        test.arrives("mnt/stream/csv", [{"id": 5}])
        test.arrives("mnt/stream/delta", [{"id": 6}])
        test.arrives("raw/orders", [{"id": 7, "name": "Alan"}])
        test.update("stream_json", "stream_csv", "stream_delta", "loaded")
        assert pairs(test, "stream_json", "id", "customer") == [*ROWS, (4, "Alan")]
        assert pairs(test, "stream_csv", "id", "customer") == [*ROWS, (5, None)]
        assert pairs(test, "stream_delta", "id", "customer") == [*ROWS, (6, None)]
        assert pairs(test, "loaded", "id", "name") == [(1, "Ada"), (7, "Alan")]


def test_a_csv_file_that_spark_writes_keeps_the_blanks_of_texts(spark: SparkSession, tmp_path: Path) -> None:
    """A text with a line break, which `multiLine` reads, is written by Spark's writer."""
    schema = StructType().add("id", "integer").add("text", "string")
    rows = [(1, "two\nlines"), (2, " blanks, around\t"), (3, None)]
    options = {"multiline": "true"}
    form = FileFormat(name="csv", options=options, schema=schema)
    form.write(spark, tmp_path / "rows.csv", Rows.of(rows), schema)
    found = spark.read.schema(schema).options(**options).csv(str(tmp_path / "rows.csv"))
    assert [tuple(row) for row in found.collect()] == rows


def topics() -> None:
    """Declare datasets that read topics of Kafka."""

    @dp.table
    def streamed() -> Any:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "broker:9092")
        frame = reader.option("subscribe", "orders,returns").option("includeHeaders", "true").load()
        return frame.selectExpr("topic", "offset", "CAST(key AS STRING) AS k", "CAST(value AS STRING) AS v", "headers")

    @dp.materialized_view
    def all_so_far() -> Any:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", "broker:9092")
        return reader.option("subscribePattern", "ord.*").load().selectExpr("CAST(value AS STRING) AS v")

    @dp.table
    def in_sql() -> Any:
        return spark.sql(
            "SELECT value:id::INT AS id FROM (SELECT parse_json(CAST(value AS STRING)) AS value FROM STREAM "
            "read_kafka(bootstrapServers => 'broker:9092', subscribe => 'orders'))"
        )


def test_topics_are_read_without_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    """Streams, batches and SQL read given messages with Kafka's columns; offsets count on."""
    with sandbox(spark, tmp_path, topics) as test:
        test.given("kafka:orders", [{"id": 1}, ("key", {"id": 2})])
        test.given("returns", [])
        test.update()
        test.arrives("returns", ["a text"])
        test.arrives("orders", [{"id": 3}])
        test.update()
        assert pairs(test, "streamed", "topic", "offset", "k", "v") == [
            ("orders", 0, None, '{"id": 1}'),
            ("orders", 1, "key", '{"id": 2}'),
            ("orders", 2, None, '{"id": 3}'),
            ("returns", 0, None, "a text"),
        ]
        assert pairs(test, "all_so_far") == [('{"id": 1}',), ('{"id": 2}',), ('{"id": 3}',)]
        assert pairs(test, "in_sql") == [(1,), (2,), (3,)]


def tables() -> None:
    """Declare datasets that read each other, tables of others, and databases."""

    @dp.table
    def raw() -> Any:
        return spark.readStream.json("s3://lake/raw")

    @dp.table
    def events() -> Any:
        return spark.readStream.table("raw").selectExpr(
            "CAST(id AS INT) AS id", "CAST(amount AS DECIMAL(9,2)) AS amount"
        )

    @dp.materialized_view(schema="id INT, amount DECIMAL(5,1)")
    def declared() -> Any:
        return spark.read.table("events")

    @dp.materialized_view
    def names() -> Any:
        return spark.read.table("other.sales.customers").where("name IS NOT NULL")

    @dp.table
    def joined() -> Any:
        return spark.sql(
            "SELECT e.id, c.name, e.amount FROM STREAM(events) AS e JOIN other.sales.customers AS c ON e.id = c.id"
        )

    @dp.materialized_view
    def total() -> Any:
        return spark.sql("SELECT sum(amount) AS amount, typeof(min(amount)) AS type FROM declared")

    dp.ingest_database(
        "bank_copy", connection="bank", objects=[{"table": {"source_schema": "public", "source_table": "accounts"}}]
    )

    @dp.materialized_view
    def copies() -> Any:
        return spark.read.table("accounts").select("id", "owner")

    @dp.materialized_view
    def of_databases() -> Any:
        snapshot = (
            spark.read.format("postgres_snapshot").option("connection", "bank").option("table", "public.t").load()
        )
        plain = spark.read.format("jdbc").option("url", "jdbc:x").option("dbtable", "shop.items").load()
        called = spark.read.jdbc("jdbc:x", "shop.more")
        return snapshot.select("id").unionAll(plain.select("id")).unionAll(called.select("id"))


def test_a_given_dataset_or_table_is_read_in_place_of_the_real_one(spark: SparkSession, tmp_path: Path) -> None:
    """The flows of given datasets, and of datasets that only feed them, do not run; no database is connected to."""
    with sandbox(spark, tmp_path, tables) as test:
        test.given("events", [(1, "2.50"), (2, "40")], schema="id INT, amount STRING")
        test.given("declared", [(7, 1.5), (8, None)])
        test.given("customers", "id | name\n1 | Ada\n2 |")
        test.given("postgres:bank/public.accounts", [{"id": 1, "owner": "Ada", "hidden": 1}])
        test.given("public.t", [{"id": 1}])
        test.given("shop.items", [{"id": 2}])
        test.given("jdbc:shop.more", [{"id": 3}])
        result = test.update()
        assert {flow.dataset.table for flow in result.flows} == {"names", "joined", "total", "copies", "of_databases"}
        assert pairs(test, "joined") == [(1, "Ada", "2.50"), (2, None, "40")]
        assert pairs(test, "names") == [(1, "Ada")]
        assert [(str(row["amount"]), row["type"]) for row in test.rows("total")] == [("1.5", "decimal(5,1)")]
        assert pairs(test, "copies") == [(1, "Ada")]
        assert pairs(test, "of_databases") == [(1,), (2,), (3,)]
        test.arrives("events", [(1, "7", "new")], schema="id INT, amount STRING, note STRING")
        test.update("joined")
        assert pairs(test, "joined") == [(1, "Ada", "2.50"), (1, "Ada", "7"), (2, None, "40")]
        assert [row["id"] for row in test.rows("declared", "id")] == [7, 8]


def test_an_input_that_is_not_given_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """All missing inputs of the named datasets are reported together, each with its line."""
    with sandbox(spark, tmp_path, tables) as test, pytest.raises(GraphErrors) as missing:
        test.update("names", "joined", "copies")
    found = {error.fields["source"]: error for error in missing.value.errors}
    assert {*found} == {"other.sales.customers", "s3://lake/raw", "database:bank/public.accounts"}
    assert {error.condition for error in found.values()} == {"TEST_INPUT_NOT_GIVEN"}
    lines = Path(__file__).read_text("utf-8").splitlines()
    location = found["s3://lake/raw"].location
    assert location is not None
    assert "s3://lake/raw" in lines[location.line - 1]


def test_the_inputs_of_a_test_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    """Inputs that nothing reads, that are given twice, or that two reads could mean, are errors."""
    with sandbox(spark, tmp_path, by_path) as test:
        test.given("batch/jsno", TABLE)
        test.given("batch/json", TABLE)
        with pytest.raises(UserError) as twice:
            test.given("batch/json", TABLE)
        with pytest.raises(RequestErrors) as unused:
            test.update("batch_json")
        test.given("batch_csv", [{"id": 1}])
        with pytest.raises(UserError) as own:
            test.update("batch_csv")
    assert twice.value.condition == "TEST_INPUT_GIVEN_TWICE"
    (error,) = unused.value.errors
    assert (error.condition, error.fields["source"]) == ("TEST_INPUT_UNUSED", "batch/jsno")
    assert own.value.condition == "TEST_DATASET_GIVEN"
    with sandbox(spark, tmp_path / "second", by_path) as test:
        test.given("csv", TABLE)
        with pytest.raises(GraphErrors) as ambiguous:
            test.update("batch_csv", "stream_csv")
    assert [each.condition for each in ambiguous.value.errors] == ["TEST_INPUT_AMBIGUOUS"]


def with_views() -> None:
    """Declare two tables over two inputs, and a view of each kind."""
    dp.temporary_view(name="large")(lambda: spark.read.table("first").where("id > 1"))
    dp.temporary_view(name="arriving")(lambda: spark.readStream.schema(ORDERS).json("landing/first"))
    dp.table(name="first")(lambda: spark.readStream.table("arriving"))
    dp.materialized_view(name="second")(lambda: spark.read.schema(ORDERS).json("landing/second"))


def test_inputs_of_other_datasets_may_be_given_and_views_compared(spark: SparkSession, tmp_path: Path) -> None:
    """What only another dataset reads is no error; a temporary view has the rows of its query, unless it streams."""
    with sandbox(spark, tmp_path, with_views) as test:
        test.given("landing/first", TABLE)
        test.given("landing/second", TABLE)
        test.update("first")
        assert {str(step.dataset) for step in test.plan("second").steps} == {"main.s.second"}
        test.expect("large", [(2,), (3,)], only=["id"])
        assert pairs(test, "large", "id") == [(2,), (3,)]
        with pytest.raises(UserError) as streams:
            test.expect("arriving", [])
    assert streams.value.condition == "TEST_VIEW_STREAMS"


def reaching_out(place: Path) -> Any:
    """Return the declarations of a pipeline that would write outside of its storage, and read while it is loaded."""

    def declare() -> None:
        cities = [row.city for row in spark.read.schema("city STRING").json("data/cities").collect()]

        @dp.table(path=str(place / "table"))
        def placed() -> Any:
            return spark.readStream.schema("id INT").json("data/orders").selectExpr("*", f"'{cities[0]}' AS city")

        dp.create_sink("exported", "delta", {"path": str(place / "sink")})
        dp.create_sink("sent", "kafka", {"kafka.bootstrap.servers": "broker:9092", "topic": "out"})

        @dp.append_flow(target="exported")
        def export() -> Any:
            return spark.readStream.table("placed")

        @dp.append_flow(target="sent")
        def send() -> Any:
            return spark.readStream.table("placed").selectExpr("CAST(id AS STRING) AS value")

        @dp.foreach_batch_sink(name="written")
        def write(batch: Any, number: int) -> None:
            del number
            batch.write.format("delta").mode("append").save(str(place / "batch"))
            assert DeltaTable.isDeltaTable(spark, str(place / "batch"))

        @dp.append_flow(target="written")
        def hand_over() -> Any:
            return spark.readStream.table("placed")

        @dp.on_event_hook
        def hook(event: Any) -> None:
            (place / "called").write_text(str(event))

    return declare


def test_nothing_outside_of_the_folder_of_a_sandbox_changes(spark: SparkSession, tmp_path: Path) -> None:
    """Tables with paths and sinks are in the storage of a sandbox, hooks are not called, and two sandboxes differ."""
    place = tmp_path / "outside"
    place.mkdir()
    with (
        sandbox(spark, tmp_path / "1", reaching_out(place)) as first,
        sandbox(spark, tmp_path / "2", reaching_out(place)) as second,
    ):
        for number, test in enumerate((first, second)):
            test.given("data/cities", [{"city": "Berlin"}])
            test.given("data/orders", [{"id": number}])
            test.update()
        assert pairs(first, "placed") == [(0, "Berlin")]
        assert pairs(second, "exported") == [(1, "Berlin")]
        assert pairs(second, "sent") == [("1",)]
        (log,) = (tmp_path / "1" / "sandbox" / "written").rglob("_delta_log")
        assert [row.id for row in spark.read.format("delta").load(str(log.parent)).collect()] == [0]
    assert [*place.iterdir()] == []


def copying_files(place: Path) -> Any:
    """Return the declarations of a pipeline whose sink writes and deletes files with `dbutils.fs`."""

    def declare() -> None:
        out = f"{place}/out"

        @dp.table
        def orders() -> Any:
            return spark.readStream.schema("id INT").json("data/orders")

        @dp.foreach_batch_sink(name="export")
        def export(rows: Any, number: int) -> None:
            dbutils.fs.mkdirs(out)
            dbutils.fs.put(f"{out}/{number}.txt", str([row.id for row in rows.collect()]))
            (listed,) = dbutils.fs.ls(out)
            dbutils.fs.cp(listed.path, f"{out}/copies/{number}.txt")
            found = spark.read.text(f"{out}/copies").collect() + spark.read.text(f"{out}/*.txt").collect()
            assert [row.value for row in found] == ["[7]", "[7]"]
            dbutils.fs.rm(str(place), recurse=True)

        @dp.append_flow(target="export")
        def rows_of_orders() -> Any:
            return spark.readStream.table("orders")

    return declare


def test_file_functions_of_databricks_stay_in_the_sandbox(spark: SparkSession, tmp_path: Path) -> None:
    """`dbutils.fs` reads what the code has written before, and deletes nothing outside of the sandbox."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "kept.txt").write_text("real")
    with sandbox(spark, tmp_path, copying_files(place)) as test:
        test.given("data/orders", [{"id": 7}])
        test.update()
    assert [each.name for each in place.iterdir()] == ["kept.txt"]


def test_file_functions_of_databricks_do_not_read_what_is_not_given(spark: SparkSession, tmp_path: Path) -> None:
    """A listing of a real folder while modules are loaded is an error."""
    (tmp_path / "real.txt").write_text("real")

    def declare() -> None:
        @dp.materialized_view
        def files() -> Any:
            return spark.createDataFrame([(each.name,) for each in dbutils.fs.ls(str(tmp_path))], "name STRING")

    with sandbox(spark, tmp_path, declare) as test, pytest.raises(GraphErrors) as missing:
        test.update()
    assert {each.condition for each in missing.value.errors} == {"TEST_INPUT_NOT_GIVEN"}


def test_batches_are_not_sent_to_databases_and_topics(spark: SparkSession, tmp_path: Path) -> None:
    """A batch function of a sandbox runs to its end; nothing is connected to."""
    written = dict[int, int]()

    def declare() -> None:
        @dp.foreach_batch_sink(name="export")
        def export(rows: Any, number: int) -> None:
            rows.write.jdbc("jdbc:postgresql://127.0.0.1:1/none", "t")
            rows.write.format("jdbc").option("url", "jdbc:postgresql://127.0.0.1:1/none").option("dbtable", "t").save()
            rows.selectExpr("CAST(id AS STRING) AS value").write.format("kafka").option("topic", "t").save()
            rows.write.format("json").option("path", f"{tmp_path}/out").save()
            written[number] = spark.read.schema("id INT").json(f"{tmp_path}/out").count()

        @dp.append_flow(target="export")
        def orders() -> Any:
            return spark.readStream.schema("id INT").json("data/orders")

    with sandbox(spark, tmp_path, declare) as test:
        test.given("data/orders", [{"id": 7}])
        test.update()
    assert written == {0: 1}
    assert not (tmp_path / "out").exists()


def test_a_read_while_modules_are_loaded_needs_a_given_input(spark: SparkSession, tmp_path: Path) -> None:
    """Modules that read while they are loaded get given rows, or an error; the test can then give them."""
    with sandbox(spark, tmp_path, reaching_out(tmp_path)) as test:
        with pytest.raises(GraphErrors) as missing:
            test.plan()
        assert [error.fields["source"] for error in missing.value.errors] == ["data/cities"]
