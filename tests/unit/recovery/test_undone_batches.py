"""What the doctor says of a table that someone has restored, from its log alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from framework.declare.specs import DatasetSpec
from framework.testing.manual_clock import START
from tests.support.fake_pipeline import name
from tests.support.hand_written_world import TABLE, HandWrittenWorld, added

REWIND = json.dumps({"sluice": {"rewind": "r", "flows": []}})


def restore(version: int | None, files: int = 0, metadata: str | None = None, seconds: int = 60) -> dict[str, Any]:
    """The information of a restore, to a version or the time of one with some files, so long after the flow began."""
    metrics = {"numOfFilesAfterRestore": str(files), "tableSizeAfterRestore": str(files * 10)}
    parameters = {"version": version, "timestamp": "2026-04-09" if version is None else None}
    time_ms = int(START.timestamp() + seconds) * 1000
    info = {
        "operation": "RESTORE", "operationParameters": parameters, "operationMetrics": metrics,
        "inCommitTimestamp": time_ms,
    }  # fmt: skip
    return {"commitInfo": info if metadata is None else {**info, "userMetadata": metadata}}


REFRESH = {"txn": {"appId": f"sluice:shop:rebuild:{name('t')}:id", "version": 7}}
REPLAY = {"txn": {"appId": "sluice:former:replay:id", "version": 0}}
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
        ([REFRESH, restore(2)], "Version 4 of t is a RESTORE to version 2: the rows of the last full refresh are"),
        ([REPLAY, restore(2)], "Version 4 of t is a RESTORE to version 2: the rows of 1 replay of quarantined rows"),
        ([REPLAY, restore(2, seconds=-1)], ""),
        (
            [REFRESH, {"append": 2}, REPLAY, restore(1)],
            "Version 6 of t is a RESTORE to version 1: the rows of the last full refresh and 2 batches of the flow (1,",
        ),
    ],
    ids=[
        "to a version", "before another batch", "to a time", "to no rows", "and back", "and to after that",
        "of no batch", "to an unknown version", "by a rewind", "no restore", "of a full refresh", "of a replay",
        "of a replay before a reset", "of all of these",
    ],
)  # fmt: skip
def test_rows_that_a_restore_undid_are_found(tmp_path: Path, commits: list[dict[str, Any]], cause: str) -> None:
    """The flow goes on after them, and no update fails; the first way out has the version that it went back to."""
    world = HandWrittenWorld(tmp_path, ("t",))
    manifest = world.path("t").parent / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"fingerprint": ""', '"fingerprint": "rebuild 7"'), "utf-8")
    for number in (1, 2):
        for folder in ("offsets", "commits"):
            text = (world.path("t") / folder / "0").read_text("utf-8")
            world.storage.write_text(str(world.path("t") / folder / str(number)), text)
    log = f"{world.store.path(DatasetSpec(name=name('t'), kind=TABLE))}/_delta_log"
    os.utime(f"{log}/{0:020d}.json", (START.timestamp(),) * 2)
    for version, commit in enumerate([{"append": 0}, {"append": 1}, *commits], 1):
        actions = [commit]
        if "append" in commit:
            begun = {"commitInfo": {"timestamp": int(START.timestamp() + 10 * version) * 1000 - 2}}
            actions = [begun, {"txn": {"appId": "q", "version": commit["append"]}}, added(str(version), 1)]
            counts = {"numFiles": version, "tableSizeBytes": version * 10}
            world.storage.write_text(f"{log}/{version:020d}.crc", json.dumps(counts))
        text = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
        world.storage.write_text(f"{log}/{version:020d}.json", text)
        os.utime(f"{log}/{version:020d}.json", (START.timestamp() + 10 * version,) * 2)
    found = [each for each in world.examine().findings if each.diagnosis.name == "TABLE_RESTORED"]
    assert [each.cause[: len(cause)] for each in found] == [cause] * bool(cause)
    # The end of the time in which the version was the newest one: readers of the table had read it by then. The writer
    # of the next one had not begun.
    for each in found:
        restored = int(each.cause.partition("to version ")[2].partition(":")[0])
        second = f"{10 * restored + 9:02d}.{997 if restored < 2 else 999}"
        assert f"sluice rewind --to '2026-01-01 00:00:{second}Z' t" in each.ways[0].text
