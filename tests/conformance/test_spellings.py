"""Pipeline modules that cover every call: the same specs, and the same rows, in all three spellings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline, pipelines
from framework.declare.modules.loader import load_modules
from framework.declare.pipeline_spec import PipelineSpec
from framework.declare.registry import Registry
from framework.native.interface import LOCAL_ONLY
from framework.run.update.results import UpdateState
from framework.testing.spellings import SPELLINGS, respell
from tests.conformance.rendering import render_registry
from tests.support.plain_tables import append_rows, table_rows

FOLDER = Path(__file__).parent
MODULES = sorted(path.stem for path in (FOLDER / "modules").glob("*.py"))

ORDERS = [(1, 1, 10), (2, 1, -5), (3, 2, 30), (4, 2, 40), (5, 3, 50)]
CHANGES = [
    (124, "Raul", "Oaxaca", "INSERT", 1),
    (123, "Isabel", "Monterrey", "INSERT", 1),
    (125, "Mercedes", "Tijuana", "INSERT", 2),
    (126, "Lily", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "Mercedes", "Guadalajara", "UPDATE", 6),
    (125, "Mercedes", "Mexicali", "UPDATE", 5),
    (123, "Isabel", "Chihuahua", "UPDATE", 5),
]
USERS = [(124, "Raul", "Oaxaca"), (125, "Mercedes", "Guadalajara"), (126, "Lily", "Cancun")]
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "run_orders": [(1, 1, 10), (3, 2, 30), (4, 2, 40), (5, 3, 50)],
    "run_by_day": [(2, 2, 70), (3, 1, 50)],
    "run_batch": [(40,)],
    "run_users": USERS,
    "run_users_backfilled": [*USERS, (200, "Zoe", "Lima")],
    "run_hidden": [(0,), (1,), (2,)],
    "run_shown": [(3,)],
    "run_shouted": [("CANCUN!",), ("GUADALAJARA!",), ("OAXACA!",)],
}
CALLING = "run_flows"
"""The module with a function that calls the face while it runs; other functions are the same in each spelling."""
ROWS_OF_CALLING: dict[str, list[tuple[Any, ...]]] = {
    "merged": [(1, 10), (2, -5), (3, 30), (4, 40), (5, 50), (100, 7), (101, 8)],
    "streamed_on": [(100, 7), (101, 8)],
}


def write(folder: Path, module: str, spelling: str) -> Path:
    """Write the module in a spelling, always to the same path, so that locations can be compared."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{module}.py"
    path.write_text(respell((FOLDER / "modules" / f"{module}.py").read_text("utf-8"), spelling), encoding="utf-8")
    return path


@pytest.fixture(params=MODULES)
def registries(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> dict[str, Registry]:
    """The registry of one module's declarations, by spelling."""
    found = {}
    for spelling in SPELLINGS:
        registry = Registry(catalog="main", schema="shop", gathers_faults=True)
        path = write(tmp_path, request.param, spelling)
        load_modules(PipelineSpec(name="p", storage="s"), [path], registry, spark)
        found[spelling] = registry
    return found


def test_a_module_declares_the_same_in_each_spelling_and_exactly_this(
    registries: dict[str, Registry], request: pytest.FixtureRequest
) -> None:
    """The specs equal the file of the module; SLUICE_UPDATE_GOLDEN=1 rewrites it."""
    ours = registries["framework"]
    for other in registries.values():
        assert (other.datasets, other.flows, other.hooks) == (ours.datasets, ours.flows, ours.hooks)
        assert render_registry(other) == render_registry(ours)
    expected = FOLDER / "specs" / f"{request.node.callspec.params['registries']}.txt"
    if os.environ.get("SLUICE_UPDATE_GOLDEN") == "1":
        expected.write_text(render_registry(ours) + "\n", encoding="utf-8")
    assert expected.read_text("utf-8") == render_registry(ours) + "\n"


def test_the_modules_use_every_name_of_the_face() -> None:
    """Every call is in at least one module, but for `ingest_database`, which needs a database: see tests/databases."""
    text = "".join(path.read_text("utf-8") for path in (FOLDER / "modules").glob("*.py"))
    assert [name for name in pipelines.__all__ if f"dp.{name}" not in text] == sorted(LOCAL_ONLY)


def modules_in_all_spellings(folder: Path) -> list[Path]:
    """The modules that run: each in one spelling in turn, and the one that calls the face in all, with other names."""
    running = [module for module in MODULES if module.startswith("run_") and module != CALLING]
    paths = [write(folder, module, spelling) for module, spelling in zip(running, cycle(SPELLINGS), strict=False)]
    for spelling in SPELLINGS:
        path = write(folder, CALLING, spelling)
        named = folder / f"{spelling}_flows.py"
        named.write_text(path.read_text("utf-8").replace("run_", f"{spelling}_"), encoding="utf-8")
        path.unlink()
        paths.append(named)
    return paths


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[tuple[Any, ...]]]]:
    """The rows of all tables after each of two updates of one pipeline."""
    root = tmp_path_factory.mktemp("spellings")
    feed: dict[str, tuple[Sequence[Sequence[Any]], str]] = {
        "orders": (ORDERS, "id int, day int, amount int"),
        "changes": (CHANGES, "userId int, name string, city string, operation string, sequenceNum int"),
    }
    for name, (fed, ddl) in feed.items():
        append_rows(spark, str(root / name), fed, ddl)
    pipeline = Pipeline(
        name="conformance",
        modules=modules_in_all_spellings(root / "modules"),
        storage=root / "storage",
        schema="shop",
        configuration={**{name: str(root / name) for name in feed}, "last_day": "2"},
        spark=spark,
        development=True,
    )
    names = [*ROWS, *(f"{spelling}_{name}" for spelling in SPELLINGS for name in ROWS_OF_CALLING)]
    rows = []
    for _ in range(2):
        assert pipeline.run().state == UpdateState.COMPLETED
        rows.append({name: rows_of(pipeline, root, name) for name in names})
    return rows


def test_modules_in_any_spelling_give_their_rows(found: list[dict[str, list[tuple[Any, ...]]]]) -> None:
    """Modules of different spellings are one pipeline; a second update has nothing to do and changes nothing."""
    for after in found:
        assert {name: after[name] for name in ROWS} == ROWS


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_functions_may_call_the_face_in_each_spelling(
    found: list[dict[str, list[tuple[Any, ...]]]], spelling: str
) -> None:
    """`read_stream` in a function of a flow reads the table that another flow of the module fills."""
    for after in found:
        assert {name: after[f"{spelling}_{name}"] for name in ROWS_OF_CALLING} == ROWS_OF_CALLING


def rows_of(pipeline: Pipeline, root: Path, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table that users see, sorted; a private table is in a folder of its own."""
    (folder,) = root.glob(f"storage/*/main/shop/{name}")
    return sorted(map(tuple, table_rows(pipeline.spark, str(folder), without="__sluice")))
