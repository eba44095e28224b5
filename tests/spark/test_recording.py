"""Tests that are recorded from real rows pass when they run, and show no value of a masked column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.foundation.errors import UserError
from framework.operations.recording.files import RecordedTest
from framework.operations.recording.recorder import RecordRequest, record_test
from framework.testing.yaml_format import read_test_file
from framework.testing.yaml_tests import run_test

MODULE = """
from framework import pipelines as dp
from pyspark.sql import functions as F

DATA = spark.conf.get("shop.data")


@dp.table
def orders():
    return spark.readStream.schema("order_id INT, customer_id INT, amount DECIMAL(6,2), at TIMESTAMP").json(DATA)


@dp.materialized_view
def customers():
    return spark.sql(
        "SELECT id AS customer_id, concat('c', id, '@example.com') AS email, id % 2 = 0 AS is_new FROM VALUES "
        "(1), (2), (3) AS t (id)"
    )


@dp.materialized_view
def revenue():
    both = spark.read.table("orders").join(spark.read.table("customers"), "customer_id")
    return both.groupBy("customer_id", "email").agg(F.sum("amount").alias("total"), F.max("at").alias("last"))
"""


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """An updated pipeline: 40 orders of three customers."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "data").mkdir()
    lines = (
        {"order_id": n, "customer_id": 1 + n % 3, "amount": n + 0.25, "at": f"2026-01-{1 + n % 28:02}T12:00:00Z"}
        for n in range(40)
    )
    (folder / "data/orders.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    (folder / "shop.py").write_text(MODULE, "utf-8")
    (folder / "pipeline.yml").write_text(
        f"name: shop\nstorage: {folder}/storage\nconfiguration: {{shop.data: '{folder}/data'}}\n"
        "libraries: [{file: {path: shop.py}}]\n",
        "utf-8",
    )
    pipeline = Pipeline.from_spec(folder / "pipeline.yml", spark=spark.newSession())
    pipeline.run()
    return pipeline


def passes(recorded: RecordedTest, shop: Pipeline, file: Path) -> None:
    """Run a recorded test in a new sandbox, as pytest would."""
    file.write_text(recorded.text(file), "utf-8")
    with shop.sandbox() as sandbox:
        if file.suffix == ".yml":
            (test,) = read_test_file(file).tests
            run_test(test, sandbox)
            return
        program: dict[str, object] = {}
        exec(compile(file.read_text("utf-8"), file.name, "exec"), program)  # noqa: S102 - what was recorded
        run = program[f"test_{recorded.dataset}_of_recorded_rows"]
        assert callable(run)
        run(sandbox)


def test_a_recorded_test_passes_and_joins_by_masked_keys(shop: Pipeline, tmp_path: Path) -> None:
    """All orders of the customers, with decimals and times; addresses and keys are masked, totals are not."""
    recorded = record_test(shop, RecordRequest(dataset="revenue", masked=("customer_id",)), salt=b"salt")
    assert recorded.masked == ("customer_id", "email")
    assert [(each.name, len(each.rows)) for each in recorded.inputs] == [("orders", 40), ("customers", 3)]
    assert recorded.notes[0].startswith("3 of the 3 expected rows are rows of the table")
    passes(recorded, shop, tmp_path / "test_recorded.py")
    text = (tmp_path / "test_recorded.py").read_text("utf-8")
    assert "@" in text
    assert "example.com" not in text


def test_a_cut_sample_still_passes_and_says_so(shop: Pipeline, tmp_path: Path) -> None:
    """Five orders make other totals than forty: the expected rows are those of the update of the sample."""
    recorded = record_test(shop, RecordRequest(dataset="revenue", limit=5), salt=b"salt")
    assert "0 of the 3 expected rows are rows of the table" in recorded.notes[0]
    assert any("cut at the limit of 5" in note for note in recorded.notes)
    passes(recorded, shop, tmp_path / "recorded.unit_tests.yml")


def test_files_are_recorded_below_the_folder_of_the_spec(shop: Pipeline, tmp_path: Path) -> None:
    """A test on another machine finds the input by the end of its path."""
    recorded = record_test(shop, RecordRequest(dataset="orders", limit=2, unmasked=()), salt=b"salt")
    assert [(each.name, len(each.rows)) for each in recorded.inputs] == [("data", 2)]
    passes(recorded, shop, tmp_path / "test_recorded.py")


@pytest.mark.parametrize(
    ("request_", "condition"),
    [
        (RecordRequest(dataset="revenu"), "DATASET_NOT_FOUND"),
        (RecordRequest(dataset="revenue", masked=("emial",)), "TEST_RECORD_COLUMN_NOT_FOUND"),
        (RecordRequest(dataset="revenue", version=70), "TEST_RECORD_VERSION_NOT_FOUND"),
    ],
)
def test_what_cannot_be_recorded_is_an_error(shop: Pipeline, request_: RecordRequest, condition: str) -> None:
    """A dataset, a column or a version that does not exist."""
    with pytest.raises(UserError) as caught:
        record_test(shop, request_)
    assert caught.value.condition == condition
