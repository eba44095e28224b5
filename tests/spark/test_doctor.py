"""Flows that are broken for real, explained and repaired: one pipeline with a flow for each way to break."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.foundation.errors import UserError
from framework.plan import planner
from framework.recovery.doctor.diagnoses import every_diagnosis
from framework.recovery.doctor.finding import Finding, Repair
from framework.recovery.doctor.way_out import WayOut
from framework.run.update.results import UpdateResult, UpdateState
from framework.views.doctor import cost_text
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework import Pipeline

Rows = list[tuple[Any, ...]]
OLD: Rows = [(1, "k1"), (2, "k0"), (3, "k1")]
NEW: Rows = [(4, "k0"), (5, "k1")]
RESET = "lost: none; repeated: none; read again: none"


@dataclass(frozen=True, kw_only=True)
class Break:
    """A way to break a flow, and the promise of the way out that repairs it.

    Args:
        diagnosis: the name of the diagnosis.
        condition: the condition of the finding.
        way: the name of the way out that the test applies.
        cost: its cost, as `sluice doctor` prints it; the number of rows that the test counts is the same.
        rows: the rows of the table afterwards.
        harm: what happens to the files of source and checkpoint.
        ways: the names of all ways out, best first.
        is_foretold: whether the finding is there before an update has failed.
    """

    diagnosis: str
    condition: str
    way: str
    cost: str = RESET
    rows: tuple[tuple[Any, ...], ...] = (*OLD, *NEW)
    harm: Callable[[Harm], None] = lambda _: None
    ways: tuple[str, ...] = ()
    is_foretold: bool = True


class Harm:
    """What a test does to one flow: its checkpoint, and the table that it reads."""

    def __init__(self, world: EngineWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.source = world.source(name)

    @property
    def checkpoint(self) -> Path:
        """The folder of the current checkpoint."""
        return self.world.root / "storage/checkpoints" / f"main.s.{self.name}" / f"main.s.{self.name}" / "1"

    def cut(self, file: str, lines: int = 1) -> None:
        """Cut a file of the checkpoint off after some lines, as a full disk leaves it."""
        path = self.checkpoint / file
        path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:lines]), "utf-8")
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    def remove(self, file: str) -> None:
        """Remove a file or folder of the checkpoint."""
        path = self.checkpoint / file
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    def sql(self, text: str) -> None:
        """Run a statement on the source, as `{source}`."""
        self.world.spark.sql(text.format(source=f"delta.`{self.source}`"))

    def replace(self) -> None:
        """Drop the source, and create it again with the new rows."""
        shutil.rmtree(self.source)
        feed(self.world, self.name, NEW)

    def lose_history(self) -> None:
        """Append a third commit, and remove the first unread one from the log, behind a checkpoint of the log."""
        feed(self.world, self.name, [(6, "k0")])
        self.sql("ALTER TABLE {source} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
        feed(self.world, self.name, [(7, "k1")])
        for version in range(2):
            Path(self.source, "_delta_log", f"{version:020d}.json").unlink()


BREAKS = {
    "operator_removed": Break(
        diagnosis="STATEFUL_OPERATORS_CHANGED",
        condition="STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        way="RESET_HERE",
        cost="lost: none; repeated: none; read again: none",
        ways=("RESTORE", "RESET_HERE", "FULL_REFRESH", "RESET_START"),
    ),
    "operator_added": Break(
        diagnosis="STATEFUL_OPERATORS_CHANGED",
        condition="STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        way="RESET_START",
        cost="lost: none; repeated: 3 rows; read again: 5 rows",
        rows=(*OLD, *OLD, *NEW),
    ),
    "state_changed": Break(
        diagnosis="STATE_CHANGED",
        condition="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        way="FULL_REFRESH",
        cost="lost: none; repeated: none; read again: 5 rows",
    ),
    "source_added": Break(
        diagnosis="SOURCES_CHANGED",
        condition="STREAMING_SOURCES_CHANGED",
        way="RESET_START",
        cost="lost: none; repeated: at most 6 rows; read again: 10 rows",
        rows=(*OLD, *OLD, *NEW),
    ),
    "metadata_missing": Break(
        diagnosis="CHECKPOINT_DAMAGED",
        condition="STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        way="RESET_HERE",
        harm=lambda harm: harm.remove("metadata"),
        ways=("RESET_HERE", "FULL_REFRESH", "RESET_START"),
    ),
    "offsets_cut": Break(
        diagnosis="CHECKPOINT_DAMAGED",
        condition="CHECKPOINT_FILE_DAMAGED",
        way="FULL_REFRESH",
        cost="lost: none; repeated: none; read again: 5 rows",
        harm=lambda harm: harm.cut("offsets/0"),
        ways=("RESET_HERE", "FULL_REFRESH", "RESET_START"),
    ),
    "commit_cut": Break(
        diagnosis="CHECKPOINT_DAMAGED",
        condition="CHECKPOINT_FILE_DAMAGED",
        way="RESET_HERE",
        harm=lambda harm: harm.cut("commits/0", lines=0),
    ),
    "state_missing": Break(
        diagnosis="CHECKPOINT_DAMAGED",
        condition="STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        way="RESET_HERE",
        cost="lost: none; repeated: unknown: later duplicates of rows that were read before; read again: none",
        harm=lambda harm: harm.remove("state"),
    ),
    "replaced": Break(
        diagnosis="DELTA_SOURCE_REPLACED",
        condition="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        way="RESET_START",
        cost="lost: unknown: rows of the table that {source} has replaced; "
        "repeated: at most 2 rows; read again: 2 rows",
        harm=Harm.replace,
    ),
    "deleted_from": Break(
        diagnosis="DELTA_SOURCE_CHANGED",
        condition="DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        way="RESET_AFTER_CHANGE",
        cost="lost: 2 rows: the change of version 2 is not applied; repeated: none; read again: none",
        rows=tuple(OLD),
        harm=lambda harm: harm.sql("DELETE FROM {source} WHERE id = 1"),
        ways=("RESTORE", "RESET_START", "RESET_AFTER_CHANGE", "FULL_REFRESH"),
        is_foretold=False,
    ),
    "deleted_files": Break(
        diagnosis="DELTA_SOURCE_CHANGED",
        condition="DELTA_SOURCE_IGNORE_DELETE",
        way="RESET_AFTER_CHANGE",
        cost="lost: 2 rows: the change of version 2 is not applied; repeated: none; read again: none",
        rows=tuple(OLD),
        harm=lambda harm: harm.sql("DELETE FROM {source} WHERE id < 4"),
        is_foretold=False,
    ),
    "merged_into": Break(
        diagnosis="DELTA_SOURCE_CHANGED",
        condition="DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        way="RESET_AFTER_CHANGE",
        cost="lost: 4 rows: the change of version 2 is not applied; repeated: none; read again: none",
        rows=tuple(OLD),
        harm=lambda harm: harm.sql(
            "MERGE INTO {source} s USING (SELECT * FROM VALUES (1L, 'new'), (9L, 'new') AS v(id, kind)) n "
            "ON s.id = n.id WHEN MATCHED THEN UPDATE SET kind = n.kind WHEN NOT MATCHED THEN INSERT *"
        ),
        is_foretold=False,
    ),
    "deleted_from_cdc": Break(
        diagnosis="DELTA_SOURCE_CHANGED",
        condition="DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        way="RESET_START",
        cost="lost: none; repeated: none: AUTO CDC: events that are read again change nothing; read again: 4 rows",
        harm=lambda harm: harm.sql("DELETE FROM {source} WHERE id = 1"),
        is_foretold=False,
    ),
    "history_gone": Break(
        diagnosis="DELTA_HISTORY_GONE",
        condition="DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        way="RESET_FIRST_KEPT",
        cost="lost: unknown: the rows of version 1 of {source}, which its log lost; repeated: none; read again: none",
        rows=(*OLD, (6, "k0"), (7, "k1")),
        harm=Harm.lose_history,
        ways=("RESET_START", "RESET_FIRST_KEPT", "FULL_REFRESH"),
        is_foretold=False,  # the options of a read by path are unknown, and one of them allows it
    ),
    "column_renamed": Break(
        diagnosis="DELTA_SOURCE_COLUMNS_REPLACED",
        condition="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        way="RESET_AFTER_CHANGE",
        cost="lost: 2 rows; repeated: none; read again: none",
        rows=tuple(OLD),
        harm=lambda harm: harm.sql("ALTER TABLE {source} RENAME COLUMN kind TO sort"),
        ways=("TRACK_SCHEMA", "FULL_REFRESH", "RESET_START", "RESET_AFTER_CHANGE"),
        is_foretold=False,
    ),
}
HEALTHY = "healthy"


def feed(world: EngineWorld, name: str, rows: Rows) -> None:
    """Append rows to the source of a flow in one commit."""
    if name != "column_renamed":
        world.feed(rows, "id LONG, kind STRING", name)
        return
    frame = world.spark.createDataFrame(rows, "id LONG, kind STRING").coalesce(1)
    writer = frame.write.format("delta").option("delta.columnMapping.mode", "name").mode("append")
    writer.save(world.source(name))


def feed_all(world: EngineWorld, names: Sequence[str], rows: Rows) -> None:
    """Append rows to the sources of some flows. A copy of files costs less than a write of Spark."""
    feed(world, "template", rows)
    for name in names:
        if name == "column_renamed":  # the only one with column mapping
            feed(world, name, rows)
        else:
            shutil.copytree(world.source("template"), world.source(name), dirs_exist_ok=True)


def query(rows: DataFrame, name: str, *, changed: bool) -> DataFrame:
    """The query of a flow before and after the code changed."""
    if name == "operator_removed":
        return rows if changed else rows.dropDuplicates(["id"])
    if name == "operator_added":
        return rows.dropDuplicates(["id"]) if changed else rows
    if name == "state_changed":
        return rows.dropDuplicates(["id", "kind"] if changed else ["id"])
    if name == "column_renamed":
        return rows.selectExpr("id", "concat('k', id % 2) AS kind")
    if name == "state_missing":
        return rows.dropDuplicates(["id"])
    return rows.union(rows.where("id < 0")) if name == "source_added" and changed else rows


def declare(world: EngineWorld, *, changed: bool, names: Sequence[str] = (*BREAKS, HEALTHY)) -> None:
    """One flow for each break, and a sound one."""
    for name in names:

        def read(name: str = name) -> DataFrame:
            rows = world.spark.readStream.format("delta").load(world.source(name))
            return query(rows, name, changed=changed)

        if name.endswith("_cdc"):
            dp.create_streaming_table(name)
            dp.temporary_view(name=f"{name}_events")(read)
            dp.create_auto_cdc_flow(
                target=name, source=f"{name}_events", keys=["id"], sequence_by=F.col("id"), stored_as_scd_type=1
            )
        else:
            dp.table(name=name)(read)


def world_of(spark: SparkSession, root: Path, *names: str) -> EngineWorld:
    """One source for each flow, with the old rows."""
    world = EngineWorld(spark, root)
    feed_all(world, names, OLD)
    return world


def found_by(pipeline: Pipeline) -> dict[str, Finding]:
    """The findings by the short name of their table."""
    return {finding.dataset.table: finding for finding in pipeline.doctor.examine().findings if finding.dataset}


def number_of(finding: Finding, way: str) -> int:
    """The number of a way out, from 1."""
    return [each.way.name for each in finding.ways].index(way) + 1


def chosen(finding: Finding, case: Break) -> WayOut:
    """The way out of the table."""
    return finding.ways[number_of(finding, case.way) - 1]


def test_each_broken_flow_is_explained_and_repaired(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """Each finding has condition, diagnosis and cost of the table; its way out leaves exactly the announced rows."""
    world = world_of(interpreting, tmp_path, *BREAKS, HEALTHY)
    before = world.pipeline(lambda: declare(world, changed=False))
    assert before.run().state is UpdateState.COMPLETED
    assert before.doctor.examine().findings == ()
    feed_all(world, [name for name in (*BREAKS, HEALTHY) if name != "replaced"], NEW)
    for name, case in BREAKS.items():
        case.harm(Harm(world, name))
    pipeline = world.pipeline(lambda: declare(world, changed=True))
    foretold = found_by(pipeline)
    assert {name: finding.condition for name, finding in foretold.items()} == {
        name: case.condition for name, case in BREAKS.items() if case.is_foretold
    }
    assert {finding.updates for finding in foretold.values()} == {0}
    with swap.context() as patch:  # Spark says how each of them ends
        patch.setattr(planner, "foretell", lambda *_: None)
        result = pipeline.run()
    assert {flow.flow.table for flow in result.flows if flow.error is None} <= {HEALTHY}
    findings = found_by(pipeline)
    assert {name: each.diagnosis.name for name, each in findings.items()} == {
        name: case.diagnosis for name, case in BREAKS.items()
    }
    assert {finding.updates for finding in findings.values()} == {1}
    ways = {name: tuple(way.way.name for way in finding.ways) for name, finding in findings.items()}
    assert {name: ways[name] for name, case in BREAKS.items() if case.ways} == {
        name: case.ways for name, case in BREAKS.items() if case.ways
    }
    assert {name: cost_text(chosen(findings[name], case).cost) for name, case in BREAKS.items()} == {
        name: case.cost.format(source=world.source(name)) for name, case in BREAKS.items()
    }
    ended = {}
    for name, case in BREAKS.items():
        number = number_of(findings[name], case.way)
        alone = world.pipeline(lambda name=name: declare(world, changed=True, names=(name,)))  # type: ignore[misc]
        treatment = alone.doctor.treat(findings[name], number, reason="the test broke it")
        assert treatment.result is not None
        ended[name] = treatment.result.state
    assert set(ended.values()) == {UpdateState.COMPLETED}, ended
    assert {name: world.rows(name) for name in BREAKS} == {
        name: sorted(case.rows, key=repr) for name, case in BREAKS.items()
    }
    assert pipeline.doctor.examine().findings == ()
    recorded(world)


def recorded(world: EngineWorld) -> None:
    """Each treatment has two events: who, why, and where the flow was and is."""
    actions = [event.details["user_action"] for event in world.events(type="user_action")]
    doctor = [each for each in actions if each["action"] == "DOCTOR"]
    assert [each["status"] for each in doctor] == ["BEGUN", "COMPLETED"] * len(BREAKS)
    assert {each["reason"] for each in doctor} == {"the test broke it"}
    last = next(each for each in reversed(doctor) if each["flow"] == "main.s.operator_removed")
    assert last["user_name"]
    assert last["before"] == {"generation": 1, "starts": ["startingVersion=1"]}
    assert last["after"] == {"generation": 2, "starts": ["startingVersion=2"]}
    assert last["command"] == "sluice run --reset-checkpoint main.s.operator_removed --from startingVersion=1"


def test_the_states_of_the_table_are_those_of_spark(interpreting: SparkSession) -> None:
    """Each condition of Spark and of Delta in the table of diagnoses has the SQLSTATE that Spark and Delta give it."""
    jvm: Any = interpreting._jvm
    spark, delta = jvm.org.apache.spark.SparkThrowableHelper, jvm.org.apache.spark.sql.delta.DeltaThrowableHelper
    faults = [fault for each in every_diagnosis() for fault in each.faults if fault.sqlstate]
    states = {}
    for fault in faults:
        if fault.condition in (
            "KAFKA_DATA_LOSS",
            "DELTA_CONCURRENT",
            "DELTA_METADATA_CHANGED",
            "DELTA_PROTOCOL_CHANGED",
        ):
            continue  # the connector is not on this class path; the beginning of several names
        owner = delta if "DELTA" in fault.condition else spark
        states[fault.condition] = str(owner.getSqlState(fault.condition))
    assert states == {fault.condition: fault.sqlstate for fault in faults if fault.condition in states}
    assert len(states) > 30


class RolledBack(NamedTuple):
    """Two flows whose second checkpoint is damaged: one of AUTO CDC, and an append.

    Args:
        world: has them.
        pipeline: declares them.
        findings: of the doctor, by flow.
    """

    world: EngineWorld
    pipeline: Pipeline
    findings: dict[str, Finding]


@pytest.fixture(scope="module")
def rolled_back(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RolledBack:
    """A reset has read the new rows with a new checkpoint, which then lost a file."""
    names = ("deleted_from_cdc", "metadata_missing")
    world = world_of(spark.newSession(), tmp_path_factory.mktemp("rolled_back"), *names)
    pipeline = world.pipeline(lambda: declare(world, changed=False, names=names))
    pipeline.run()
    feed_all(world, names, NEW)
    pipeline.run(reset_checkpoints={f"main.s.{name}": "startingVersion=1" for name in names})
    assert world.rows("metadata_missing") == [*OLD, *NEW]
    for name in names:
        second = world.root / "storage/checkpoints" / f"main.s.{name}" / f"main.s.{name}" / "2"
        (second / "metadata").unlink()
        (second / ".metadata.crc").unlink(missing_ok=True)
    return RolledBack(world=world, pipeline=pipeline, findings=found_by(pipeline))


def test_a_roll_back_is_offered_only_to_a_sound_generation(rolled_back: RolledBack) -> None:
    """A damaged checkpoint rolls back to the kept one, the cost counts what is read again, and AUTO CDC takes it."""
    world, pipeline, name = rolled_back.world, rolled_back.pipeline, "deleted_from_cdc"
    finding, flow = rolled_back.findings[name], f"main.s.{name}"
    first = finding.ways[0]
    assert (first.way.name, first.command) == (
        "ROLL_BACK", f"sluice checkpoints rollback {flow} --target {flow} --to 1 && sluice run --refresh {flow}"
    )  # fmt: skip
    assert cost_text(first.cost) == (
        "lost: none; repeated: none: AUTO CDC: events that are read again change nothing; read again: at most 2 rows"
    )
    treatment = pipeline.doctor.treat(finding, 1)
    assert (treatment.before.generation, treatment.after.generation) == (2, 1)
    assert (world.rows(name), pipeline.doctor.examine([name]).findings) == ([*OLD, *NEW], ())


def test_a_roll_back_of_an_append_announces_the_rows_that_repeat(rolled_back: RolledBack) -> None:
    """The command has the permission to repeat rows, the cost is their number, and exactly these are there twice."""
    name = "metadata_missing"
    finding, flow = rolled_back.findings[name], f"main.s.{name}"
    (number,) = (number for number, way in enumerate(finding.ways, 1) if way.way.name == "ROLL_BACK")
    way = finding.ways[number - 1]
    assert (
        way.command
        == f"sluice checkpoints rollback {flow} --target {flow} --to 1 --allow-repeats && sluice run --refresh {flow}"
    )
    assert cost_text(way.cost) == "lost: none; repeated: at most 2 rows; read again: at most 2 rows"
    rolled_back.pipeline.doctor.treat(finding, number)
    assert rolled_back.world.rows(name) == sorted([*OLD, *NEW, *NEW])


def test_files_continue_after_the_newest_one_that_was_read(interpreting: SparkSession, tmp_path: Path) -> None:
    """A `cloudFiles` flow whose `dropDuplicates` is removed goes on with the file after its newest one, once.

    A second doctor that has examined the flow before, and gets the lock after it, does not do the same way again.
    """
    world, folder = EngineWorld(interpreting, tmp_path), tmp_path / "landing"
    folder.mkdir()

    def drop(name: str, ids: list[int]) -> None:
        (folder / name).write_text("".join(f"{json.dumps({'id': number})}\n" for number in ids), "utf-8")

    def declare_files(*, changed: bool) -> None:
        @dp.table
        def customers() -> DataFrame:
            reader = world.spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
            rows = reader.schema("id LONG").load(str(folder))
            return rows if changed else rows.dropDuplicates(["id"])

    drop("a.json", [1, 2, 2])
    assert world.run(lambda: declare_files(changed=False)).state is UpdateState.COMPLETED
    drop("b.json", [3, 3])
    pipeline = world.pipeline(lambda: declare_files(changed=True))
    (finding,) = pipeline.doctor.examine().findings
    way = finding.ways[1]
    assert way.command is not None
    assert way.command.startswith("sluice run --reset-checkpoint main.s.customers --from modifiedAfter=20")
    treated: list[Repair] = []

    def run_second(check: Callable[[], None] | None, **request: Any) -> UpdateResult:
        treated.append(pipeline.doctor.treat(finding, 2))
        return pipeline.doctor.run(check, **request)

    with pytest.raises(UserError, match="DOCTOR_FINDING_CHANGED"):
        replace(pipeline.doctor, run=run_second).treat(finding, 2)
    assert [each.result.state for each in treated if each.result is not None] == [UpdateState.COMPLETED]
    assert [row[0] for row in world.rows("customers")] == [1, 2, 3, 3]
