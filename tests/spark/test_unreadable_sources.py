"""Sources that can't be read: their datasets fail alone, their readers are skipped, and everything else goes on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from framework import Pipeline
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.record.reader import read_events
from framework.run.update.continuous.units import FlowHealth
from framework.run.update.results import FlowState
from tests.support.engine_world import forget_tables, states
from tests.support.plain_tables import append_rows, table_rows
from tests.support.running_updates import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_MODULE = """
from pathlib import Path

from framework import pipelines as dp

HERE = Path("{here}")


def files(format, name, **options):
    reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", format)
    return reader.options(**options).load(str(HERE / name))


@dp.table
def no_sample():
    return files("json", "no_sample")


@dp.table
def footer():
    return files("parquet", "footer")


@dp.table
def charset():
    return files("csv", "charset", encoding="GBK")


@dp.materialized_view
def cased():
    return spark.read.json(str(HERE / "cased"))


@dp.table
def looped():
    return files("json", "looped")


@dp.materialized_view
def colon():
    return spark.read.json(str(HERE / "colon"))


@dp.materialized_view
def unmounted():
    return spark.read.parquet(str(HERE / "unmounted"))


@dp.temporary_view
def cut():
    return files("json", "cut")


@dp.table
def of_view():
    return spark.readStream.table("cut")


@dp.table
def gap():
    return spark.readStream.format("delta").load(str(HERE / "gap_source"))


@dp.materialized_view
def reader():
    return spark.read.table("gap").groupBy("id").count()


@dp.materialized_view
def last():
    return spark.sql("SELECT count AS n FROM reader JOIN sound USING (id)")


@dp.table
def sound():
    return spark.readStream.format("delta").load(str(HERE / "sound_source"))


@dp.materialized_view
def sums():
    return spark.read.table("sound").selectExpr("sum(id) AS total")
