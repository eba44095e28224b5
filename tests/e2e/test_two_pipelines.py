"""Two pipelines of one Python process: each has its own modules, and one that closes leaves the other its session."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

LIBRARY = """
from framework import pipelines as dp
from pyspark.sql.functions import col, udf
import helpers

@udf("string")
def with_late(n):
    from parts import late
    return f"{late.NAME}{n}"

@dp.materialized_view
def rows():
    from helpers import NAME
    ids = spark.range(2).select(with_late(col("id")).alias("late"))
    return ids.selectExpr(f"'{helpers.NAME}{NAME}' AS early", "late")
"""
SCRIPT = """
from concurrent.futures import ThreadPoolExecutor
from framework import Pipeline

def updated(name):
    pipeline = Pipeline.from_spec(f"{name}/spec.yml", master="local[2]")
    assert all(pipeline.run(full_refresh_all=True).state.value == "COMPLETED" for _ in range(3))
    return pipeline

def rows(pipeline):
    return sorted(tuple(row) for row in pipeline.table("rows").collect())

first = updated("a")
with ThreadPoolExecutor(2) as threads:
    second, third = threads.map(updated, ["b", "c"])
found = [rows(first), rows(second), rows(third)]
first.close()
second.close()
assert third.run(full_refresh_all=True).state.value == "COMPLETED"
print([*found, rows(third)])
third.close()
"""


def test_pipelines_with_modules_of_equal_names_run_in_threads_and_close_one_by_one(tmp_path: Path) -> None:
    """The first one starts the session. The columns are computed in the query function and in a Python worker."""
    for name in "abc":
        folder = tmp_path / name
        (folder / "parts").mkdir(parents=True)
        (folder / "spec.yml").write_text(
            f"name: {name}\nstorage: {tmp_path / 'storage' / name}\nlibraries:\n  - glob: {{include: library.py}}\n"
        )
        (folder / "library.py").write_text(LIBRARY)
        (folder / "helpers.py").write_text(f"NAME = {name!r}\n")
        (folder / "parts" / "__init__.py").write_text("")
        (folder / "parts" / "late.py").write_text("from helpers import NAME\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = {name: [(name * 2, f"{name}0"), (name * 2, f"{name}1")] for name in "abc"}
    assert ast.literal_eval(done.stdout.splitlines()[-1]) == [expected[name] for name in "abcc"]
