"""Every module of the conformance suite, and of this repository's pipelines, as Databricks would load it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.foundation.errors import UserError
from framework.testing.databricks import as_on_databricks

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
# Gateways of Databricks do what `ingest_database` does, so this module has no native form.
LOCAL = ROOT / "pipelines" / "bank" / "transformations" / "copies.py"
MODULES = [
    *sorted((FOLDER / "modules").glob("*.py")),
    *(path for path in sorted((ROOT / "pipelines").glob("**/*.py")) if path != LOCAL),
]

# What the documented interface has no form for: each with its condition.
WITHOUT_NATIVE_FORM = {"from_snapshots.txt": "NATIVE_ARGUMENT_MISSING"}


def text_of(module: Path) -> str:
    """Where the calls of a module are written down."""
    names = module.relative_to(ROOT / "pipelines").parts if module.is_relative_to(ROOT / "pipelines") else [module.name]
    return "_".join(name for name in names if name != "transformations").removesuffix(".py") + ".txt"


@pytest.mark.parametrize("module", MODULES, ids=text_of)
def test_what_a_module_declares_arrives_at_the_native_module(module: Path, spark: SparkSession) -> None:
    """The native calls equal the files in `native/`; SLUICE_UPDATE_GOLDEN=1 rewrites them."""
    condition, fault = None, ""
    with as_on_databricks() as native:
        try:
            native.load(module, spark)
        except UserError as error:
            condition = error.condition
            fault = "\n" + error.render().replace(str(module), module.name)
    assert {record.location.file for record in native.records} <= {str(module)}
    assert condition == WITHOUT_NATIVE_FORM.get(text_of(module))
    found = native.text() + fault
    expected = FOLDER / "native" / text_of(module)
    if os.environ.get("SLUICE_UPDATE_GOLDEN") == "1":
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(found + "\n", encoding="utf-8")
    assert expected.read_text("utf-8") == found + "\n"


def test_no_text_is_left_of_a_module_that_is_gone() -> None:
    """The texts and the modules are the same."""
    assert {path.name for path in (FOLDER / "native").iterdir()} == set(map(text_of, MODULES))


def test_the_documentation_shows_what_arrives(tmp_path: Path, spark: SparkSession) -> None:
    """The module in docs/databricks.md makes the native calls shown on the page, and the usage example prints them."""
    page = (ROOT / "docs" / "databricks.md").read_text("utf-8")
    blocks = re.findall(r"^```(?:python|text)\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    module, arrived, usage = *blocks[:2], blocks[-1]
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "users.py").write_text(module, encoding="utf-8")
    printed: list[str] = []
    program = usage.replace('"transformations/', f'"{tmp_path}/transformations/')
    exec(compile(program, "page", "exec"), {"spark": spark, "print": printed.append})  # noqa: S102 - our own page
    assert "\n".join(printed) + "\n" == arrived
