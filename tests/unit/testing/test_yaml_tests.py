"""Test files in YAML: what their keys do to a sandbox, and what is wrong in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from framework.declare.pipeline_spec import PipelineSpec
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.locations import SourceLocation
from framework.testing.yaml_format import TestFileErrors, read_test_file
from framework.testing.yaml_tests import run_test


@dataclass
class FakeClock:
    """Writes down how it is set."""

    calls: list[Any]

    def at(self, time: str) -> None:
        """Write down the time."""
        self.calls.append(("at", time))

    def advance(self, **by: float) -> None:
        """Write down the duration."""
        self.calls.append(("advance", by))


@dataclass
class FakePipeline:
    """The configuration and the declarations of a pipeline."""

    registry: Registry
    spec: PipelineSpec

    @property
    def definitions(self) -> FakePipeline:
        """The holder of the declarations."""
        return self


@dataclass
class FakeSandbox:
    """Writes down what a test does with it; `failing` is the call that raises."""

    pipeline: FakePipeline
    failing: str = ""
    calls: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Share the calls with the clock."""
        self.clock = FakeClock(self.calls)

    def __getattr__(self, name: str) -> Any:
        """Return a method that writes down its call."""

        def call(*values: Any, **named: Any) -> None:
            self.calls.append((name, *values, {key: value for key, value in named.items() if value}))
            if name == self.failing:
                pytest.fail("the rows differ")

        return call

    @contextmanager
    def expect_error(self, condition: str, **named: Any) -> Iterator[None]:
        """Write down the begin and the end of the block."""
        self.calls.append(("expect_error", condition, named))
        yield
        self.calls.append("raised")


def sandbox(folder: Path, *names: str, failing: str = "") -> FakeSandbox:
    """A sandbox of a pipeline whose datasets are all declared in `stg_customers.sql`."""
    registry = Registry(catalog="main", schema="shop")
    where = SourceLocation(file=str(folder / "stg_customers.sql"), line=1)
    registry.datasets.extend(
        DatasetSpec(name=registry.name(name), kind=DatasetKind.MATERIALIZED_VIEW, location=where) for name in names
    )
    spec = PipelineSpec(name="shop", storage="/none", configuration=(("bronze_schema", "bronze"),))
    return FakeSandbox(FakePipeline(registry, spec), failing)


def ran(folder: Path, text: str, *names: str) -> list[Any]:
    """The calls of the only test of a file."""
    (folder / "stg_customers.unit_tests.yml").write_text(text, "utf-8")
    (test,) = read_test_file(folder / "stg_customers.unit_tests.yml").tests
    fake = sandbox(folder, *names)
    run_test(test, fake)  # type: ignore[arg-type]
    return fake.calls


def test_a_file_of_sdp_test_runs_unchanged(tmp_path: Path) -> None:
    """Rows are given under the substituted name, the model's dataset is updated, and the named columns are compared."""
    calls = ran(
        tmp_path,
        """
log_level: INFO
tests:
  - name: maps_customer_fields
    model: stg_customers.sql
    log_level: DEBUG
    spark_conf: {spark.sql.ansi.enabled: true}
    given:
      - table: ${bronze_schema}.raw_customers
        schema: {data: variant, id: string}
        rows:
          - id: "1"
            first_name: John
    expect:
      rows:
        - customer_id: "1"
        - customer_id: "2"
          customer_name: null
""",
        "stg_customers",
    )
    given = {"schema": "`data` variant, `id` string"}
    expected = [{"customer_id": "1"}, {"customer_id": "2", "customer_name": None}]
    assert calls == [
        ("given", "bronze.raw_customers", [{"id": "1", "first_name": "John"}], given),
        ("update", "main.shop.stg_customers", {}),
        ("expect", "main.shop.stg_customers", expected, {"only": ["customer_id", "customer_name"]}),
    ]


def test_later_steps_set_the_time_add_batches_and_state_what_holds(tmp_path: Path) -> None:
    """Each step updates once: the clock is set and rows arrive before it, statements are checked after it."""
    calls = ran(
        tmp_path,
        """
tests:
  - name: late events
    model: flights
    clock: "2026-01-01T12:00"
    given:
      - path: data/events
        rows: |
          flight | at
          1      | 20
      - {topic: orders, rows: [[k, v]], real: false}
      - {source: "postgres:bank/public.t", real: true}
    then:
      - clock: {hours: 1}
        arrives: [{path: data/events, rows: [{flight: 1, at: 10}], file: late.json}]
        plan: {flights: full refresh}
        update: [flights, other]
        full_refresh: flights
        expect:
          - {table: other, rows: [], ordered: true, only: flight}
        quality: [{expectation: has an id, failed: 1, table: events}]
        quarantined: [{reason: no flight, rows: 1}]
        events: [{type: flow_progress, level: WARN, count: 1}]
      - error: {condition: TYPE_CHANGED, table: flights}
""",
    )
    assert calls == [
        ("given", "data/events", "flight | at\n1      | 20\n", {}),
        ("given", "kafka:orders", [("k", "v")], {}),
        ("given", "postgres:bank/public.t", [], {"real": True}),
        ("at", "2026-01-01T12:00"),
        ("update", "flights", {}),
        ("arrives", "data/events", [{"flight": 1, "at": 10}], {"file": "late.json"}),
        ("advance", {"hours": 1}),
        ("expect_plan", {"flights": "full refresh"}, "flights", "other", {"full_refresh": ("flights",)}),
        ("update", "flights", "other", {"full_refresh": ("flights",)}),
        ("expect", "other", [], {"only": ["flight"], "ordered": True}),
        ("expect_quality", "events", "has an id", {"failed": 1}),
        ("expect_quarantined", "flights", {"reason": "no flight", "rows": 1}),
        ("expect_events", "flow_progress", {"level": "WARN", "count": 1}),
        ("expect_error", "TYPE_CHANGED", {"dataset": "flights"}),
        ("update", "flights", {}),
        "raised",
    ]


