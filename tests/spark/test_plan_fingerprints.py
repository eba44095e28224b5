"""The fingerprint of a query differs whenever its rows may differ, and is the same for the same query."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from framework.graph.queries.fingerprints import plan_fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fingerprint(frame: DataFrame) -> str | None:
    """The fingerprint of a query whose files do not change."""
    return plan_fingerprint(
        [frame], declared=(), code_version="1", settings={}, session_settings=(), file_identity=",".join
    )


def test_queries_with_other_rows_have_other_fingerprints(interpreting: SparkSession, tmp_path: Path) -> None:
    """Also if `explain` displays the same: values with commas and quotes, types, options, and rows of literals."""
    spark = interpreting
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1.csv").write_text("1,2\n")
    (tmp_path / "files" / "1.json").write_text("{}\n")

    def files(kind: str, schema: str, **options: str) -> DataFrame:
        return spark.read.format(kind).schema(schema).options(**options).load(str(tmp_path / "files"))

    def query(text: str) -> Callable[[str], DataFrame]:
        return lambda value: spark.sql(text.format(value))

    pairs: dict[str, tuple[Callable[[Any], DataFrame], Any, Any]] = {
        "value with a comma": (query("SELECT 'x' IN ({}) AS a"), "'DE,AT'", "'DE', 'AT'"),
        "items with a comma": (query("SELECT array({}) AS a"), "'a', 'b'", "'a, b'"),
        "separator": (query("SELECT concat_ws({}) AS a"), "', ', 'a', 'b'", "',', 'a', 'b'"),
        "number and text": (query("SELECT to_json(named_struct('a', {})) AS a"), "1", "'1'"),
        "types of a literal": (query("SELECT hash({}) AS a"), "1", "1L"),
        "text and NULL": (query("SELECT * FROM VALUES ('a'), ({}) AS t(a)"), "'null'", "NULL"),
        "rows of literals": (query("SELECT * FROM VALUES ({}) AS t(a, b)"), "'a,b', 'c'", "'a', 'b,c'"),
        "nested literals": (query("SELECT * FROM VALUES (array({})) AS t(a)"), "'a', 'b'", "'a, b'"),
        "number sign": (query("SELECT '{}' AS a"), "#5", "#6"),
        "text like an identifier": (query("SELECT '\"id\":{},\"jvmId\":\"x\"' AS a"), "5", "6"),
        "options of a function": (
            query("SELECT from_json('{{}}', 'a INT', map('mode', '{}')) AS a"), "FAILFAST", "PERMISSIVE",
        ),
        "separator of files": (lambda value: files("csv", "a STRING", sep=value), ",", ";"),
        "two options": (
            lambda value: files("csv", "a STRING", **value), {"sep": ",", "quote": "a"}, {"sep": ",quote->a"},
        ),
        "mode of files": (lambda value: files("json", "a INT", mode=value), "PERMISSIVE", "DROPMALFORMED"),
        "types of files": (lambda value: files("json", f"a {value}").groupBy().count(), "INT", "STRING"),
        "unread column of files": (
            lambda value: files("json", f"a INT, b {value}", mode="DROPMALFORMED").select("a"), "INT", "STRING",
        ),
        "type that a function returns": (
            lambda value: spark.range(1).select(sql.to_json(sql.struct(sql.udf(abs, value)("id").alias("a")))),
            "int", "long",
        ),
    }  # fmt: skip
    same = {
        name: values
        for name, (make, *values) in pairs.items()
        if len({fingerprint(make(each)) for each in values}) == 1
    }
    assert same == {}
    assert {name for name, (make, value, _) in pairs.items() if fingerprint(make(value)) is None} == set()


def test_the_same_query_has_the_same_fingerprint(interpreting: SparkSession) -> None:
    """Whatever names and numbers Spark gives to its parts in each analysis."""
    spark = interpreting
    makes: dict[str, Callable[[], DataFrame]] = {
        "binary": lambda: spark.sql("SELECT * FROM VALUES (X'01'), (X'02') AS t(v)"),
        "empty": lambda: spark.createDataFrame([], "a INT").limit(0).where("a = 1").groupBy().count(),
        "recursive": lambda: spark.sql(
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r"
        ),
        "frame by name": lambda: spark.sql("SELECT * FROM {frame}", frame=spark.range(3)),
        "observed": lambda: spark.range(3).observe("o", sql.count("*").alias("n")),
        "common table": lambda: spark.sql("WITH a AS (SELECT id FROM range(3)) SELECT * FROM a JOIN a b USING (id)"),
        "subquery": lambda: spark.sql("SELECT id FROM range(3) WHERE id IN (SELECT max(id) FROM range(9))"),
        "grouping sets": lambda: spark.sql(
            "SELECT a, b, grouping(a), count(*) FROM VALUES (1, 'x') AS t(a, b) GROUP BY CUBE (a, b)"
        ),
        "window": lambda: spark.sql("SELECT id, sum(id) OVER (ORDER BY id ROWS 2 PRECEDING) AS s FROM range(3)"),
        "higher-order function": lambda: spark.sql("SELECT transform(array(1, 2), x -> x + 1) AS v"),
        "function": lambda: spark.range(1).select(sql.udf(lambda value: value, "long")("id").alias("v")),
        "pivot": lambda: spark.sql("SELECT * FROM (SELECT id, 'a' k FROM range(3)) PIVOT (count(id) FOR k IN ('a'))"),
    }
    # A DataFrame of Python values has no rows that could be compared.
    assert {name for name, make in makes.items() if fingerprint(make()) is None} == {"empty"}
    assert {name for name, make in makes.items() if fingerprint(make()) != fingerprint(make())} == set()


def test_words_that_mean_the_present_time_have_no_fingerprint(interpreting: SparkSession) -> None:
    """Spark replaces the text `now` by the time when it casts it; elsewhere it is a text."""
    queries = {
        "SELECT CAST('now' AS TIMESTAMP) AS t": True,
        "SELECT CAST(' Today UTC' AS DATE) AS t": True,
        "SELECT to_timestamp('yesterday') AS t": True,
        "SELECT id FROM range(3) WHERE timestamp_seconds(id) < 'tomorrow'": True,
        "SELECT 'now' AS t": False,
        "SELECT 'nowhere' AS t, DATE'2026-01-01' AS d": False,
        "SELECT CAST('epoch' AS TIMESTAMP) AS t": False,
    }
    assert {text: fingerprint(interpreting.sql(text)) is None for text in queries} == queries
