"""Each file of a checkpoint, damaged: `plan`, `sluice doctor` and the update agree, and no row is repeated or lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.plan import planner
from framework.plan.steps import RunFlow
from framework.recovery.doctor.finding import Finding
from framework.run.update.results import FlowState, UpdateState
from framework.views.doctor import cost_text
from tests.support.engine_world import EngineWorld, forget_tables, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework import Pipeline

FLOWS = ("append", "keyed", "files", "listed", "stateful")
METADATA = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
FILE = "CHECKPOINT_FILE_DAMAGED"
LIST = "CLOUD_FILES_POSITION_LOST"
STATE = "CANNOT_LOAD_STATE_STORE"
SEGMENT = "cloud_files/0/files/000000000002-000000000002"


def remove(path: Path) -> None:
    """Delete a file or a folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace_by_folder(path: Path) -> None:
    """Put a folder in the place of a file."""
    path.unlink()
    path.mkdir()


DAMAGES: Mapping[str, Callable[[Path], object]] = {
    "missing": remove,
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(b"\x00\x9fgarb{age"),
    "version": lambda path: path.write_bytes(b"v9" + path.read_bytes()[2:]),
    "folder": replace_by_folder,
}
ALL = frozenset(DAMAGES)
FORETOLD: Mapping[str, tuple[str, frozenset[str]]] = {
    "metadata": (METADATA, ALL),
    "offsets/1": (FILE, ALL - {"missing"}),
    "offsets/0": (FILE, ALL),
    "commits/1": (FILE, ALL - {"missing"}),
    "sources/0/1": (FILE, ALL),
    "sources/0/0": (FILE, ALL),
    SEGMENT: (LIST, ALL),
    "cloud_files/0/files/start": (LIST, ALL),
    "state/0/0/2.delta": (STATE, ALL),
    "state/0/0/_metadata/schema": (FILE, ALL - {"missing"}),
}
"""The files of a checkpoint: the condition of their damage, and the kinds of damage with which Spark always fails."""

