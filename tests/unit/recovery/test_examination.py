"""The examination of a pipeline that no Spark ever ran: its checkpoints, Delta logs and events are written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.foundation.errors import UserError
from framework.recovery.doctor.finding import Examination, Position
from framework.run.update.control.lock_holder import LOCK_FILE, LockHolder, holder_text
from framework.views.doctor import cost_text
from tests.support.fake_pipeline import name
from tests.support.hand_written_world import DELETE, HandWrittenWorld, added

HOLDER = LockHolder(host="h", pid=1, update_id="u-1", since="2026-01-01T00:00:00Z")
FLOWS = ("sound", "removed", "added", "damaged", "cut", "changed", "denied")
DELETED = "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Flow main.shop.changed cannot continue: Rows were deleted.\n  -> Ways."
DENIED = "[DATABASE_PERMISSION] The role r may not read t.\n  at shop.py:4\n  -> Run as its owner: `GRANT SELECT`."


@pytest.fixture
def world(tmp_path: Path) -> HandWrittenWorld:
    """All flows broken but the sound one."""
    world = HandWrittenWorld(tmp_path, FLOWS)
    (world.path("damaged") / "metadata").unlink()
    (world.path("cut") / "offsets/0").write_text("v1\n", "utf-8")
    world.commit("changed", 2, DELETE, {"remove": {"path": "a", "dataChange": True}}, added("c", 2))
    world.fail("changed", DELETED)
    world.fail("denied", DENIED)
    return world


def test_each_fault_has_its_diagnosis_and_its_costs(world: HandWrittenWorld) -> None:
    """Breaks are foretold, damage is found, failures are read from the log; costs are those of the Delta logs."""
    here = "lost: none; repeated: none; read again: none"
    again = "lost: none; repeated: 3 rows; read again: 5 rows"
    rebuilt = "lost: none; repeated: none; read again: 5 rows"
    ways = {
        finding.flow.table: (finding.diagnosis.name, [(way.way.name, cost_text(way.cost)) for way in finding.ways])
        for finding in world.examine().findings
        if finding.flow is not None
    }
    keys = "lost: none; repeated: unknown: later duplicates of rows that were read before; read again: none"
    gone = f"unknown: rows that were deleted from {world.folder}/sources/changed"
    deleted = f"lost: {gone}; repeated: none; read again: 4 rows"
    bounded = "lost: none; repeated: at most 5 rows; read again: 5 rows"
    assert ways == {
        "removed": ("STATEFUL_OPERATORS_CHANGED", [
            ("RESTORE", here), ("RESET_HERE", here), ("FULL_REFRESH", rebuilt), ("RESET_START", again),
        ]),
        "added": ("STATEFUL_OPERATORS_CHANGED", [
            ("RESTORE", here), ("FULL_REFRESH", rebuilt), ("RESET_START", again), ("RESET_HERE", keys),
        ]),
        "damaged": ("CHECKPOINT_DAMAGED", [
            ("RESET_HERE", here), ("FULL_REFRESH", rebuilt), ("RESET_START", again),
        ]),
        "cut": ("CHECKPOINT_DAMAGED", [("FULL_REFRESH", rebuilt), ("RESET_START", bounded)]),
        "changed": ("DELTA_SOURCE_CHANGED", [
            ("RESTORE", here),
            ("RESET_START", "lost: none; repeated: at most 4 rows; read again: 4 rows"),
            ("RESET_AFTER_CHANGE",
             "lost: 2 rows: the change of version 2 is not applied; repeated: none; read again: none"),
            ("FULL_REFRESH", deleted),
        ]),
        "denied": ("PERMISSION_MISSING", [("FOLLOW", here), ("RUN_AGAIN", here)]),
    }  # fmt: skip


def test_a_finding_has_the_command_and_the_evidence(world: HandWrittenWorld) -> None:
    """The command is complete, and the evidence has paths and positions."""
    (finding,) = world.examine("changed").findings
    assert (finding.condition, finding.sqlstate, finding.updates) == ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "0A000", 1)
    assert finding.position == Position(generation=1, starts=("startingVersion=1",))
    assert [way.command for way in finding.ways] == [
        None,
        "sluice run --reset-checkpoint main.shop.changed",
        "sluice run --reset-checkpoint main.shop.changed --from startingVersion=3",
        "sluice run --full-refresh main.shop.changed",
    ]
    assert finding.evidence == (
        f"checkpoint: generation 1, batch 0 committed, {world.path('changed')}",
        "position: startingVersion=1",
        f"event log: {world.storage.path('events', 'changed.jsonl')}",
        "unread: 4 rows, 20 bytes",
    )
    (denied,) = world.examine("shop.denied").findings
    assert (denied.location, denied.ways[0].text) == ("shop.py:4", "Run as its owner: `GRANT SELECT`.")


def test_a_lock_of_another_release_is_a_finding_of_the_pipeline(world: HandWrittenWorld) -> None:
    """No update of this release can take it: the file is named, and no flow."""
    world.storage.write_text(world.storage.path(LOCK_FILE), holder_text(HOLDER).replace('"format": 1', '"format": 9'))
    path = world.storage.path(LOCK_FILE)
    (found,) = (each for each in world.examine().findings if each.flow is None)
    assert (found.condition, found.diagnosis.name) == ("STORED_FORMAT_UNKNOWN", "STORED_FILE_DAMAGED")
    assert found.cause == f"{path}, an internal file of Sluice, has the format version 9. This release reads version 1."
    world.storage.write_text(path, holder_text(HOLDER))
    assert [each for each in world.examine().findings if each.flow is None] == []


def test_each_file_that_keeps_updates_from_beginning_is_a_finding(world: HandWrittenWorld) -> None:
    """Each has its path: the identity of the storage, a reset, a backup and a prune; none hides a broken flow."""
    broken = world.examine().findings
    files = ("storage.json", "resets/a~a.json", "backups/a/1/backup.json", "prunes/main.shop.old.json")
    paths = [world.storage.path(*file.split("/")) for file in files]
    for path in paths:
        world.storage.write_text(path, '{"format": 9}')
    findings = world.examine().findings
    assert [each for each in findings if each.flow is not None] == list(broken)
    found = [each for each in findings if each.flow is None]
    assert {each.condition for each in found} == {"STORED_FORMAT_UNKNOWN"}
    assert [each.cause.partition(",")[0] for each in found] == paths


def test_a_failure_of_an_earlier_checkpoint_is_over(world: HandWrittenWorld) -> None:
    """After a reset, the next update decides whether the flow still fails."""
    world.clock.sleep(10)
    GenerationStore(world.storage, world.clock).begin(name("changed"), name("changed"), reason="reset")
    assert world.examine("changed").findings == ()


def test_a_sound_flow_has_no_finding_and_an_unknown_one_is_refused(world: HandWrittenWorld) -> None:
    """Unread data alone is no finding, and a wrong name is an error with the nearest one."""
    assert world.examine("sound") == Examination(flows=1, findings=())
    with pytest.raises(UserError, match="FLOW_NOT_FOUND"):
        world.examine("chnged")
