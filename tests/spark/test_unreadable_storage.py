"""Tables and checkpoints that can't be read or written: each dataset fails alone, and the plan says so before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from framework import pipelines as dp
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.plan.steps import KeepStored
from framework.run.update.results import FlowState, UpdateResult
from tests.support.another_user import NEEDS_ROOT, acting_as_another_user, open_folder
from tests.support.engine_world import EngineWorld, forget_tables, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DONE, _FAILED, _SKIPPED = FlowState.COMPLETED, FlowState.FAILED, FlowState.SKIPPED
_CLOSED = "STORAGE_NOT_READABLE"


class Chain:
    """`raw` -> `keyed` by AUTO CDC -> `sums`, and `other`, which has a source of its own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.world = EngineWorld(spark, folder)
        self.fed: list[int] = []

    def declare(self) -> None:
        """The tables."""
        spark = self.world.spark

        def raw() -> DataFrame:
            return spark.readStream.format("delta").load(self.world.source())

        def other() -> DataFrame:
            return spark.readStream.format("delta").load(self.world.source("another"))

        dp.table(name="raw")(raw)
        dp.table(name="other")(other)

        dp.create_streaming_table("keyed")
        dp.auto_cdc_flow(target="keyed", name="keyed", keys=["id"], sequence_by="id")(
            lambda: spark.readStream.table("raw")
        )

        @dp.materialized_view
        def sums() -> DataFrame:
            return spark.sql("SELECT sum(id) AS total FROM keyed")

    def declare_fresh(self) -> None:
        """Another table in the place of all others."""
        dp.table(name="fresh")(lambda: self.world.spark.readStream.format("delta").load(self.world.source()))

    def feed(self) -> None:
        """One more row in both sources."""
        self.fed.append(len(self.fed) + 1)
        for source in ("source", "another"):
            self.world.feed([(self.fed[-1],)], "id LONG", source)

    def run(self) -> UpdateResult:
        """One update, as of a new process."""
        forget_tables()
        return self.world.run(self.declare)

    def sluice(self, *arguments: str) -> Result:
        """Run a command."""
        forget_tables()
        spec = self.world.root / "pipeline.yml"
        if not spec.exists():
            content = {"name": self.world.name, "storage": str(self.world.root / "storage"), "libraries": []}
            spec.write_text(json.dumps(content), "utf-8")
        around = Surroundings(open_pipeline=lambda *_, **__: self.world.pipeline(self.declare))
        return CliRunner().invoke(
            cli, [arguments[0], "--spec", str(spec), *arguments[1:]], obj=around, prog_name="sluice"
        )

    def check_no_update_begins(self) -> None:
        """Check that plan, run and doctor name each file of another release that updates begin with; none writes."""
        storage = self.world.root / "storage"
        for name in ("storage.json", "resets/main.s.raw~main.s.raw.json", "prunes/a.s.t.json", "update.lock"):
            path = storage / name
            text = path.read_text("utf-8") if path.exists() else None
            path.parent.mkdir(exist_ok=True)
            path.write_text('{"format": 999}', "utf-8")
            before = sorted(storage.rglob("*"))
            for command in ("plan", "run", "doctor"):
                done = self.sluice(command)
                assert (done.exit_code != 0, done.output.count(f"{path}, an internal")) == (True, 1), done.output
            assert sorted(storage.rglob("*")) == before
            path.unlink() if text is None else path.write_text(text, "utf-8")

    def rows(self) -> dict[str, list[tuple[int, ...]]]:
        """The rows of each table by Spark's own reader."""
        forget_tables()
        read = self.world.spark.read.format("delta")
        return {
            table: sorted(tuple(row)[:1] for row in read.load(self.world.path(table)).collect())
            for table in ("raw", "keyed", "other", "sums")
        }

    def expected(self) -> dict[str, list[tuple[int, ...]]]:
        """The rows that the sources have."""
        all_rows: list[tuple[int, ...]] = [(number,) for number in self.fed]
        return {**dict.fromkeys(("raw", "keyed", "other"), all_rows), "sums": [(sum(self.fed),)]}


@contextmanager
def _unreadable(folder: Path) -> Iterator[None]:
    """A link to itself in the place of a folder: nobody, root and Java included, can open it."""
    kept = folder.with_name(f"{folder.name}-kept")
    folder.rename(kept)
    folder.symlink_to(folder)
    try:
        yield
    finally:
        folder.unlink()
        kept.rename(folder)


