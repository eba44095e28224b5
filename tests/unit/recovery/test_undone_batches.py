"""What the doctor says of a table that someone has restored, from its log alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framework.declare.specs import DatasetSpec
from tests.support.fake_pipeline import name
from tests.support.hand_written_world import TABLE, HandWrittenWorld, added

REWIND = json.dumps({"sluice": {"rewind": "r", "flows": []}})


def restore(version: int | None, files: int = 0, metadata: str | None = None) -> dict[str, Any]:
    """The information of a restore, to a version or to the time of one with some files."""
    metrics = {"numOfFilesAfterRestore": str(files), "tableSizeAfterRestore": str(files * 10)}
    parameters = {"version": version, "timestamp": "2026-04-09" if version is None else None}
    info = {"operation": "RESTORE", "operationParameters": parameters, "operationMetrics": metrics}
    return {"commitInfo": info if metadata is None else {**info, "userMetadata": metadata}}


UNDONE = "Version 3 of t is a RESTORE to version 1: the rows of 1 batch of the flow (1) are not in the table any more."


@pytest.mark.parametrize(
    ("commits", "cause"),
    [
        ([restore(1)], UNDONE),
        ([restore(1), {"append": 2}], UNDONE),
        ([restore(None, files=1)], UNDONE),
        ([restore(0)], "Version 3 of t is a RESTORE to version 0: the rows of 2 batches of the flow (0, 1) are not"),
        ([restore(1), restore(2)], ""),
        ([restore(1), {"append": 2}, restore(4)], UNDONE),
        ([restore(2)], ""),
        ([restore(None, files=7)], ""),
        ([restore(1, metadata=REWIND)], ""),
        ([{"append": 2}], ""),
    ],
    ids=[
        "to a version", "before another batch", "to a time", "to no rows", "and back", "and to after that",
        "of no batch", "to an unknown version", "by a rewind", "no restore",
    ],
)  # fmt: skip
def test_batches_that_a_restore_undid_are_found(tmp_path: Path, commits: list[dict[str, Any]], cause: str) -> None:
    """The flow goes on after them, and no update fails; the first way out has the version that it went back to."""
    world = HandWrittenWorld(tmp_path, ("t",))
    for number in (1, 2):
        for folder in ("offsets", "commits"):
            text = (world.path("t") / folder / "0").read_text("utf-8")
            world.storage.write_text(str(world.path("t") / folder / str(number)), text)
    log = f"{world.store.path(DatasetSpec(name=name('t'), kind=TABLE))}/_delta_log"
    for version, commit in enumerate([{"append": 0}, {"append": 1}, *commits], 1):
        actions = [commit]
        if "append" in commit:
            actions = [{"txn": {"appId": "q", "version": commit["append"]}}, added(str(version), 1)]
            counts = {"numFiles": version, "tableSizeBytes": version * 10}
            world.storage.write_text(f"{log}/{version:020d}.crc", json.dumps(counts))
        text = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
        world.storage.write_text(f"{log}/{version:020d}.json", text)
    found = [each for each in world.examine().findings if each.diagnosis.name == "TABLE_RESTORED"]
    assert [each.cause[: len(cause)] for each in found] == [cause] * bool(cause)
    assert ["sluice rewind --to '" in each.ways[0].text for each in found] == [True] * bool(cause)
