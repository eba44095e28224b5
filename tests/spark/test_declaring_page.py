"""The page on declarations is correct: its project runs on its data."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.run.update.results import UpdateState
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/declaring.md").read_text("utf-8")


def test_the_page_s_project_runs_on_its_data(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view has the page's revenue; the table lacks the row without an id, and the sink has the large order."""
    (spec,), (module,), (data,) = (
        re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) for language in ("yaml", "python", "shell")
    )
    (tmp_path / "transformations").mkdir()
    module = module.replace('"data/', f'"{tmp_path}/data/')
    (tmp_path / "transformations" / "shop.py").write_text(module, encoding="utf-8")
    (tmp_path / "pipeline.yml").write_text(spec, encoding="utf-8")
    subprocess.run(["bash", "-euc", data], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    tables = Pipeline.from_spec("pipeline.yml", storage=tmp_path / "storage", spark=spark.newSession())
    assert tables.run().state is UpdateState.COMPLETED
    assert sorted(map(tuple, tables.table("revenue").collect())) == [("Ada", 150.0), ("Grace", 70.0)]
    assert sorted(row.id for row in tables.table("orders").collect()) == [1, 2, 3, 4]
    written = [
        line for file in tmp_path.glob("data/approvals/*/*.json") for line in file.read_text("utf-8").split("\n")
    ]
    assert [json.loads(line)["id"] for line in written if line] == [1]