def test_all_faults_of_a_file_are_reported_with_their_lines(tmp_path: Path) -> None:
    """An unknown key has the nearest known one; a missing key and a value of another type are errors, too."""
    file = tmp_path / "bad.unit_tests.yml"
    file.write_text(
        """test: []
tests:
  - name: 1
    modell: orders
    given:
      - rows: [{id: 1}]
      - {table: a, path: b}
    expect: {row: []}
    quality: [{failed: -1}]
  - no mapping
""",
        "utf-8",
    )
    with pytest.raises(TestFileErrors) as caught:
        read_test_file(file)
    found = [(each.condition, each.location.line, each.what) for each in caught.value.errors if each.location]
    assert found == [
        ("TEST_FILE_UNEXPECTED_KEY", 1, "A test file has no key test. Did you mean `tests`?"),
        ("TEST_FILE_INVALID_VALUE", 3, "`name` must be a text, but is 1."),
        ("TEST_FILE_UNEXPECTED_KEY", 4, "A test has no key modell. Did you mean `model`?"),
        ("TEST_FILE_MISSING_KEY", 6, "An entry of `given` needs one of table, path, topic, source."),
        ("TEST_FILE_MISSING_KEY", 7, "An entry of `given` needs one of table, path, topic, source."),
        ("TEST_FILE_UNEXPECTED_KEY", 8, "An entry of `expect` has no key row. Did you mean `rows`?"),
        ("TEST_FILE_INVALID_VALUE", 9, "`failed` must be a whole number of at least 0, but is -1."),
        ("TEST_FILE_MISSING_KEY", 9, "An entry of `quality` needs expectation."),
        ("TEST_FILE_INVALID_VALUE", 10, "A test must be a mapping, but is 'no mapping'."),
    ]


@pytest.mark.parametrize(
    ("model", "more", "expected"),
    [
        ("stg_customers.sql", "", "main.shop.stg_customers"),
        ("stg_customers.sql", "callable: other", "main.shop.other"),
        ("stg_customers.sql", "callable: othr", "TEST_FILE_MODEL_NOT_FOUND"),
        ("stg_orders.sql", "", "TEST_FILE_MODEL_NOT_FOUND"),
        ("${silver}.orders", "", "TEST_FILE_UNKNOWN_VARIABLE"),
    ],
)
def test_the_model_is_a_dataset_or_the_file_that_declares_it(
    tmp_path: Path, model: str, more: str, expected: str
) -> None:
    """Of several datasets in a file, `callable` names one; else it is the one with the file's name."""
    text = f"tests:\n  - model: {model}\n    {more}\n"
    try:
        ((_, found, _),) = ran(tmp_path, text, "stg_customers", "other")
    except SluiceError as error:
        found = error.condition
    assert found == expected


def test_a_file_with_several_datasets_and_no_name_in_common_is_ambiguous(tmp_path: Path) -> None:
    """The error lists them."""
    with pytest.raises(UserError) as caught:
        ran(tmp_path, "tests:\n  - model: stg_customers.sql\n", "first", "second")
    assert caught.value.what == "stg_customers.sql declares several datasets: main.shop.first, main.shop.second."


def test_a_statement_without_a_dataset_is_an_error(tmp_path: Path) -> None:
    """A test without `model` updates all datasets, and says of which one a statement is."""
    with pytest.raises(UserError) as caught:
        ran(tmp_path, "tests:\n  - expect: {rows: [{id: 1}]}\n")
    assert caught.value.what == "`expect` of a test without `model` needs `table`."


def test_what_fails_has_its_line_in_the_file(tmp_path: Path) -> None:
    """The first note of an error is the line of the statement."""
    file = tmp_path / "a.unit_tests.yml"
    file.write_text("tests:\n  - model: a\n    expect:\n      - rows: []\n      - {table: b, rows: []}\n", "utf-8")
    (test,) = read_test_file(file).tests
    with pytest.raises(pytest.fail.Exception) as caught:
        run_test(test, sandbox(tmp_path, failing="expect"))  # type: ignore[arg-type]
    assert caught.value.__notes__ == [f"{file}:4:9: expect"]
