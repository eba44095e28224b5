"""The plugin does not disturb projects that have no pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from framework.operations.testing import TestRequest, run_tests

IMPORTED = """
import json, sys
import pytest
before = set(sys.modules)
import framework.testing.plugin
new = set(sys.modules) - before
print(json.dumps(sorted(name for name in new if name.partition(".")[0] in ("framework", "yaml", "pyspark"))))
"""


def test_the_plugin_imports_nothing_until_a_test_uses_it() -> None:
    """Every run of pytest in an environment with Sluice loads it."""
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    own = ["framework", "framework.testing", "framework.testing.databricks_tests", "framework.testing.plugin"]
    assert json.loads(done.stdout) == own


def test_files_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    """A file `*.unit_tests.yml` below no spec belongs to somebody else, whatever it contains."""
    (tmp_path / "models.unit_tests.yml").write_text("unit_tests: [", "utf-8")
    (tmp_path / "test_some.py").write_text("def test_passes(): pass\n", "utf-8")
    run = run_tests(TestRequest(arguments=("-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path))))
    assert (run.exit_code, len(run.outcomes)) == (0, 1)
