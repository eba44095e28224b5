"""Exceptions of the user's Python functions inside Spark: type, message and line are those of the user."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sql

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = __file__
OURS = "\nframework.foundation.errors.SourceError: [INGESTION_CHANGE_UNREADABLE] Not raised.\n  -> Nothing.\n\n"
"""The text by which copies of a database raise an error of ours: Spark's plan of a flow has it, whatever fails."""


class NoPriceError(Exception):
    """An exception of the user's own."""


def failing(spark: SparkSession, source: str) -> None:  # noqa: C901 - a list of small functions, no branch
    """Flows that fail in different ways; `# line of <flow>` marks the expected line."""

    @sql.udf("int")
    def half(value: int) -> int:
        return 1 // (value - 1)  # line of view_udf, line of stream_udf

    @sql.udf("string")
    def parsed(value: int) -> Any:
        return json.loads(f"{value}}}")  # line of library_udf

    def stream() -> DataFrame:
        checked = sql.when(sql.col("id") >= 0, sql.col("id")).otherwise(sql.raise_error(OURS))
        return spark.readStream.format("delta").load(source).withColumn("id", checked)

    @dp.materialized_view
    def view_udf() -> DataFrame:
        return spark.range(3).select(half("id").alias("half"))

    @sql.udf("string")
    def eaten(value: int) -> str:
        return str(bytearray(2**62 + value))  # line of memory_udf

    @dp.materialized_view
    def memory_udf() -> DataFrame:
        return spark.range(3).select(eaten("id").alias("eaten"))

    @dp.materialized_view
    def library_udf() -> DataFrame:
        return spark.range(3).select(parsed("id").alias("parsed"))

    @dp.table
    def stream_udf() -> DataFrame:
        return stream().select(half("id").alias("half"))

    @dp.foreach_batch_sink
    def shop(_frame: DataFrame, _batch: int) -> None:
        raise NoPriceError("no price\nfor 7")  # noqa: TRY003 - line of sink_raises

    @dp.append_flow(target="shop")
    def sink_raises() -> DataFrame:
        return stream()

    @dp.foreach_batch_sink
    def leaving(_frame: DataFrame, _batch: int) -> None:
        sys.exit("enough")  # line of sink_exits

    @dp.append_flow(target="leaving")
    def sink_exits() -> DataFrame:
        return stream()

    @dp.foreach_batch_sink
    def typing(frame: DataFrame, _batch: int) -> None:
        frame.select("idd").collect()  # line of sink_mistyped

    @dp.append_flow(target="typing")
    def sink_mistyped() -> DataFrame:
        return stream()

    @dp.foreach_batch_sink
    def once_only(_frame: DataFrame, _batch: int) -> None:
        raise KeyError("price")  # line of sink_once

    @dp.append_flow(target="once_only", once=True)
    def sink_once() -> DataFrame:
        return spark.range(1)

    dp.create_streaming_table("from_snapshots")

    def newest(latest: object) -> tuple[DataFrame, int]:
        if latest is None:
            return spark.range(2), 1
        sys.exit(3)  # line of from_snapshots

    dp.create_auto_cdc_from_snapshot_flow("from_snapshots", newest, ["id"])


def line_of(flow: str) -> int:
    """The line of `failing` that a flow's error must name."""
    lines, first = inspect.getsourcelines(failing)
    return first + next(number for number, line in enumerate(lines) if f"line of {flow}" in line)


EXPECTED = {
    "view_udf": ("PYTHON_EXCEPTION", "ZeroDivisionError: integer division or modulo by zero"),
    "memory_udf": ("PYTHON_OUT_OF_MEMORY", "needs more memory than its process may have: MemoryError"),
    "library_udf": ("PYTHON_EXCEPTION", "JSONDecodeError: Extra data: line 1 column 2 (char 1)"),
    "stream_udf": ("PYTHON_EXCEPTION", "ZeroDivisionError: integer division or modulo by zero"),
    "sink_raises": ("PYTHON_EXCEPTION", "NoPriceError: no price for 7"),
    "sink_exits": ("PYTHON_EXCEPTION", "SystemExit: enough"),
    "sink_mistyped": ("FLOW_FAILED", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
    "sink_once": ("PYTHON_EXCEPTION", "KeyError: 'price'"),
    "from_snapshots": ("FLOW_QUERY_FAILED", "SystemExit: 3"),
}


def test_an_error_of_a_python_function_names_the_exception_and_the_users_line(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """UDFs of views and streams, sinks and snapshot functions, with `sys.exit` too; nothing else is logged."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(0,), (1,)], "id LONG")
    capfd.readouterr()
    result = world.run(lambda: failing(spark, world.source()))
    assert result.state is UpdateState.FAILED
    errors = {flow.flow.table: flow.error for flow in result.flows}
    found = {name: (error.condition, error.location) for name, error in errors.items() if error is not None}
    assert {name: condition for name, (condition, _) in found.items()} == {
        name: condition for name, (condition, _) in EXPECTED.items()
    }
    places = {name: (where.file, where.line) for name, (_, where) in found.items() if where is not None}
    assert places == {name: (HERE, line_of(name)) for name in EXPECTED}
    for name, (_, words) in EXPECTED.items():
        assert words in str(errors[name])
        assert "JVM stacktrace" not in str(errors[name])
    assert capfd.readouterr() == ("", "")


def killing(spark: SparkSession, source: str, seen: Path) -> None:
    """A stream and a view whose functions always end their process, and a stream that is killed once."""

    def ended() -> None:
        with seen.open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    @sql.udf("int")
    def always(_value: int) -> int:
        ended()
        return 0

    @sql.udf("int")
    def once(value: int) -> int:
        if not seen.with_name("once").exists():
            seen.with_name("once").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    @dp.table
    def ends_always() -> DataFrame:
        return spark.readStream.format("delta").load(source).coalesce(1).select(always("id").alias("id"))

    @dp.table
    def ends_once() -> DataFrame:
        return spark.readStream.format("delta").load(source).coalesce(1).select(once("id").alias("id"))

    @dp.materialized_view
    def view() -> DataFrame:
        return spark.range(1, numPartitions=1).select(once("id").alias("id"), always("id").alias("other"))


def test_a_function_that_ends_its_process_again_with_the_same_rows_is_not_tried_a_third_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The function is named; one that was killed once goes on, with each row once."""
    world = EngineWorld(spark.newSession(), tmp_path)
    world.feed([(0,), (1,)], "id INT")
    seen = tmp_path / "seen"
    result = world.pipeline(lambda: killing(world.spark, world.source(), seen), development=False).run()
    errors = {flow.flow.table: flow.error and flow.error.what for flow in result.flows}
    again = "its process two times with the same rows: it was killed, or it crashed."
    none_more = " It is not tried again, because a third attempt would end in the same way."
    assert errors == {
        "ends_always": f"The Python function always of flow main.s.ends_always ended {again}{none_more}",
        "ends_once": None,
        "view": f"A Python function (once, always) of flow main.s.view ended {again}{none_more}",
    }
    assert seen.read_text() in {"xxx", "xxxx"}  # `once` may have ended the first process of the view
    assert world.rows("ends_once") == [(0,), (1,)]
