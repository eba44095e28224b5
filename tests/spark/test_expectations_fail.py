"""The mutation test of the test kit: each expectation of a sandbox fails when it should, and holds when it should."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.foundation.errors import UserError
from framework.pipeline import Pipeline
from framework.sandbox.sandbox import Sandbox

MODULE = """
from framework import pipelines as dp
from pyspark.sql import functions as F

@dp.table(table_properties={"sluice.quarantine": "true"})
@dp.expect_or_drop("has an id", "id IS NOT NULL")
@dp.expect("amount is positive", "amount > 0")
def orders():
    schema = "id INT, customer STRING, amount DOUBLE, at TIMESTAMP, code STRING"
    return spark.readStream.format("json").schema(schema).load("data/orders")

@dp.table
@dp.expect_or_drop("is small", "amount < 100")
def small():
    return spark.readStream.table("orders").select("id", "amount")

@dp.materialized_view
@dp.expect("is large", "amount > 100")
def revenue():
    return spark.read.table("orders").groupBy("customer").agg(F.sum("amount").alias("amount"))

dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(target="latest", source="orders", keys=["id"], sequence_by="at")

@dp.table
def first():
    return spark.readStream.table("orders").dropDuplicates(["at"]).select("id", "customer")

@dp.table
@dp.expect_or_fail("is never Kay", "customer <> 'Kay'")
def strict():
    return spark.readStream.table("orders").select("customer")
"""
ORDERS = """
    id | customer | amount | at               | code
    1  | Ada      | 120    | 2026-01-31 10:00 | '1'
    2  | Grace    | 40     | 2026-01-31 10:00 | '2'
    2  | Grace    | 40     | 2026-01-31 10:00 | '2'
       | Kay      | -5     | 2026-01-31 10:00 | '3'