def test_an_unreadable_table_or_checkpoint_fails_its_dataset_and_its_readers_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The others are updated; exit code 1, each fault once with its path; repaired, every row is there once."""
    chain = Chain(spark, tmp_path)
    chain.feed()
    assert set(states(chain.run()).values()) == {_DONE}
    storage = tmp_path / "storage"
    checkpoint = storage / "checkpoints" / "main.s.raw" / "main.s.raw"
    for folder in (Path(chain.world.path("raw")), checkpoint / "1" / "offsets"):
        chain.feed()
        with _unreadable(folder):
            result = chain.run()
            assert states(result) == {
                "raw": _FAILED, "keyed": _SKIPPED, "sums": _SKIPPED, "other": _DONE
            }, folder  # fmt: skip
            faults = [flow.error for flow in result.flows if flow.error is not None]
            assert [(fault.condition, str(folder) in fault.what) for fault in faults] == [
                ("STORAGE_NOT_READABLE", True)
            ]
            found = chain.world.pipeline(chain.declare).doctor.examine().findings
            assert [(each.flow and each.flow.table, each.condition) for each in found] == [
                ("raw", "STORAGE_NOT_READABLE")
            ]
            for command in ("validate", "plan", "lag"):
                done = chain.sluice(command)
                assert done.exit_code == (0 if command == "lag" else 1), done.output
                assert command == "lag" or done.output.count(f"[{_CLOSED}]") == 1, done.output
                assert str(folder) in done.output
        assert states(chain.run())["raw"] is _DONE
        assert chain.rows() == chain.expected()
    # A file of another release is a reason in `lag`, and a finding of the doctor, also if no flow has it.
    for path in (storage / "records" / "main.s.raw.json", storage / "update.lock"):
        text = path.read_text("utf-8")
        path.write_text(text.replace('"format": 1', '"format": 999') or '{"format": 999}', "utf-8")
        lag = {each["flow"]: each for each in json.loads(chain.sluice("lag", "-o", "json").stdout)}
        assert set(lag) == {"main.s.raw", "main.s.keyed", "main.s.other"}
        is_lock = path.name == "update.lock"
        assert (lag["main.s.raw"]["health"] == "unknown", str(path) in lag["main.s.raw"]["reason"]) == (
            not is_lock,
        ) * 2
        found = json.loads(chain.sluice("doctor", "-o", "json").stdout)["findings"]
        assert [(each["flow"], each["condition"], str(path) in each["cause"]) for each in found] == [
            (None if is_lock else "main.s.raw", "STORED_FORMAT_UNKNOWN", True)
        ]
        path.write_text(text, "utf-8")
    chain.check_no_update_begins()
    # A damaged file of one dataset's state, and a table that is no longer declared, concern no other dataset either.
    (checkpoint / "manifest.json").write_text("{", "utf-8")
    chain.feed()
    result = chain.run()
    assert (states(result)["raw"], states(result)["other"]) == (_FAILED, _DONE)
    assert {flow.error.condition for flow in result.flows if flow.error is not None} == {"CHECKPOINT_MANIFEST_DAMAGED"}
    with _unreadable(Path(chain.world.path("other"))):
        gone = chain.world.pipeline(chain.declare_fresh)
        kept = {step.dataset.table: step.reason for step in gone.plan().steps if isinstance(step, KeepStored)}
        assert kept["other"] == f"no longer declared, table kept; it can't be read, {_CLOSED}"
        assert states(gone.run()) == {"fresh": _DONE}


@NEEDS_ROOT
def test_a_plan_says_which_folder_its_user_can_not_write(spark: SparkSession) -> None:
    """Before anything is written: a table, a checkpoint, or all of the storage, with owner and rights."""
    with open_folder() as shared:
        chain = Chain(spark, shared)
        chain.feed()
        assert set(states(chain.run()).values()) == {_DONE}
        storage, log = shared / "storage", Path(chain.world.path("other"), "_delta_log")
        for folder in (storage, *storage.rglob("*")):
            folder.chmod(0o777 if folder.is_dir() else 0o666)
        with acting_as_another_user():
            assert (chain.sluice("plan").exit_code, chain.sluice("doctor").exit_code) == (0, 0)

        chain.feed()
        log.chmod(0o755)
        offsets = storage / "checkpoints" / "main.s.raw" / "main.s.raw" / "1" / "offsets"
        offsets.chmod(0o555)
        before = sorted(storage.rglob("*"))
        with acting_as_another_user():
            planned, doctor = chain.sluice("plan"), chain.sluice("doctor", "-o", "json")
        assert (planned.exit_code, planned.output.count("[DATASET_NOT_WRITABLE]")) == (1, 2), planned.output
        for folder, rights in ((log, "drwxr-xr-x"), (offsets, "dr-xr-xr-x")):
            problem = f"it belongs to root with the rights {rights}, and this process runs as nobody"
            assert f"{folder}, a folder of main.s." in planned.output
            assert problem in planned.output
        assert {each["flow"].rpartition(".")[2] for each in json.loads(doctor.stdout)["findings"]} == {"raw", "other"}
        assert sorted(storage.rglob("*")) == before
        offsets.chmod(0o000)
        with acting_as_another_user():
            closed = chain.sluice("plan")
        assert (closed.exit_code, closed.output.count("[STORAGE_NOT_READABLE]")) == (1, 1), closed.output
        offsets.chmod(0o777)
        log.chmod(0o777)

        storage.chmod(0o755)
        with acting_as_another_user():
            planned, doctor = chain.sluice("plan"), chain.sluice("doctor", "-o", "json")
        assert planned.exit_code == 1
        assert f"[STORAGE_NOT_WRITABLE] {storage} cannot be written: it belongs to root" in planned.output
        found = json.loads(doctor.stdout)["findings"]
        assert [(each["flow"], each["condition"]) for each in found] == [(None, "STORAGE_NOT_WRITABLE")]
        assert sorted(storage.rglob("*")) == before
        assert set(states(chain.run()).values()) == {_DONE}
        assert chain.rows() == chain.expected()
