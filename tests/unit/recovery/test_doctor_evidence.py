"""What doctor reads without Spark: failures of the event log, damaged checkpoint files, and the pace of a flow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.checkpoints.damage import inspect_checkpoint
from framework.checkpoints.offsets import CheckpointProgress, read_progress
from framework.foundation.files.local_storage import LocalStorage
from framework.record import drafts
from framework.record.events import Event, EventDraft, EventError, ExceptionSummary, Origin
from framework.record.log import EventLog
from framework.record.progress import stream_details
from framework.record.reader import read_events
from framework.recovery.doctor.diagnoses import FALLING_BEHIND, POSITION_STILL
from framework.recovery.doctor.diagnosis import Diagnosis
from framework.recovery.doctor.evidence.failures import Failure, read_failures, read_update_failure
from framework.recovery.doctor.evidence.pace import pace_of
from framework.run.flows.state.trusted_positions import trusted_progress
from framework.testing.manual_clock import ManualClock
from tests.support.hand_written_world import EMPTY_STATE

FLOW = "main.shop.load"
LOST = EventError(
    fatal=True,
    exceptions=(ExceptionSummary(class_name="OperationError", message="[SPARK_LOST] It ended.\n  -> Again."),),
)


class World:
    """A storage whose events and checkpoint a test writes."""

    def __init__(self, folder: Path) -> None:
        self.storage = LocalStorage(str(folder))
        self.checkpoint = folder / "checkpoint"
        self.clock = ManualClock()

    def record(self, update: str, *events: EventDraft) -> None:
        """Record events of an update, ten seconds apart."""
        origin = Origin(pipeline_id="shop", pipeline_name="shop", update_id=update)
        with EventLog(self.storage, origin, self.clock) as log:
            for event in events:
                self.clock.sleep(10)
                log.record(event)

    def failures(self) -> dict[str, Failure]:
        """The failures of the log."""
        return read_failures(self.storage)

    def write(self, file: str, text: str) -> None:
        """Write a file of the checkpoint."""
        path = self.checkpoint / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def damages(self) -> list[tuple[str, str]]:
        """Condition and file of each damage."""
        found = inspect_checkpoint(self.storage, str(self.checkpoint))
        return [(each.condition, each.path.removeprefix(f"{self.checkpoint}/")) for each in found]

    def trusted(self) -> CheckpointProgress | None:
        """The position that can be trusted."""
        path = str(self.checkpoint)
        return trusted_progress(self.storage, path, inspect_checkpoint(self.storage, path))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A checkpoint of two committed batches and an operator with two partitions."""
    world = World(tmp_path)
    world.write("metadata", '{"id":"q"}')
    for batch in (0, 1):
        world.write(f"offsets/{batch}", f'v1\n{{"conf":{{}}}}\n{{"reservoirVersion":{batch}}}')
        world.write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
    store = json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [{"numPartitions": 2}]})
    world.write("state/0/_metadata/metadata", f"v1\n{store}")
    for partition in (0, 1):
        for version in (1, 2):
            world.write(f"state/0/{partition}/{version}.delta", EMPTY_STATE)
    return world


def progress(status: str, error: EventError | None = None, **metrics: int) -> EventDraft:
    """An event of the flow."""
    return drafts.flow_progress(flow=FLOW, dataset="main.shop.orders", status=status, error=error, metrics=metrics)


def test_failures_are_counted_in_updates_since_the_last_success(world: World) -> None:
    """Attempts of one update count once, a commit ends the count, and a skipped run changes nothing."""
    world.record("u1", progress("FAILED", LOST), progress("RUNNING", num_output_rows=1), progress("QUEUED", LOST))
    world.record("u2", progress("RUNNING"), progress("QUEUED", LOST), progress("FAILED", LOST), progress("SKIPPED"))
    (found,) = world.failures().values()
    assert (found.condition, found.cause, found.remedy) == ("SPARK_LOST", "It ended.", "Again.")
    assert (found.updates, found.update_id) == (2, "u2")
    assert found.since < found.last
    world.record("u3", progress("COMPLETED"))
    assert world.failures() == {}


