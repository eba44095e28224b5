"""The main pipeline on real data: its tables equal those that pandas computes from the package's frames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sql

from framework import Pipeline
from framework.demo.demo import DemoResult, run_demo
from framework.run.update.results import UpdateState
from tests.e2e.flights_oracle import EXPECTED, expected_weather_counts, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from framework.record.events import Event

MONTHS = 1


@pytest.fixture(scope="module")
def demo(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, DemoResult]]:
    """The demo's folder after one run of January, on the worker's session."""
    assert spark is not None
    folder = tmp_path_factory.mktemp("demo") / "flights"
    heard: list[Event] = []
    yield folder, run_demo(folder=folder, months=MONTHS, master=None, progress=heard.append)
    assert heard


def plain(frame: DataFrame) -> DataFrame:
    """The frame with dates as text and times as text in UTC, as the oracle has them."""
    columns = []
    for field in frame.schema.fields:
        kind = field.dataType.typeName()
        column = sql.col(field.name)
        if kind == "timestamp":
            column = sql.date_format(column, "yyyy-MM-dd'T'HH:mm:ss'Z'").alias(field.name)
        elif kind == "date":
            column = column.cast("string").alias(field.name)
        columns.append(column)
    return frame.select(*columns)


@pytest.fixture(scope="module")
def pipeline(demo: tuple[Path, DemoResult]) -> Pipeline:
    """The demo's pipeline, as in a new process."""
    return Pipeline.from_spec(demo[0] / "pipeline.yml")


@pytest.mark.parametrize("table", sorted(EXPECTED))
def test_every_final_table_agrees_with_pandas_to_the_row(
    demo: tuple[Path, DemoResult], pipeline: Pipeline, table: str
) -> None:
    """Snapshot, late, repeated and cancelled events together end in the figures of the source itself."""
    assert demo[1].update.state is UpdateState.COMPLETED
    found = plain(pipeline.table(table)).toPandas()
    expected = EXPECTED[table](MONTHS)
    assert sorted(found.columns) == sorted(expected.columns)
    assert rounded(sorted_rows(found)) == rounded(sorted_rows(expected))


def rounded(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The rows with floats to nine digits: sums of floats depend on their order."""
    return [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]


def test_the_expectations_count_what_is_wrong_with_the_weather(demo: tuple[Path, DemoResult]) -> None:
    """Passed and failed of each expectation, as pandas counts them."""
    _, result = demo
    flow = next(each for each in result.update.flows if each.flow.table == "weather_observations")
    assert {each.name: (each.passed, each.failed) for each in flow.expectations} == expected_weather_counts(MONTHS)


def test_a_second_run_finds_nothing_to_do(demo: tuple[Path, DemoResult]) -> None:
    """Every flow is idle; the tables are not touched."""
    folder, first = demo
    second = run_demo(folder=folder, months=MONTHS, master=None, progress=lambda _event: None)
    assert second.update.is_idle
    assert second.result_rows == first.result_rows
