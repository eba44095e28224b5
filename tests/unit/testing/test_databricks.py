"""The stand-in of the native module rejects what the native one rejects, and restores the process afterwards."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
import pytest

from framework.testing.databricks import as_on_databricks


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the test's module."""
    return tmp_path / "module.py"


@pytest.mark.parametrize(
    "call",
    [
        "dp.table(format='delta')",
        "dp.create_streaming_table()",
        "dp.create_streaming_table('t', private=True)",
        "dp.append_flow(targets='t')",
        "dp.create_auto_cdc_flow('t', 's', ['id'])",
        "dp.create_auto_cdc_from_snapshot_flow('t', 's', ['id'], name='f')",
    ],
)
def test_what_the_interface_does_not_have_is_refused_as_python_does(file: Path, call: str) -> None:
    """Unknown and missing arguments are TypeErrors, at the module's own call."""
    file.write_text(f"from pyspark import pipelines as dp\n{call}\n", encoding="utf-8")
    with as_on_databricks() as native, pytest.raises(TypeError):
        native.load(file)
    assert native.records == []


def test_our_own_names_are_not_there(file: Path) -> None:
    """A native module has neither `snapshot_flow` nor `read`."""
    for name in ("snapshot_flow", "read"):
        file.write_text(f"from pyspark.pipelines import {name}\n", encoding="utf-8")
        with as_on_databricks() as native, pytest.raises(ImportError):
            native.load(file)


def test_native_spellings_arrive_as_they_are(file: Path) -> None:
    """A module for Databricks only is recorded too, each call with its line and its function."""
    file.write_text(
        "import dlt\ndlt.create_sink('s', 'noop')\n@dlt.table\n@dlt.expect('a', 'b')\ndef t(): ...\n", encoding="utf-8"
    )
    with as_on_databricks(module="dlt") as native:
        native.load(file)
    assert native.text().splitlines() == [
        "line 2: create_sink(name='s', format='noop')",
        "line 4: expect(name='a', inv='b') on t",
        "line 3: table() on t",
    ]
    assert {record.location.file for record in native.records} == {str(file)}


def test_afterwards_the_process_is_as_before() -> None:
    """Modules, PySpark's attribute and the variable are put back, also when the block raised."""
    before = (sys.modules.get("pyspark.pipelines"), sys.modules.get("dlt"), dict(os.environ))
    attribute = pyspark.__dict__.get("pipelines")
    seen = []
    with pytest.raises(ZeroDivisionError), as_on_databricks(runtime="16.4"):
        seen.append(1 // (os.environ["DATABRICKS_RUNTIME_VERSION"] != "16.4"))
    assert seen == []
    assert (sys.modules.get("pyspark.pipelines"), sys.modules.get("dlt"), dict(os.environ)) == before
    assert pyspark.__dict__.get("pipelines") is attribute
