"""Columns in declarations: their SQL text is equivalent, and columns without SQL text are rejected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.declare.registry import Registry, registering
from framework.engine.plans.columns import render_column
from framework.foundation.errors import UserError

Make = Callable[[], Column]
UTC = dt.UTC

MEANT: dict[str, tuple[Make, str]] = {
    "name": (lambda: F.col("a"), "a"),
    "spaces": (lambda: F.col("`a b`"), "`a b`"),
    "dot": (lambda: F.col("`a.b`"), "`a.b`"),
    "backtick": (lambda: F.col("`a``b`"), "`a``b`"),
    "constant's name": (lambda: F.col("null"), "`null`"),
    "nested": (lambda: F.col("s.x"), "s.x"),
    "field": (lambda: F.col("s").getField("x y"), "s['x y']"),
    "element": (lambda: F.col("arr")[0], "arr[0]"),
    "key": (lambda: F.col("m")["k"], "m['k']"),
    "struct": (lambda: F.struct("a", F.col("`a b`").alias("c d"), F.lit(1)), "struct(a, `a b` AS `c d`, 1)"),
    "alias": (lambda: F.col("a").alias("z"), "a"),
    "quotes": (lambda: F.lit("it's \"q\" \\ back"), "'it\\'s \"q\" \\\\ back'"),
    "none": (lambda: F.lit(None), "NULL"),
    "true": (lambda: F.lit(col=True), "true"),
    "long": (lambda: F.lit(2**40), "1099511627776L"),
    "double": (lambda: F.lit(1.5), "1.5D"),
    "decimal": (lambda: F.lit(Decimal("1.50")), "1.50BD"),
    "date": (lambda: F.lit(dt.date(2024, 1, 2)), "DATE '2024-01-02'"),
    "moment": (
        lambda: F.lit(dt.datetime(2024, 11, 3, 5, 30, 0, 7, tzinfo=UTC)),
        "TIMESTAMP_LTZ '2024-11-03 05:30:00.000007 UTC'",
    ),
    "bytes": (lambda: F.lit(b"\x00'"), "X'0027'"),
    "list": (lambda: F.lit([1, 2]), "array(1, 2)"),
    "cast": (lambda: F.col("a").cast("decimal(10,2)"), "CAST(a AS DECIMAL(10,2))"),
    "cast to struct": (
        lambda: F.col("s").cast("struct<p:int,`q r`:string>"),
        "CAST(s AS STRUCT<p: INT, `q r`: STRING>)",
    ),
    "try_cast": (lambda: F.col("op").try_cast("int"), "TRY_CAST(op AS INT)"),
    "case": (
        lambda: F.when(F.col("op") == "D", 1).when(F.col("op").isNull(), 2).otherwise(3),
        "CASE WHEN (op = 'D') THEN 1 WHEN (op IS NULL) THEN 2 ELSE 3 END",
    ),
    "in": (lambda: ~F.col("op").isin("a", "b"), "(NOT (op IN ('a', 'b')))"),
    "logic": (
        lambda: (F.col("a") > 1) & (F.col("b").isNotNull() | ~F.col("bool")),
        "((a > 1) AND ((b IS NOT NULL) OR (NOT bool)))",
    ),
    "arithmetic": (lambda: (F.col("a") + 1) * -F.col("b") % 3, "(((a + 1) * negative(b)) % 3)"),
    "null-safe": (lambda: F.col("a").eqNullSafe(F.lit(None)), "(a <=> NULL)"),
    "lambda": (lambda: F.transform("arr", lambda x: x + F.col("a")), "transform(arr, lambda_1 -> (lambda_1 + a))"),
    "lambdas": (
        lambda: F.aggregate("arr", F.lit(0), lambda total, x: total + x),
        "aggregate(arr, 0, (lambda_1, lambda_2) -> (lambda_1 + lambda_2))",
    ),
    "lambda in lambda": (
        lambda: F.transform("arr", lambda x: F.filter("arr", lambda y: y > x)),
        "transform(arr, lambda_1 -> filter(arr, lambda_2 -> (lambda_2 > lambda_1)))",
    ),
    "expr": (lambda: F.expr("op = 'DELETE' and a > 1"), "op = 'DELETE' and a > 1"),
    "expr inside": (lambda: F.expr("a + 1 -- one more") > 2, "((a + 1 -- one more\n) > 2)"),
    "function": (lambda: F.date_format("ts", "yyyy 'at' HH"), "date_format(ts, 'yyyy \\'at\\' HH')"),
    "pattern": (lambda: F.col("op").rlike(r"^\d+$"), "rlike(op, '^\\\\d+$')"),
    "interval": (lambda: F.col("ts") + F.expr("interval 1 day"), "(ts + (interval 1 day))"),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """One row of every type the columns read."""
    frame = spark.sql(
        "SELECT 1 AS a, 2 AS b, true AS bool, '5' AS op, timestamp'2024-01-01 00:00:00' AS ts, array(1, 2) AS arr, "
        "map('k', 1) AS m, 3 AS `a b`, 4 AS `a.b`, 5 AS `a``b`, 6 AS `null`, named_struct('x', 1, 'x y', 2) AS s"
    )
    return frame.withColumn("op", F.col("op"))


@pytest.fixture
def registry(spark: SparkSession) -> Iterator[Registry]:
    """The active registry of a pipeline, with a session at hand."""
    assert spark is not None
    with registering(Registry(catalog="main", schema="shop")) as filled:
        yield filled


@pytest.mark.parametrize("case", sorted(MEANT))
def test_a_columns_text_means_what_the_column_means(rows: DataFrame, case: str) -> None:
    """The text is as written here, and gives the same type and value."""
    make, expected = MEANT[case]
    text = render_column(make())
    assert text == expected
    column, again = rows.select(make().alias("r")), rows.select(F.expr(text).alias("r"))
    assert column.schema == again.schema
    assert column.collect() == again.collect()


def test_a_columns_text_is_the_same_in_each_process(spark: SparkSession) -> None:
    """PySpark numbers lambda variables differently in each process; the text does not change, so it can be compared."""
    assert spark is not None
    texts = {render_column(F.transform("arr", lambda x: x + 1)) for _ in range(3)}
    assert texts == {"transform(arr, lambda_1 -> (lambda_1 + 1))"}


REFUSED: dict[str, tuple[Make, str]] = {
    "Python function": (lambda: F.udf(lambda x: x)("a"), "Python function"),
    "window": (lambda: F.row_number().over(Window.partitionBy("a").orderBy("b")), "window"),
    "sort order": (lambda: F.col("a").desc(), "sort order"),
    "star": (lambda: F.struct("*"), "star"),
    "new field": (lambda: F.col("s").withField("z", F.lit(1)), "withField"),
    "private function": (lambda: F.timestamp_add("DAY", F.lit(1), "ts"), "timestampadd"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_sql_can_not_say_is_refused_with_its_reason(registry: Registry, case: str) -> None:
    """With the argument and the part of the column that is at fault."""
    make, part = REFUSED[case]
    with pytest.raises(UserError) as caught:
        dp.create_auto_cdc_flow("t", "s", ["id"], make())
    assert caught.value.condition == "INVALID_ARGUMENT.NOT_SQL"
    assert caught.value.fields["argument"] == "sequence_by"
    assert part in str(caught.value.fields["reason"])
    assert registry.flows == []


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("op = = 1", "PARSE_SYNTAX_ERROR"),
        ("sum(a) > 1", "an aggregate"),
        ("max(a) OVER (PARTITION BY b) > 1", "a window function"),
        ("explode(arr)", "a generator"),
        ("a IN (SELECT 1)", "a subquery"),
        ("exists(SELECT 1)", "a subquery"),
    ],
)
def test_a_text_that_one_row_can_not_answer_is_refused(registry: Registry, expression: str, reason: str) -> None:
    """While the module is loaded, with its line."""
    with pytest.raises(UserError) as caught:
        dp.create_auto_cdc_flow("t", "s", ["id"], "seq", apply_as_deletes=expression)
    assert caught.value.condition == "INVALID_ARGUMENT.EXPRESSION"
    assert reason in str(caught.value.fields["reason"])
    assert registry.flows == []


def test_columns_name_keys_and_lists(registry: Registry) -> None:
    """As texts do; names keep their spaces."""
    dp.create_auto_cdc_flow(
        "t",
        "s",
        [F.col("id"), F.col("`tenant id`")],
        F.struct("ts", "seq"),
        apply_as_deletes=F.expr("op = 'DELETE'"),
        except_column_list=[F.col("op"), "`a.b`"],  # type: ignore[arg-type]
    )
    cdc = registry.flows[0].cdc
    assert cdc is not None
    assert (cdc.keys, cdc.sequence_by, cdc.apply_as_deletes, cdc.columns.columns) == (
        ("id", "tenant id"),
        "struct(ts, seq)",
        "op = 'DELETE'",
        ("op", "a.b"),
    )


@pytest.mark.parametrize(
    ("key", "condition"),
    [
        (lambda: F.col("s.id"), "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER"),
        (lambda: F.upper("id"), "AUTOCDC_NON_COLUMN_IDENTIFIER"),
    ],
)
def test_keys_are_columns_of_the_source(registry: Registry, key: Make, condition: str) -> None:
    """No expressions, no parts of them."""
    with pytest.raises(UserError) as caught:
        dp.create_auto_cdc_flow("t", "s", [key()], "seq")
    assert caught.value.condition == condition
    assert registry.flows == []


def test_an_expectation_may_be_a_column(registry: Registry) -> None:
    """It is stored as its SQL text."""
    function: Any = lambda: None  # noqa: E731 - a query without a name
    dp.expect("positive", F.col("a b") > 0)(dp.table(name="t")(function))
    assert [each.condition for each in registry.datasets[0].expectations] == ["(`a b` > 0)"]


def test_the_read_of_a_face_is_the_sessions_read(spark: SparkSession, registry: Registry, tmp_path: Path) -> None:
    """`read` gives a batch, `read_stream` a stream."""
    spark.range(2).write.format("delta").save(str(tmp_path / "t"))
    name = f"delta.`{tmp_path / 't'}`"
    assert sorted(row.id for row in dp.read(name).collect()) == [0, 1]
    assert not dp.read(name).isStreaming
    assert registry.flows == []
