"""`kill -9` while files are read: each row arrives once, with all of its columns.

Random histories with simulated kills are in `tests/properties/test_cloud_files_converge.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from framework.run.update.results import UpdateState
from framework.testing.crashes import CrashJob, CrashPoint, kill_updates
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = Path(__file__).parent / "fixtures" / "files" / "files.py"
POINTS = [
    ("fresh", "cloud_files.before_start"),
    ("fresh", "cloud_files.after_start"),
    ("fresh", "cloud_files.after_files"),
    ("begun", "cloud_files.after_columns"),
]
"""One copy of `begun` only: Spark stops a query when another one with the same checkpoint starts in its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Copies of one pipeline over the same folder of files."""

    spark: SparkSession
    root: Path

    def put(self, name: str, *rows: Mapping[str, Any]) -> None:
        """Write a file beside the folder and move it there."""
        landing = self.root / "landing"
        landing.mkdir(exist_ok=True)
        (self.root / "new").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        (self.root / "new").rename(landing / name)

    def copy(self, name: str, of: str | None = None) -> str:
        """Return the spec of a new copy, with the storage of another one."""
        folder = self.root / name
        if of is not None:
            shutil.copytree(self.root / of, folder)
        else:
            folder.mkdir()
            shutil.copy(MODULE, folder)
            spec = {
                "name": "files", "storage": "storage", "development": True,
                "libraries": [{"file": {"path": MODULE.name}}],
                "configuration": {"files.landing": str(self.root / "landing")},
            }  # fmt: skip
            (folder / "pipeline.yml").write_text(json.dumps(spec))
        return str(folder / "pipeline.yml")

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline of a copy, as in a new process."""
        return Pipeline.from_spec(self.root / name / "pipeline.yml", spark=self.spark)


def rows(pipeline: Pipeline, table: str = "readings") -> list[dict[str, Any]]:
    """The rows of a table without NULL, in the order of their ids."""
    found = [row.asDict() for row in pipeline.table(table).collect()]
    return sorted(({k: v for k, v in row.items() if v is not None} for row in found), key=json.dumps)


def test_after_a_kill_the_next_update_has_each_row_once(interpreting: SparkSession, tmp_path: Path) -> None:
    """Killed at each pair of durable writes of the source, at the first start and when a new column has come."""
    files = Files(spark=interpreting, root=tmp_path)
    first = [{"id": str(number), "sensor": str(number % 2)} for number in range(3)]
    for row in first:
        files.put(f"{row['id']}.json", row)
    files.copy("fresh")
    files.copy("begun", of="fresh")
    assert files.pipeline("begun").run().state is UpdateState.COMPLETED
    more = [{"id": str(number), "sensor": str(number % 4), "unit": "°C"} for number in range(3, 6)]
    for row in more:
        files.put(f"{row['id']}.json", row)
    names = [f"{start}-{point}" for start, point in POINTS]
    jobs = [
        CrashJob(spec=files.copy(name, of=start), point=CrashPoint(name=point))
        for name, (start, point) in zip(names, POINTS, strict=True)
    ]
    kill_updates(jobs, workspace=tmp_path, spark_conf=INTERPRETED)
    for name in names:
        pipeline = files.pipeline(name)
        assert pipeline.run().state is UpdateState.COMPLETED, name
        assert rows(pipeline) == sorted([*first, *more], key=json.dumps), name
        assert rows(pipeline, "sensors") == [{"sensor": "0"}, {"sensor": "1"}, {"sensor": "3"}], name