def test_a_failure_of_the_update_itself_is_found(world: World) -> None:
    """The last update counts, with its own error."""
    world.record("u1", drafts.update_progress(state="FAILED", error=LOST))
    found = read_update_failure(world.storage)
    assert found is not None
    assert found.condition == "SPARK_LOST"
    world.record("u2", drafts.update_progress(state="COMPLETED"))
    assert read_update_failure(world.storage) is None


def test_a_sound_checkpoint_has_no_damage(world: World, tmp_path: Path) -> None:
    """Neither has one without a batch, nor with a batch that is not committed, nor a commit without metadata."""
    assert world.damages() == []
    assert inspect_checkpoint(world.storage, str(tmp_path / "none")) == ()
    world.write("offsets/2", 'v1\n{}\n{"reservoirVersion":2}')
    world.write("commits/1", "v1\n")
    assert world.damages() == []
    world.write("offsets/2", 'v2\n{}\n0:{"reservoirVersion":2}\n1:-')
    world.write("commits/1", "v3\n{}")
    assert world.damages() == []


@pytest.mark.parametrize(
    ("file", "text", "condition"),
    [
        ("metadata", None, "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"),
        ("metadata", '{"id', "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"),
        ("offsets/1", None, "CHECKPOINT_FILE_DAMAGED"),
        ("offsets/1", "", "CHECKPOINT_FILE_DAMAGED"),
        ("offsets/1", "v1\n{}", "CHECKPOINT_FILE_DAMAGED"),
        ("offsets/1", 'v1\n{"conf":\n-', "CHECKPOINT_FILE_DAMAGED"),
        ("offsets/1", 'v2\n{}\n0:{"res', "CHECKPOINT_FILE_DAMAGED"),
        ("commits/1", "", "CHECKPOINT_FILE_DAMAGED"),
        ("commits/1", 'v1\n{"next', "CHECKPOINT_FILE_DAMAGED"),
        ("commits/1", "x1\n{}", "CHECKPOINT_FILE_DAMAGED"),
        ("commits/1", "v9\n{}", "CHECKPOINT_FILE_DAMAGED"),
        ("offsets/0", None, "CHECKPOINT_FILE_DAMAGED"),
        ("offsets/0", "", "CHECKPOINT_FILE_DAMAGED"),
        ("offsets/0", "v9\n{}\n{}", "CHECKPOINT_FILE_DAMAGED"),
        ("state/0/1", None, "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"),
        ("state/0/0/_metadata/schema", "", "CHECKPOINT_FILE_DAMAGED"),
        ("state/0/0/_metadata/schema", '\0\x02v2\0{"type":"struct","fields":[]}', "CHECKPOINT_FILE_DAMAGED"),
    ],
)
def test_a_damaged_file_is_named(world: World, file: str, text: str | None, condition: str) -> None:
    """A file that is missing (None) or cut off is named with its path."""
    world.storage.delete_tree(str(world.checkpoint / file))
    if text is not None:
        world.write(file, text)
    assert world.damages() == [(condition, file)]


@pytest.mark.parametrize("file", ["metadata", "offsets/0", "offsets/1", "commits/1"])
def test_a_folder_in_place_of_a_file_is_a_missing_file(world: World, file: str) -> None:
    """No reader of a checkpoint fails with it, and it is named."""
    (world.checkpoint / file).unlink()
    (world.checkpoint / file).mkdir()
    assert [path for _, path in world.damages()] == [file]


@pytest.mark.parametrize(
    "file", ["commits/0", "state/0/_metadata/metadata", "state/0/0/_metadata/schema", "state/0/0/1.snapshot"]
)
def test_what_spark_does_not_need_is_no_damage(world: World, file: str) -> None:
    """An older commit, and what Spark writes again."""
    world.write(file, "")
    world.storage.delete_tree(str(world.checkpoint / file))
    assert world.damages() == []