"""
_CAUSES = {
    "no_sample": "CLOUD_FILES_SCHEMA_UNKNOWN",
    "footer": "CLOUD_FILES_SCHEMA_UNREADABLE",
    "charset": "CLOUD_FILES_ENCODING_UNKNOWN",
    "cased": "FLOW_SOURCE_UNREADABLE",
    "looped": "STORAGE_NOT_READABLE",
    "colon": "FLOW_SOURCE_UNREADABLE",
    "unmounted": "FLOW_SOURCE_UNREADABLE",
    "of_view": "CLOUD_FILES_SCHEMA_UNREADABLE",  # that of the view, which is a part of its query
    "gap": "FLOW_SOURCE_UNREADABLE",
}
_READERS = {"reader", "last"}
_SOUND = {"sound": FlowState.COMPLETED, "sums": FlowState.COMPLETED}
_IDLE = {"sound": FlowState.IDLE, "sums": FlowState.IDLE}


class Shore:
    """A pipeline with sound sources and others that can't be read, and its commands."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        for name in ("no_sample", "footer", "charset", "cased", "looped", "colon", "cut"):
            (folder / name).mkdir()
        (folder / "no_sample" / "a.json").write_text("this is no json\n", "utf-8")
        for name in ("a", "c"):
            self.spark.sql("SELECT 1 AS id").toPandas().to_parquet(folder / "footer" / f"{name}.parquet")
        (folder / "footer" / "b.parquet").write_bytes(b"PAR1 and no footer")
        (folder / "charset" / "a.csv").write_text("id\n1\n", "utf-8")
        (folder / "cased" / "a.json").write_text('{"id": 1, "ID": 2}\n', "utf-8")
        (folder / "looped" / "a.json").write_text('{"id": 1}\n', "utf-8")
        (folder / "looped" / "again").symlink_to(folder / "looped")
        (folder / "colon" / "a:b.json").write_text('{"id": 1}\n', "utf-8")
        (folder / "cut" / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n' * 1000)[:40])
        for number in (1, 2, 3):
            self.feed("gap_source", number)
        self.feed("sound_source", 1)
        self.write(_MODULE.format(here=folder))
        spec: dict[str, Any] = {
            "name": "shore",
            "storage": str(folder / "storage"),
            "libraries": [{"file": {"path": "module.py"}}],
        }
        spec["configuration"] = {"pipelines.trigger.interval": "200 milliseconds"}
        (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")

    def write(self, module: str) -> None:
        """Replace the module."""
        (self.folder / "module.py").write_text(module, "utf-8")

    def feed(self, source: str, number: int) -> None:
        """Append a row to a Delta source."""
        append_rows(self.spark, str(self.folder / source), [(number,)], "id BIGINT")

    def pipeline(self) -> Pipeline:
        """The pipeline, as a new process opens it."""
        forget_tables()
        return Pipeline.from_spec(self.folder / "pipeline.yml", spark=self.spark)

    def sluice(self, *arguments: str) -> Result:
        """Run a command."""
        around = Surroundings(open_pipeline=lambda *_, **__: self.pipeline())
        spec = ("--spec", str(self.folder / "pipeline.yml"))
        at = 2 if arguments[0] == "checkpoints" else 1
        return CliRunner().invoke(cli, [*arguments[:at], *spec, *arguments[at:]], obj=around, prog_name="sluice")

    def break_gap(self) -> Callable[[], Path]:
        """Remove a commit from the middle of a log; return what puts it back."""
        commit = self.folder / "gap_source" / "_delta_log" / f"{1:020}.json"
        kept = commit.rename(self.folder / "kept.json")
        return lambda: kept.rename(commit)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table."""
        folder = self.folder / "storage" / "tables" / "main" / "default" / table
        return sorted(map(tuple, table_rows(self.spark, str(folder), without="__sluice")))


@pytest.fixture
def shore(spark: SparkSession, tmp_path: Path) -> Shore:
    """Provide the pipeline."""
    return Shore(spark, tmp_path)


def test_a_source_that_can_not_be_read_fails_its_dataset_alone(shore: Shore) -> None:
    """Nine unreadable sources fail nine datasets, with each cause; two readers are skipped; the rest is right."""
    put_back = shore.break_gap()
    result = shore.pipeline().run()
    failed = {flow.flow.table: flow.error.condition for flow in result.flows if flow.error is not None}
    assert failed == _CAUSES
    (footer,) = (str(flow.error) for flow in result.flows if flow.flow.table == "footer")
    assert "3 parquet files" in footer
    assert "b.parquet)" in footer
    assert states(result) == {
        **dict.fromkeys(_CAUSES, FlowState.FAILED), **dict.fromkeys(_READERS, FlowState.SKIPPED), **_SOUND
    }  # fmt: skip
    reasons = {flow.flow.table: flow.reason for flow in result.flows}
    assert reasons["reader"] == reasons["last"] == "waits for gap, whose columns are unknown"
    assert shore.rows("sums") == [(1,)]
    recorded = read_events(shore.pipeline().storage, type="flow_progress", level="ERROR")
    assert {str(event.origin.dataset_name).rpartition(".")[2] for event in recorded} == {*_CAUSES}

    put_back()
    repaired = states(shore.pipeline().run())
    assert {name: repaired[name] for name in ("gap", "reader", "last", *_IDLE)} == {
        "gap": FlowState.COMPLETED, "reader": FlowState.COMPLETED, "last": FlowState.COMPLETED, **_IDLE
    }  # fmt: skip
    assert (shore.rows("gap"), shore.rows("last")) == ([(1,), (2,), (3,)], [(1,)])
    # Known tables keep their rows and checkpoints, and go on where they were.
    put_back = shore.break_gap()
    shore.feed("sound_source", 2)
    again = states(shore.pipeline().run())
    assert {name: again[name] for name in ("gap", "reader", "last", *_SOUND)} == {
        "gap": FlowState.FAILED, "reader": FlowState.SKIPPED, "last": FlowState.SKIPPED, **_SOUND
    }  # fmt: skip
    assert (shore.rows("gap"), shore.rows("last"), shore.rows("sums")) == ([(1,), (2,), (3,)], [(1,)], [(3,)])
    put_back()
    shore.feed("gap_source", 4)
    shore.pipeline().run()
    assert (shore.rows("gap"), shore.rows("last")) == ([(1,), (2,), (3,), (4,)], [(1,), (1,)])


def test_each_command_works_beside_a_source_that_can_not_be_read(shore: Shore) -> None:
    """`validate`, `plan` and `run` list all faults and end with 1; `sql`, `show`, `doctor` work; nothing is pruned."""
    shore.pipeline().run()
    shore.write(_MODULE.format(here=shore.folder).replace("def sums(", "def totals("))
    shore.break_gap()
    validated, planned, ran = (shore.sluice(name) for name in ("validate", "plan", "run"))
    for done in (validated, planned, ran):
        assert done.exit_code == 1, done.output
        assert [cause for cause in _CAUSES.values() if f"[{cause}]" not in done.output] == [], done.output
    assert "10 datasets can't be resolved now" in validated.output  # the view, too
    assert "refuse" in planned.output
    assert "its flows have an error, FLOW_SOURCE_UNREADABLE" in planned.output
    assert "gap did not complete" in ran.output
    names = {
        each["flow"].rpartition(".")[2] for each in json.loads(shore.sluice("doctor", "-o", "json").stdout)["findings"]
    }
    assert names == {*_CAUSES}
    assert shore.rows("totals") == [(1,)]
    kept = json.loads(shore.sluice("sql", "SELECT id FROM gap ORDER BY id", "-o", "json").stdout)
    assert kept == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert json.loads(shore.sluice("show", "sound", "-o", "json").stdout) == [{"id": 1}]
    # Which folders the unresolved queries read is unknown, so nothing is dropped.
    pruned = shore.sluice("prune", "--yes")
    assert (pruned.exit_code, "[PRUNE_SOURCES_UNREAD]" in pruned.output) == (1, True), pruned.output
    assert shore.rows("sums") == [(1,)]


def test_stored_tables_are_read_whatever_the_code_says(shore: Shore) -> None:
    """A module that can't be imported refuses an update with 2; what looks at the storage works."""
    shore.pipeline().run()
    shore.write("import no_such_module_anywhere\n")
    before = json.loads(shore.sluice("events", "-o", "json").stdout)
    refused = {name: shore.sluice(name).exit_code for name in ("validate", "plan", "run")}
    assert refused == {"validate": 2, "plan": 2, "run": 2}
    assert json.loads(shore.sluice("events", "-o", "json").stdout) == before
    assert json.loads(shore.sluice("sql", "SELECT sum(id) AS n FROM sound", "-o", "json").stdout) == [{"n": 1}]
    assert json.loads(shore.sluice("sql", "SELECT count(*) > 0 AS any FROM event_log", "-o", "json").stdout) == [
        {"any": True}
    ]
    assert json.loads(shore.sluice("show", "sums", "-o", "json").stdout) == [{"total": 1}]
    assert json.loads(shore.sluice("checkpoints", "list", "-o", "json").stdout)
    doctor = shore.sluice("doctor")
    assert (doctor.exit_code, "[MODULE_FAILED]" in doctor.output) == (1, True), doctor.output
    unknown = shore.sluice("sql", "SELECT * FROM no_table")
    assert (unknown.exit_code, "[MODULE_FAILED]" in unknown.output) == (2, True), unknown.output


def test_faults_of_the_code_refuse_all_and_are_reported_with_those_of_sources(shore: Shore) -> None:
    """A wrong name next to unreadable sources: nothing is written, exit code 2, and each fault is told."""
    shore.break_gap()
    shore.write(
        _MODULE.format(here=shore.folder) + "\n\n@dp.table\ndef wrong():\n    return spark.readStream.table('nobody')\n"
    )
    refused = shore.sluice("run")
    assert (refused.exit_code, (shore.folder / "storage").exists()) == (2, False)
    for condition in ("TABLE_OR_VIEW_NOT_FOUND", *_CAUSES.values()):
        assert f"[{condition}]" in refused.output


def test_a_continuous_update_takes_a_dataset_up_when_its_source_can_be_read(shore: Shore) -> None:
    """Meanwhile it is degraded and the others run; afterwards it runs, and its readers, of which none had a table."""
    put_back = shore.break_gap()
    head, _, rest = _MODULE.format(here=shore.folder).partition("@dp.table\ndef no_sample")
    shore.write(head + "@dp.table\ndef gap" + rest.partition("@dp.table\ndef gap")[2])
    pipeline = shore.pipeline()
    running = pipeline.start()
    try:
        until(lambda: _rows(shore, "sums") == [(1,)], running)
        shown = {flow.flow.table: (flow.health, flow.reason) for flow in running.flows}
        assert shown["gap"][0] is FlowHealth.DEGRADED
        assert "DELTA_VERSIONS_NOT_CONTIGUOUS" in shown["gap"][1]
        assert set(shown) == {"gap", "sound", "sums"}
        put_back()
        until(lambda: (_rows(shore, "gap"), _rows(shore, "last")) == ([(1,), (2,), (3,)], [(1,)]), running)
        shore.feed("gap_source", 2)
        until(lambda: _rows(shore, "gap") == [(1,), (2,), (2,), (3,)], running)
        assert {flow.flow.table for flow in running.flows} == {"gap", "sound", "sums", "reader", "last"}
    finally:
        running.stop()
    result = running.wait()
    assert result is not None
    assert [flow.flow.table for flow in result.flows if flow.error is not None] == []
    assert len(result.flows) == len({flow.flow for flow in result.flows}) == 5


def _rows(shore: Shore, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table; none before its first commit."""
    log = shore.folder / "storage" / "tables" / "main" / "default" / table / "_delta_log"
    return shore.rows(table) if list(log.glob("*.json")) else []