"""
ADA = {"id": 1, "customer": "Ada", "amount": 120.0, "at": "2026-01-31 10:00", "code": "1"}
GRACE = {"id": 2, "customer": "Grace", "amount": 40.0, "at": "2026-01-31 10:00:00.000", "code": "2"}
Statement = Callable[[Sandbox], object]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox after one update of all datasets; no case changes it."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(MODULE, "utf-8")
    (folder / "pipeline.yml").write_text("name: shop\nlibraries:\n  - glob: {include: shop.py}\n", "utf-8")
    pipeline = Pipeline.from_spec(folder / "pipeline.yml", spark=spark)
    with pipeline.sandbox(folder / "sandbox") as sandbox:
        sandbox.given("data/orders", ORDERS)
        sandbox.update()
        yield sandbox


@dataclass(frozen=True)
class Case:
    """A statement about the sandbox.

    Args:
        name: of the case.
        state: makes the statement.
        text: a part of the failure's text; None if the statement holds.
    """

    name: str
    state: Statement
    text: str | None = None


def rows(name: str, expected: object, text: str | None = None, *, dataset: str = "orders", **options: Any) -> Case:
    """A case of `expect`."""
    return Case(name, lambda sandbox: sandbox.expect(dataset, expected, **options), text)


def quality(name: str, dataset: str, expectation: str, text: str | None = None, **counts: int) -> Case:
    """A case of `expect_quality`."""
    return Case(name, lambda sandbox: sandbox.expect_quality(dataset, expectation, **counts), text)


def quarantined(name: str, dataset: str, text: str | None = None, **options: Any) -> Case:
    """A case of `expect_quarantined`."""
    return Case(name, lambda sandbox: sandbox.expect_quarantined(dataset, **options), text)


def plan(name: str, steps: Any, text: str | None = None, **request: Any) -> Case:
    """A case of `expect_plan`."""
    return Case(name, lambda sandbox: sandbox.expect_plan(steps, **request), text)


def events(name: str, type: str, text: str | None = None, **options: Any) -> Case:
    """A case of `expect_events`."""
    return Case(name, lambda sandbox: sandbox.expect_events(type, **options), text)


def error(name: str, condition: str, body: Statement, text: str | None = None, **options: Any) -> Case:
    """A case of `expect_error`."""

    def state(sandbox: Sandbox) -> None:
        with sandbox.expect_error(condition, **options):
            body(sandbox)

    return Case(name, state, text)


def _nothing(_: Sandbox) -> None:
    pass


def _plan_of_nothing(sandbox: Sandbox) -> object:
    return sandbox.plan("nothing")


BOTH = [(1, "Ada"), (2, "Grace"), (2, "Grace")]
TWO = ["id", "customer"]
CASES = (
    rows("the rows", [GRACE, ADA, GRACE]),
    rows("the rows of a text table", "\n".join(ORDERS.splitlines()[:-1])),
    rows("some columns", BOTH, only=TWO),
    rows("columns in another order and case", [("Ada", 1), ("Grace", 2), ("Grace", 2)], only=["CUSTOMER", "id"]),
    rows("the order", BOTH, only=TWO, ordered=True),
    rows("an AUTO CDC target", [(1, "Ada"), (2, "Grace")], only=TWO, dataset="latest"),
    rows("a view", "customer | amount\nAda | 120\nGrace | 80", dataset="revenue"),
    rows("a wrong cell", [(1, "Bob"), *BOTH[1:]], "Bob -> Ada", only=TWO),
    rows("a missing row", [*BOTH, (3, "Kay")], "1 missing (4 rows expected, 3 found)", only=TWO),
    rows("an unexpected row", BOTH[1:], "1 unexpected (2 rows expected, 3 found)", only=TWO),
    rows("a duplicate too few", BOTH[:2], "found 2 times, expected 1", only=TWO),
    rows("a duplicate too many", [*BOTH, BOTH[2]], "found 2 times, expected 3", only=TWO),
    rows("no rows", [], "3 unexpected (0 rows expected, 3 found)"),
    rows("a number for a text", [(1, 1), (2, 2), (2, 2)], "1 (int) -> 1 (string)", only=["id", "code"]),
    rows("a text for a number", [("1",), (2,), (2,)], "'1' (text)", only=["id"]),
    rows("a missing column", [dict(ADA, code=None), GRACE, GRACE], "NULL -> 1"),
    rows("columns left out", [{"id": 1}, {"id": 2}, {"id": 2}], "NULL is expected in customer, amount, at, code"),
    rows("another time", [dict(ADA, at="2026-01-31 10:00:00.001"), GRACE, GRACE], "10:00:00.001"),
    rows("another order", BOTH[::-1], "in another order", only=TWO, ordered=True),
    rows("a cell of an AUTO CDC target", [(1, "A"), (2, "Grace")], "A -> Ada", only=TWO, dataset="latest"),
    rows("another sum", "customer | amount\nAda | 120\nGrace | 40", "40.0 -> 80.0", dataset="revenue"),
    quality("the counts", "orders", "has an id", passed=3, failed=1),
    quality("one count", "orders", "amount is positive", failed=1),
    quality("of another dataset", "small", "is small", passed=2, failed=1),
    quality("of a view", "revenue", "is large", passed=1, failed=1),
    quality("one too many", "orders", "has an id", "2 rows failed expected, 3 passed and 1 failed", failed=2),
    quality("one too few", "orders", "has an id", "0 rows failed expected", failed=0),
    quality("one of two counts", "orders", "has an id", "2 rows passed and 1 row failed expected", passed=2, failed=1),
    quarantined("one row", "orders", rows=1),
    quarantined("at least one row", "orders", reason="has an id"),
    quarantined("the rows", "orders", rows=[{"customer": "Kay", "amount": -5.0}]),
    quarantined("the rows of a reason", "orders", reason="has an id", rows="customer\nKay"),
    quarantined("no row of another dataset", "small", rows=0),
    quarantined("no row of another reason", "orders", reason="amount is positive", rows=0),
    quarantined("one too many", "orders", "has 1 row, not 2 rows", rows=2),
    quarantined("another dataset", "small", "Its quarantine is empty", rows=1),
    quarantined("another reason", "orders", "has 0 rows, not at least one row", reason="amount is positive"),
    quarantined("another row", "orders", "-5.0", rows=[{"customer": "Kay", "amount": 5.0}]),
    quarantined("none", "latest", "not at least one row"),
    plan("all skipped", {"orders": "skip", "latest": "skip", "revenue": "skip"}),
    plan("a full refresh", {"orders": "full refresh", "latest": "run"}, full_refresh=["orders"]),
    plan("a line", ["skip orders"]),
    plan("a run", {"orders": "run"}, "orders: expected 'run', planned 'skip'"),
    plan("no full refresh", {"orders": "full refresh"}, "planned 'skip'"),
    plan("not skipped", {"orders": "skip"}, "expected 'skip', planned 'full refresh'", full_refresh=["orders"]),
    plan("another line", ["skip orders", "run flow orders"], "no step has 'run flow orders'"),
    Case("a line of some datasets", lambda shop: shop.expect_plan(["skip orders"], "orders"), None),
    Case("a line of others", lambda shop: shop.expect_plan(["skip revenue"], "orders"), "no step has 'skip revenue'"),
    events("some", "flow_progress"),
    events("of a dataset", "flow_progress", dataset="orders", message="COMPLETED"),
    events("no error", "flow_progress", level="ERROR", count=0),
    events("an error", "flow_progress", "0 events flow_progress of the level ERROR, not at least one", level="ERROR"),
    events("a message", "flow_progress", "0 events flow_progress with the message", message="fell over"),
    events("too many", "create_update", "has 1 event create_update, not 2", count=2),
    error("the condition", "DATASET_NOT_FOUND", _plan_of_nothing),
    error("a text", "DATASET_NOT_FOUND", _plan_of_nothing, match="nothing"),
    error("no error", "DATASET_NOT_FOUND", _nothing, "raises no error"),
    error("another condition", "TEST_INPUT_NOT_GIVEN", _plan_of_nothing, "[DATASET_NOT_FOUND]"),
    error("another text", "DATASET_NOT_FOUND", _plan_of_nothing, "no text that matches", match="something"),
    error("another dataset", "DATASET_NOT_FOUND", _plan_of_nothing, "not raised for orders", dataset="orders"),
)
UNKNOWN: tuple[tuple[str, Statement, str], ...] = (
    ("a dataset", lambda shop: shop.expect("order", []), "DATASET_NOT_FOUND"),
    ("a column", lambda shop: shop.expect("orders", [(1,)], only=["idd"]), "TEST_COLUMN_UNKNOWN"),
    ("a column of rows", lambda shop: shop.expect("orders", [{"idd": 1}]), "TEST_ROW_COLUMN_UNKNOWN"),
    ("the number of columns", lambda shop: shop.expect("orders", [(1, 2)]), "TEST_ROW_LENGTH"),
    ("an expectation", lambda shop: shop.expect_quality("orders", "has an i", failed=1), "TEST_EXPECTATION_UNKNOWN"),
    ("one of another", lambda shop: shop.expect_quality("small", "has an id", failed=1), "TEST_EXPECTATION_UNKNOWN"),
    ("no count", lambda shop: shop.expect_quality("orders", "has an id"), "TEST_QUALITY_WITHOUT_COUNT"),
    ("a reason", lambda shop: shop.expect_quarantined("orders", reason="has an i", rows=0), "TEST_REASON_UNKNOWN"),
    ("a quarantined column", lambda shop: shop.expect_quarantined("orders", rows=[{"x": 1}]), "TEST_COLUMN_UNKNOWN"),
    ("a word", lambda shop: shop.expect_plan({"orders": "skipped"}), "TEST_PLAN_WORD_UNKNOWN"),
    ("a dataset of a plan", lambda shop: shop.expect_plan({"order": "skip"}), "DATASET_NOT_FOUND"),
    ("a type of events", lambda shop: shop.expect_events("flow_progres", count=0), "TEST_EVENT_UNKNOWN"),
    ("a level", lambda shop: shop.expect_events("flow_progress", level="error", count=0), "TEST_EVENT_UNKNOWN"),
    ("a condition", lambda shop: shop.expect_error("DATASET_NOT_FOND").__enter__(), "TEST_CONDITION_UNKNOWN"),
    ("a source", lambda shop: shop.expect_any_order("orders", source="data/order"), "TEST_SOURCE_NOT_GIVEN"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {'holds' if case.text is None else 'fails'}")
def test_a_statement_fails_exactly_if_it_is_wrong(shop: Sandbox, case: Case) -> None:
    """A right statement holds, and the failure of a wrong one has the reason."""
    if case.text is None:
        case.state(shop)
        return
    with pytest.raises(AssertionError) as caught:
        case.state(shop)
    assert case.text in str(caught.value)


@pytest.mark.parametrize(("name", "state", "condition"), UNKNOWN, ids=[name for name, _, _ in UNKNOWN])
def test_an_unknown_name_is_an_error(shop: Sandbox, name: str, state: Statement, condition: str) -> None:
    """It is never a statement that holds."""
    with pytest.raises(UserError) as caught:
        state(shop)
    assert condition == caught.value.condition, name


def test_errors_of_updates_are_expected_by_condition_and_dataset(shop: Sandbox, tmp_path: Path) -> None:
    """Also an expectation that fails a flow; its counts are those of the failed update."""
    twin = shop.twin(tmp_path / "twin")
    with pytest.raises(UserError, match="TEST_NO_UPDATE"):
        twin.expect_events("flow_progress")
    twin.given("data/orders", [dict(ADA, customer="Kay")])
    with twin.expect_error("EXPECTATION_VIOLATION", dataset="strict"):
        twin.update("strict")
    other = twin.expect_error("EXPECTATION_VIOLATION", dataset="orders")
    with pytest.raises(AssertionError, match="not raised for orders"), other:
        twin.update("strict")
    with pytest.raises(AssertionError, match="was not checked in the last update"):
        twin.expect_quality("orders", "has an id", failed=0)
    twin.close()


def test_any_order_of_arrival_ends_in_the_same_table_or_the_failure_has_the_order(shop: Sandbox) -> None:
    """The row that arrives first depends on it, and the latest row of each key does not."""
    shop.expect_any_order("latest", source="data/orders", permutations=1)
    with pytest.raises(AssertionError) as caught:
        shop.expect_any_order("first", source="data/orders", permutations=3, seed=7)
    text = str(caught.value)
    assert "first depends on the order of data/orders: after order 1 of 3, seed=7" in text
    assert "  Batch 1:" in text
    assert "  Batch 2:" in text
