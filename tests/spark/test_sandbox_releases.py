"""The next release meets the storage of the last one, in one test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.sandbox.crashes import Crashes
    from framework.sandbox.sandbox import Sandbox

SPEC = "name: shop\nlibraries:\n  - file: {path: shop.py}\n"

MODULE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

import prices


@dp.table
def orders():
    rows = spark.readStream.schema("id INT, amount INT").json("data/orders")
    return rows.withColumn("price", F.udf(prices.price, "INT")("amount"))


@dp.table
def customers():
    return spark.readStream.schema("id INT, name STRING").json("data/customers").dropDuplicates(["id"])
"""

BROKEN = MODULE.replace('dropDuplicates(["id"])', 'dropDuplicates(["id", "name"])')


def git(folder: Path, *command: str) -> None:
    """Run git in a folder, without the settings of the user."""
    person = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *person, *command], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a released pipeline, whose prices are higher today."""
    folder = tmp_path / "repository" / "shop"
    folder.mkdir(parents=True)
    (folder / "pipeline.yml").write_text(SPEC)
    (folder / "shop.py").write_text(MODULE)
    (folder / "prices.py").write_text("def price(amount):\n    return amount * 10\n")
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", "-A")
    git(folder.parent, "commit", "-qm", "first")
    git(folder.parent, "tag", "v1.4.0")
    (folder / "prices.py").write_text("def price(amount):\n    return amount * 11\n")
    return folder


@pytest.fixture
def pipeline(shop: Path, tmp_path: Path, interpreting: SparkSession) -> Iterator[Sandbox]:
    """Today's pipeline."""
    with Pipeline.from_spec(shop / "pipeline.yml", spark=interpreting).sandbox(tmp_path / "sandbox") as sandbox:
        yield sandbox


@pytest.fixture
def crash(pipeline: Sandbox) -> Crashes:
    """The fixture of the pytest plugin."""
    return pipeline.crash


def rows(first: int, last: int) -> list[tuple[int, int]]:
    """Orders by number."""
    return [(number, number) for number in range(first, last + 1)]


def orders(pipeline: Sandbox) -> list[tuple[int, int]]:
    """The stored orders with their prices."""
    return sorted((row["id"], row["price"]) for row in pipeline.rows("orders"))


def test_release_can_continue(pipeline: Sandbox, crash: Crashes) -> None:
    """Example 3 of the design: no row is lost and none is there twice; each has the prices of its release."""
    pipeline.given("data/customers", [(1, "Ada")])
    with pipeline.code("git:v1.4.0"):
        pipeline.given("data/orders", rows(1, 3))
        pipeline.update()
    assert pipeline.plan().breaks == ()
    pipeline.arrives("data/orders", rows(4, 6))
    with crash.at("after-table-commit"):
        pipeline.update()
    pipeline.update()

    assert orders(pipeline) == [(1, 10), (2, 20), (3, 30), (4, 44), (5, 55), (6, 66)]


def test_a_release_that_cannot_continue_is_foretold(pipeline: Sandbox, shop: Path) -> None:
    """The plan has the error of the flow, without a stream; the release before can still continue."""
    pipeline.given("data/customers", [(1, "Ada")])
    pipeline.given("data/orders", rows(1, 1))
    pipeline.update()
    (shop / "shop.py").write_text(BROKEN)
    with pipeline.code(shop):
        broken = [(error.condition, str(error.fields["flow"])) for error in pipeline.plan().breaks]
    with pipeline.code("git:v1.4.0"):
        whole = pipeline.plan().breaks
        pipeline.arrives("data/orders", rows(2, 2))
        pipeline.update()

    assert broken == [("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "main.default.customers")]
    assert (whole, orders(pipeline)) == ((), [(1, 11), (2, 20)])
