"""Databricks' module for tests of pipelines, as pytest finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from framework.testing import databricks_tests

CONFTEST = """
import sys

import pytest
from pyspark.pipelines.testing import TestPipeline, test_spark

assert "pyspark" not in sys.modules

test_pipeline = TestPipeline.active()


@pytest.fixture
def mocked(test_spark):
    return test_spark
"""
TESTS = """
from pyspark.pipelines.testing import TestPipeline, test_spark


def test_of_a_fixture(mocked): ...


class TestOfAClass:
    def test_of_a_class(self, test_spark): ...
"""


def test_a_conftest_may_import_the_module_before_all_else(tmp_path: Path) -> None:
    """It is there when pytest loads the first files, without PySpark; its classes are not collected as tests."""
    (tmp_path / "conftest.py").write_text(CONFTEST, "utf-8")
    (tmp_path / "test_of_databricks.py").write_text(TESTS, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist"]
    found = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)

    names = [line.partition("::")[2] for line in found.stdout.splitlines() if "::" in line]
    assert ["test_of_a_fixture", "TestOfAClass::test_of_a_class"] == names, found.stdout + found.stderr


def test_the_module_of_databricks_stays(swap: pytest.MonkeyPatch) -> None:
    """In Databricks' runtime, its own module is imported."""
    own = type(sys)(databricks_tests.MODULE)
    swap.setitem(sys.modules, databricks_tests.MODULE, own)
    databricks_tests.install()
    databricks_tests.uninstall()
    assert sys.modules[databricks_tests.MODULE] is own