@pytest.mark.parametrize(("file", "text"), [("1.delta", None), ("2.delta", None), ("2.delta", ""), ("1.delta", "")])
def test_a_state_without_a_version_is_named(world: World, file: str, text: str | None) -> None:
    """Spark needs each change since a snapshot, or since the start."""
    (world.checkpoint / "state/0/1" / file).unlink()
    if text is not None:
        world.write(f"state/0/1/{file}", text)
    assert world.damages() == [("CANNOT_LOAD_STATE_STORE", "state/0/1")]
    world.write("state/0/1/2.snapshot", EMPTY_STATE)
    assert world.damages() == []


@pytest.mark.parametrize(("name", "text"), [("0", None), ("1", ""), ("1", "v9\n{}"), ("1", 'v1\n{"pa'), ("2", None)])
def test_a_damaged_list_of_files_is_named(world: World, name: str, text: str | None) -> None:
    """Spark's file source reads each list since the last merged one, up to its offset."""
    for number in range(3):
        world.write(f"sources/0/{number}", f'v1\n{{"path":"file:///a","timestamp":1,"batchId":{number}}}')
    for batch in (0, 1):
        world.write(f"offsets/{batch}", f'v1\n{{}}\n{{"logOffset":{batch + 1}}}')
    assert world.damages() == []
    (world.checkpoint / f"sources/0/{name}").unlink()
    if text is not None:
        world.write(f"sources/0/{name}", text)
    assert world.damages() == [("CHECKPOINT_FILE_DAMAGED", f"sources/0/{name}")]
    world.write("sources/0/2.compact", "v1")
    assert world.damages() == []


def test_metadata_that_is_cut_off_is_damage_before_the_first_batch(world: World) -> None:
    """Spark reads it when the stream starts; without one, it begins."""
    for folder in ("offsets", "commits", "state"):
        world.storage.delete_tree(str(world.checkpoint / folder))
    assert world.damages() == []
    world.write("metadata", "")
    assert world.damages() == [("STREAMING_CHECKPOINT_MISSING_METADATA_FILE", "metadata")]


def test_the_position_is_that_of_the_last_batch_whose_end_is_known(world: World) -> None:
    """A commit that is cut off was written after its batch; where the batch ended is also in the event log."""
    world.write("commits/1", "")
    found = world.trusted()
    assert found is not None
    assert (found.last_commit_batch, found.sources) == (1, ('{"reservoirVersion":1}',))
    world.write("offsets/1", "v1")
    assert read_progress(world.storage, str(world.checkpoint)).sources == ()
    found = world.trusted()
    assert found is not None
    assert (found.last_commit_batch, found.sources) == (0, ('{"reservoirVersion":0}',))
    for query, batch, end in (("q", 0, '{"a":1}'), ("q", 1, '{"reservoirVersion":7}'), ("other", 1, '{"b":1}')):
        spark = {"id": query, "batchId": batch, "sources": [{"endOffset": end}]}
        event = drafts.stream_progress(flow=FLOW, dataset="main.shop.orders", progress=stream_details(spark))
        world.record(f"{query}-{batch}", event)
    found = world.trusted()
    assert found is not None
    assert (found.last_commit_batch, found.sources) == (1, ('{"reservoirVersion":7}',))


@pytest.mark.parametrize(
    ("backlogs", "rows", "expected"),
    [
        ((9, 9, 9, 9), 0, POSITION_STILL),
        ((9, 9, 9), 0, None),
        ((9, 9, 9, 9), 1, None),
        ((0, 0, 0, 0), 0, None),
        (range(10, 20), 1, FALLING_BEHIND),
        ((10, 20) * 5, 1, None),
        (range(20, 10, -1), 1, None),
    ],
)
def test_the_pace_tells_still_from_slow(
    world: World, backlogs: tuple[int, ...], rows: int, expected: Diagnosis | None
) -> None:
    """Unread rows without a commit are a still position; unread rows that only grow are a slow flow."""
    world.record("u1", *(progress("RUNNING", num_output_rows=rows, backlog_records=each) for each in backlogs))
    events: list[Event] = read_events(world.storage)
    assert pace_of(events) is expected
