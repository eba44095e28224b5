"""Updates over files that `tests/crashes/test_updates.py` kills: new columns, and types that become wider."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from framework.run.update.results import UpdateState
from framework.testing.crashes import CrashJob, CrashPoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURES = Path(__file__).parents[1] / "crashes" / "fixtures" / "files"
POINTS_OF_FILES = [
    ("fresh", "cloud_files.before_start"),
    ("fresh", "cloud_files.after_start"),
    ("fresh", "cloud_files.after_files"),
    ("begun", "cloud_files.after_columns"),
]
"""One update of each start passes its points."""

WIDENING = [
    *([("cloud_files.after_columns", 1)] if os.environ.get("SLUICE_CRASH_POINTS") == "all" else []),
    ("tables.before_wider_types", 1),
    ("tables.after_wider_types", 2),
    ("cdc.after_tombstones", 1),
    ("cdc.after_merge", 1),
]
"""From the record of the types to the commit of the batch that needs them: the files, the table, the target of AUTO CDC
with its auxiliary table. One update passes them all. Between the first two only a property of the table is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Copies of one pipeline over the same folder of files."""

    spark: SparkSession
    root: Path
    module: str = "files.py"

    def put(self, name: str, *rows: Mapping[str, Any]) -> None:
        """Write a file beside the folder and move it there."""
        self.text(name, *map(json.dumps, rows))

    def text(self, name: str, *lines: str) -> None:
        """Write a file of text beside the folder and move it there."""
        landing = self.root / "landing"
        landing.mkdir(exist_ok=True)
        (self.root / "new").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        (self.root / "new").rename(landing / name)

    def copy(self, name: str, of: str | None = None) -> str:
        """Return the spec of a new copy, with the storage of another one."""
        folder = self.root / name
        if of is not None:
            shutil.copytree(self.root / of, folder)
        else:
            folder.mkdir()
            shutil.copy(FIXTURES / self.module, folder)
            spec = {
                "name": "files", "storage": "storage", "development": True,
                "libraries": [{"file": {"path": self.module}}],
                "configuration": {"files.landing": str(self.root / "landing")},
            }  # fmt: skip
            (folder / "pipeline.yml").write_text(json.dumps(spec))
        return str(folder / "pipeline.yml")

    def job(self, start: str, points: Sequence[CrashPoint]) -> CrashJob:
        """An update of a copy, which is copied at each of these points and killed at the last one."""
        copies = {str(self.root / files_name(start, point)): point for point in points}
        return CrashJob(spec=self.copy(f"{start} killed", of=start), copies=copies)

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline of a copy, as in a new process."""
        return Pipeline.from_spec(self.root / name / "pipeline.yml", spark=self.spark)


def files_name(start: str, point: CrashPoint) -> str:
    """The folder of one killed update."""
    return f"{start}-{point.name}-{point.nth}"


READINGS = [{"id": str(number), "sensor": str(number % 3)} for number in range(4)]
READINGS[2]["unit"] = READINGS[3]["unit"] = "°C"


def readings(session: SparkSession, root: Path) -> Files:
    """A pipeline that has not run, and one that ran before a new column came."""
    files = Files(spark=session, root=root)
    for row in READINGS[:2]:
        files.put(f"{row['id']}.json", row)
    files.copy("fresh")
    files.copy("begun", of="fresh")
    assert files.pipeline("begun").run().state is UpdateState.COMPLETED
    for row in READINGS[2:]:
        files.put(f"{row['id']}.json", row)
    return files


def widening(session: SparkSession, root: Path) -> Files:
    """A pipeline that ran before values, a key and a sequence came that need wider types."""
    files = Files(spark=session, root=root, module="wider.py")
    files.text("1.csv", "id,amount,op,seq", "1,10,u,1", "2,20,u,2", "3,30,d,9")
    files.copy("begun")
    assert files.pipeline("begun").run().state is UpdateState.COMPLETED
    files.text("2.csv", "id,amount,op,seq", "1,10.5,u,11", "5000000000,1.5,u,5000000000", "2,0,d,12", "3,31,u,8")
    return files


def jobs_of_files(read: Files, widened: Files) -> list[CrashJob]:
    """One update of each initial state, which passes all of its points."""
    points = {
        begun: [CrashPoint(name=point) for start, point in POINTS_OF_FILES if start == begun]
        for begun, _ in POINTS_OF_FILES
    }
    widening_points = [CrashPoint(name=point, nth=nth) for point, nth in WIDENING]
    return [*(read.job(start, points[start]) for start in points), widened.job("begun", widening_points)]
