"""The page docs/files.md is correct: its module runs, and its table of options is that of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from framework import Pipeline
from framework.run.update.results import UpdateState
from framework.sources.cloud_files.settings.options import EvolutionMode
from tests.support.plain_tables import table_rows
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/files.md").read_text("utf-8")


def put(path: Path, *rows: tuple[object, ...]) -> None:
    """Write a file of change events."""
    names = ("id", "name", "operation", "sequenceNum", "city")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(dict(zip(names, row, strict=False)))}\n" for row in rows), "utf-8")


def test_the_module_of_the_page_follows_its_files(spark: SparkSession, tmp_path: Path) -> None:
    """A stateful view feeds AUTO CDC with deletes and truncates; a once flow adds history; a column arrives later."""
    landing = tmp_path / "landing"
    put(landing / "customers/1.json", (1, "Ann", "INSERT", 1), (2, "Bo", "INSERT", 2))
    put(landing / "customers/2.json", (1, "Ann", "INSERT", 1), (1, None, "DELETE", 5))
    put(landing / "history/0.json", (7, "Old", "INSERT", 0))
    (tmp_path / "page.py").write_text("\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), "utf-8")
    pipeline = Pipeline(
        name="page", modules=[tmp_path / "page.py"], storage=str(tmp_path / "storage"), spark=spark.newSession(),
        configuration={"landing": str(landing)}, development=True,
    )  # fmt: skip

    def rows() -> list[tuple[object, ...]]:
        path = pipeline.storage.path("tables", "main", "default", "customers")
        return sorted(map(tuple, table_rows(pipeline.spark, path, without="__sluice")))

    first = pipeline.run()
    assert [flow.error for flow in first.flows if flow.error] == []
    assert rows() == [(2, "Bo"), (7, "Old")]
    put(landing / "customers/3.json", (2, "Bob", "UPDATE", 6, "Rome"), (3, "Cy", "INSERT", 7, None))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert rows() == [(2, "Bob", "Rome"), (3, "Cy", None), (7, "Old", None)]
    put(landing / "customers/4.json", (0, None, "TRUNCATE", 8), (4, "Di", "INSERT", 9))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert rows() == [(4, "Di", None)]


def test_the_page_has_every_mode() -> None:
    """The table of modes has those of the code."""
    assert [mode for mode in EvolutionMode if f"| `{mode}`" not in PAGE] == []
