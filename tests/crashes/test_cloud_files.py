"""`kill -9` while files are read: each row arrives once, with all of its columns.

Random histories with simulated kills are in `tests/properties/test_cloud_files_converge.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from framework.run.update.results import UpdateState
from framework.testing.crashes import CrashJob, CrashPoint, kill_updates
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURES = Path(__file__).parent / "fixtures" / "files"
POINTS = [
    ("fresh", "cloud_files.before_start"),
    ("fresh", "cloud_files.after_start"),
    ("fresh", "cloud_files.after_files"),
    ("begun", "cloud_files.after_columns"),
]
"""One update of each start passes its points."""

WIDENING = [
    ("cloud_files.after_columns", 1),
    ("tables.before_wider_types", 1),
    ("tables.after_wider_types", 2),
    ("cdc.after_tombstones", 1),
    ("cdc.after_merge", 1),
]
"""From the record of the types to the commit of the batch that needs them: the files, the table, the target of AUTO CDC
with its auxiliary table. One update passes them all."""


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

    def kill(self, killed: Mapping[str, Sequence[CrashPoint]]) -> list[str]:
        """Return copies as kills at these points leave them; one update of each start passes its points."""
        jobs: list[CrashJob] = []
        names: list[str] = []
        for start, points in killed.items():
            copies = {f"{start}-{point}": point for point in points}
            folders = {str(self.root / name): point for name, point in copies.items()}
            jobs.append(CrashJob(spec=self.copy(f"{start} killed", of=start), copies=folders))
            names += copies
        kill_updates(jobs, workspace=self.root, spark_conf=INTERPRETED)
        for start in killed:  # no copy can refer to files of the update that it comes from
            shutil.rmtree(self.root / f"{start} killed")
        return names

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
    points = {begun: [CrashPoint(name=point) for start, point in POINTS if start == begun] for begun, _ in POINTS}
    names = files.kill(points)
    assert len(names) == len(POINTS)
    for name in names:
        pipeline = files.pipeline(name)
        assert pipeline.run().state is UpdateState.COMPLETED, name
        assert rows(pipeline) == sorted([*first, *more], key=json.dumps), name
        assert rows(pipeline, "sensors") == [{"sensor": "0"}, {"sensor": "1"}, {"sensor": "3"}], name


def test_after_a_kill_while_types_widen_each_row_is_there_once_in_the_wider_types(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Values, keys and sequences that need wider types; a table, and a target of AUTO CDC with a late event."""
    files = Files(spark=interpreting, root=tmp_path, module="wider.py")
    files.text("1.csv", "id,amount,op,seq", "1,10,u,1", "2,20,u,2", "3,30,d,9")
    files.copy("begun")
    assert files.pipeline("begun").run().state is UpdateState.COMPLETED
    files.text("2.csv", "id,amount,op,seq", "1,10.5,u,11", "5000000000,1.5,u,5000000000", "2,0,d,12", "3,31,u,8")
    names = files.kill({"begun": [CrashPoint(name=point, nth=nth) for point, nth in WIDENING]})
    assert len(names) == len(WIDENING)
    most = 5_000_000_000
    for name in names:
        pipeline = files.pipeline(name)
        assert pipeline.run().state is UpdateState.COMPLETED, name
        found = pipeline.table("readings").select("id", "amount", "op", "seq")
        assert [kind for _, kind in found.dtypes] == ["bigint", "double", "string", "bigint"], name
        assert sorted(tuple(row) for row in found.collect()) == [
            (1, 10.0, "u", 1), (1, 10.5, "u", 11), (2, 0.0, "d", 12), (2, 20.0, "u", 2), (3, 30.0, "d", 9),
            (3, 31.0, "u", 8), (most, 1.5, "u", most),
        ], name  # fmt: skip
        balances = pipeline.table("balances").select("id", "amount", "seq").collect()
        assert sorted(tuple(row) for row in balances) == [(1, 10.5, 11), (most, 1.5, most)], name