NEEDLESS = ("commits/0", "state/0/_metadata/metadata", "cloud_files/0/batches/none/_spark_metadata/0", "../table.json")
"""Files that Spark or Sluice writes again, or does not read."""


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A flow of each kind, which has committed two batches of a row each, and the storage as it was then.

    Args:
        world: the pipeline.
        base: a copy of its folder.
    """

    world: EngineWorld
    base: Path

    def declare(self) -> None:
        """A flow of each kind."""
        spark, landing = self.world.spark, str(self.world.root / "landing")

        def rows() -> DataFrame:
            return spark.readStream.format("delta").load(self.world.source())

        dp.table(name="append")(rows)
        dp.table(name="stateful")(lambda: rows().dropDuplicates(["id"]))
        dp.create_streaming_table("keyed")
        dp.auto_cdc_flow(target="keyed", name="keyed", keys=["id"], sequence_by="id")(rows)

        @dp.table
        def files() -> DataFrame:
            reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
            return reader.schema("id LONG").load(landing)

        dp.table(name="listed")(lambda: spark.readStream.format("json").schema("id LONG").load(landing))

    def feed(self, number: int) -> None:
        """One more row in each source."""
        self.world.feed([(number,)], "id LONG")
        (self.world.root / "landing").mkdir(exist_ok=True)
        (self.world.root / "landing" / f"{number}.json").write_text(json.dumps({"id": number}), "utf-8")

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline, as in a new process."""
        return self.world.pipeline(self.declare)

    def restored(self) -> Shop:
        """The shop as it was after two batches, with a third row in each source."""
        shutil.rmtree(self.world.root)
        shutil.copytree(self.base, self.world.root)
        forget_tables()
        self.feed(3)
        return self

    def damage(self, file: str, damage: str) -> set[str]:
        """Damage a file in the checkpoint of each flow that has it; return these flows."""
        damaged = set()
        for flow in FLOWS:
            path = self.world.root / "storage/checkpoints" / f"main.s.{flow}" / f"main.s.{flow}" / "1" / file
            if path.exists():
                DAMAGES[damage](path)
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
                damaged.add(flow)
        return damaged

    def findings(self) -> dict[str, Finding]:
        """The findings by flow."""
        return {each.flow.table: each for each in self.pipeline.doctor.examine().findings if each.flow is not None}


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A flow of each kind after two batches."""
    folder = tmp_path_factory.mktemp("damaged")
    found = Shop(world=EngineWorld(spark.newSession(), folder / "world"), base=folder / "base")
    found.world.root.mkdir()
    for number in (1, 2):
        found.feed(number)
        assert found.pipeline.run().state is UpdateState.COMPLETED
    shutil.copytree(found.world.root, found.base)
    return found


@pytest.mark.parametrize("file", FORETOLD)
def test_damage_is_foretold_by_the_plan_and_found_by_the_doctor(shop: Shop, file: str) -> None:
    """Both name the same flows with the same condition, each has a way out with a command, and no other is broken."""
    condition, damages = FORETOLD[file]
    flows: set[str] = set()
    for damage in sorted(damages):
        flows = shop.restored().damage(file, damage)
        steps = [step for step in shop.pipeline.plan().steps if isinstance(step, RunFlow)]
        assert {step.flow.table: step.broken.condition for step in steps if step.broken is not None} == dict.fromkeys(
            flows, condition
        ), damage
    found = shop.findings()
    assert {flow: each.condition for flow, each in found.items()} == dict.fromkeys(flows, condition)
    assert {each.diagnosis.name for each in found.values()} == {"CHECKPOINT_DAMAGED"}
    assert all(any(way.command for way in each.ways) for each in found.values())


def test_an_update_names_what_was_foretold_and_spark_fails_with_it(shop: Shop, swap: pytest.MonkeyPatch) -> None:
    """A flow is not started; where damage has come since the plan, it fails with the same condition and ways."""
    flows = shop.restored().damage("offsets/1", "empty")
    with swap.context() as patch:
        patch.setattr(planner, "foretell", lambda *_: None)
        started = shop.pipeline.run()
    foretold = shop.pipeline.run()
    for result in (started, foretold):
        errors = {flow.flow.table: flow.error for flow in result.flows if flow.error is not None}
        assert {flow: error.condition for flow, error in errors.items()} == dict.fromkeys(flows, FILE)
        assert all("offsets/1" in error.what and "sluice run" in error.remedy for error in errors.values())


def test_garbage_in_a_state_that_only_spark_finds_has_ways_out_afterwards(shop: Shop) -> None:
    """A plan reads the ends of such a file only, so the update fails with the ways; then the doctor has them, too."""
    shop.restored()
    changes = shop.world.root / "storage/checkpoints/main.s.stateful/main.s.stateful/1/state/0/0/2.delta"
    content = changes.read_bytes()
    changes.write_bytes(content[:24] + b"garbage" + content[31:])
    changes.with_name(".2.delta.crc").unlink()
    assert shop.findings() == {}
    failed = {flow.flow.table: flow.error for flow in shop.pipeline.run().flows if flow.error is not None}
    assert {flow: error.condition for flow, error in failed.items()} == {"stateful": STATE}
    for way in ("sluice run --reset-checkpoint main.s.stateful", "sluice run --full-refresh main.s.stateful"):
        assert way in failed["stateful"].remedy
    found = shop.findings()
    assert {flow: (each.condition, each.diagnosis.name) for flow, each in found.items()} == {
        "stateful": (STATE, "CHECKPOINT_DAMAGED")
    }
    shop.pipeline.doctor.treat(found["stateful"], 1)
    assert shop.world.rows("stateful") == [(1,), (2,), (3,)]


def test_what_is_not_needed_is_not_foretold_and_does_no_harm(shop: Shop) -> None:
    """Old commits, metadata that Spark writes again, and marks: the flows run, and have each row once."""
    shop.restored()
    for file, damage in zip(NEEDLESS, ("garbage", "missing", "empty", "garbage"), strict=True):
        assert shop.damage(file, damage), file
    assert shop.findings() == {}
    assert set(states(shop.pipeline.run()).values()) == {FlowState.COMPLETED}
    assert {flow: shop.world.rows(flow) for flow in FLOWS} == {flow: [(1,), (2,), (3,)] for flow in FLOWS}


def test_the_first_way_out_of_damaged_offsets_is_exact(shop: Shop) -> None:
    """The batch is committed, and the event log has where it ended: each row is there once."""
    shop.restored().damage("offsets/1", "cut off")
    found = shop.findings()["append"]
    assert (found.ways[0].way.name, cost_text(found.ways[0].cost)) == (
        "RESET_HERE", "lost: none; repeated: none; read again: none"
    )  # fmt: skip
    shop.pipeline.doctor.treat(found, 1)
    assert shop.world.rows("append") == [(1,), (2,), (3,)]


def test_a_way_that_repeats_rows_comes_after_one_that_does_not(shop: Shop) -> None:
    """Without the event log, the table's commits say how many rows a restart repeats, and exactly these repeat."""
    shop.restored().damage("offsets/1", "cut off")
    shutil.rmtree(shop.world.root / "storage/events")
    found = shop.findings()["append"]
    repeats = "1 row: including those of the batch that was written and not committed"
    assert [(way.way.name, cost_text(way.cost)) for way in found.ways] == [
        ("FULL_REFRESH", "lost: none; repeated: none; read again: 3 rows"),
        ("RESET_HERE", f"lost: none; repeated: {repeats}; read again: none"),
        ("RESET_START", f"lost: none; repeated: 2{repeats[1:].replace('row', 'rows', 1)}; read again: 3 rows"),
    ]
    shop.pipeline.doctor.treat(found, 2)
    assert shop.world.rows("append") == [(1,), (2,), (2,), (3,)]
