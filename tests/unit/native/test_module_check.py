"""Declarations without a native form are found in a module's source, without running it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.bundle.loading import load_bundle
from framework.deploy.bundle.pipeline_modules import module_files, native_faults
from framework.native.module_check import files_faults, module_faults

ROOT = Path(__file__).parents[3]
OURS = "from framework import pipelines as dp\n"

CASES = {
    # Arguments that the native functions lack; what says the default, or is implied, is no fault.
    OURS + "dp.create_streaming_table('t', private=True)": ["m.py:2 NATIVE_ARGUMENT_MISSING"],
    OURS + "dp.create_streaming_table('t', private=False, comment=None, format='delta')": [],
    OURS + "dp.apply_changes_from_snapshot('t', 's', ['id'],\n    flow_name='f')": ["m.py:3 NATIVE_ARGUMENT_MISSING"],
    OURS + "@dp.table(temporary=True, format='delta')\ndef t(): ...": [],
    OURS + "dp.create_auto_cdc_flow('t', 's', ['id'], 'seq', flow_name='f', where='a')": [],
    OURS + "dp.create_auto_cdc_flow('t', 's', ['id'], 'seq', soft_deletes=False)": [],
    OURS + "@dp.auto_cdc_flow('t', ['id'], 'seq',\n    soft_deletes=True)\ndef f(): ...": [
        "m.py:3 NATIVE_ARGUMENT_MISSING"
    ],
    OURS + "@dp.snapshot_flow('t', ['id'])\ndef f(): ...": [],
    "import framework.pipelines\nframework.pipelines.create_target_table('t', temporary=True)": [
        "m.py:2 NATIVE_ARGUMENT_MISSING"
    ],
    "from framework.pipelines import create_streaming_table as make\nmake('t', private=True)": [
        "m.py:2 NATIVE_ARGUMENT_MISSING"
    ],
    OURS + "@dp.expect_all({'a': 'id > 0', 'b':\n    '(unique (id))'})\n@dp.table\ndef t(): ...": [
        "m.py:3 NATIVE_ARGUMENT_MISSING"
    ],
    "import dlt\ndlt.create_streaming_table('t', expect_all_or_drop={'one': 'UNIQUE(a, b)'})": [
        "m.py:2 NATIVE_ARGUMENT_MISSING"
    ],
    "import dlt\n@dlt.table(comment='UNIQUE (id)')\n@dlt.expect('one', 'is_unique(id)')\ndef t(): ...": [],
    # The native spellings, which are not translated there.
    "from pyspark import pipelines as dp\n@dp.snapshot_flow('t', ['id'])\ndef f(): ...": [
        "m.py:2 NATIVE_FUNCTION_OURS"
    ],
    "import dlt\ndlt.auto_cdc_flow": ["m.py:2 NATIVE_FUNCTION_OURS"],
    "import dlt\ndlt.apply_changes(target='t', source='s', keys=['id'], sequence_by='x', flow_name='f')": [],
    "from pyspark import pipelines as dp\n@dp.table(format='delta')\ndef t(): ...": ["m.py:2 NATIVE_ARGUMENT_MISSING"],
    # Parts of Sluice that only run where its engine does.
    "from framework import Pipeline": ["m.py:1 NATIVE_IMPORT_MISSING"],
    "import framework.session.spark_session": ["m.py:1 NATIVE_IMPORT_MISSING"],
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from framework import Pipeline": [],
    # Names of other packages.
    "from mine import dp\ndp.create_streaming_table('t', private=True)": [],
    "dp = (": [],
}


@pytest.mark.parametrize("source", CASES)
def test_a_module_s_faults_are_these(source: str) -> None:
    """Each fault has its condition and its line."""
    found = [f"{fault.location} {fault.condition}" for fault in module_faults(source, "m.py")]
    assert found == CASES[source]


def test_a_notebook_is_checked_as_its_cells_run(tmp_path: Path) -> None:
    """A fault has the line of the file; a file that is no notebook is a fault of the run."""
    code = ["%python\n", "import dlt\n", "dlt.auto_cdc_flow"]
    cells = [{"cell_type": "code", "source": source} for source in (["%sql\n", "SELECT 1"], code)]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}, indent=1), encoding="utf-8")
    (tmp_path / "b.ipynb").write_text("{}", encoding="utf-8")
    faults = files_faults([tmp_path / "a.ipynb", tmp_path / "b.ipynb"])
    assert [(fault.condition, fault.location and fault.location.line) for fault in faults] == [
        ("NATIVE_FUNCTION_OURS", 15)
    ]


def test_the_pipelines_of_this_repository_have_no_fault() -> None:
    """Every pipeline has a native form, except for `ingest_database`: gateways of Databricks do that."""
    modules = sorted((ROOT / "pipelines").rglob("*.py"))
    assert len(modules) > 3
    faults = [(fault.condition, fault.location.file if fault.location else "") for fault in files_faults(modules)]
    assert faults == [("NATIVE_FUNCTION_LOCAL", str(ROOT / "pipelines/bank/transformations/copies.py"))]


def test_the_modules_of_a_bundle_s_pipelines_are_checked_and_no_other_file(tmp_path: Path) -> None:
    """Globs, folders and files of the libraries count; other files do not."""
    text = OURS + "dp.create_streaming_table('t', private=True)\n"
    sync = ("flows/a.py", "flows/deep/b.py", "one/c.py", "one/d.py", "flows/e.sql")
    for path in sync:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    libraries = [{"glob": {"include": "/files/flows/**"}}, {"file": {"path": "/files/one/c.py"}}, {"notebook": {}}]
    spec = {"libraries": libraries, "environment": {"dependencies": ["sluice.whl"]}}
    resource = Resource(key="pipelines.p", kind="pipelines", name="p", spec=FrozenSpec.of(spec))
    bundle = Bundle(
        name="b", target="dev", mode=None, root_path="/", state_path="/state", file_path="/files", root=tmp_path,
        resources=(resource, replace(resource, key="jobs.p", kind="jobs")), sync=sync,
    )  # fmt: skip
    found = [str(fault.location) for fault in native_faults(bundle)]
    assert found == [f"{tmp_path / path}:2" for path in ("flows/a.py", "flows/deep/b.py", "one/c.py")]


@pytest.mark.parametrize(
    ("source", "settings", "beside", "faults"),
    [
        ("\n" + OURS, {}, (), ["flows/a.py:2 NATIVE_WHEEL_MISSING"]),
        ("\n" + OURS, {"environment": {"dependencies": []}}, (), ["flows/a.py:2 NATIVE_WHEEL_MISSING"]),
        (OURS, {"environment": {"dependencies": ["../dist/*.whl"]}}, (), []),
        (OURS, {"root_path": "/files"}, ("framework/pipelines.py",), []),
        (OURS, {"root_path": "/files/flows"}, ("flows/framework/pipelines.py",), []),
        ("from pyspark import pipelines as dp\n", {}, (), []),
        ("not python", {}, (), []),
    ],
)
def test_a_pipeline_that_imports_our_face_has_something_that_brings_it(
    tmp_path: Path, source: str, settings: dict[str, object], beside: tuple[str, ...], faults: list[str]
) -> None:
    """A wheel among the dependencies, or the package below the pipeline's root."""
    for path in ("flows/a.py", *beside):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source if path == "flows/a.py" else "", encoding="utf-8")
    spec = {"libraries": [{"file": {"path": "/files/flows/a.py"}}], **settings}
    bundle = Bundle(
        name="b", target="dev", mode=None, root_path="/", state_path="/state", file_path="/files", root=tmp_path,
        resources=(Resource(key="pipelines.p", kind="pipelines", name="p", spec=FrozenSpec.of(spec)),),
        sync=("flows/a.py", *beside),
    )  # fmt: skip
    found = [f"{fault.location} {fault.condition}" for fault in native_faults(bundle)]
    assert found == [f"{tmp_path}/{fault}" for fault in faults]


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_this_repository_s_bundle_has_no_fault(target: str) -> None:
    """The flights pipeline is looked at, and all of it runs natively."""
    bundle = load_bundle(ROOT, target=target, user="ada@example.com")
    assert native_faults(bundle) == ()
    modules = (ROOT / "pipelines" / "flights" / "transformations").glob("*.py")
    assert module_files(bundle) == tuple(sorted(path.relative_to(ROOT).as_posix() for path in modules))
