"""The first read of a Delta table begins at version 0 only if the commits from there on hold the table's files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.files.storage import LocalStorage
from framework.sources.delta.first_read import FirstRead

Action = dict[str, Any]
CREATED: list[Action] = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"id": "t"}}, {"commitInfo": {}}]


def added(**more: object) -> Action:
    """A file of new rows; `commit` names it if it has no name."""
    return {"add": {"dataChange": True, **more}}


BATCH: list[Action] = [{"commitInfo": {}}, {"txn": {"appId": "a"}}, {"domainMetadata": {"domain": "d"}}, added()]
GROWN = [[*CREATED, added()], BATCH, [{"commitInfo": {}}]]
YES = {"startingVersion": "0"}
TABLES: dict[str, tuple[Sequence[Sequence[Action]], bool]] = {
    "rows in the first commit": ([[*CREATED, added()]], True),
    "rows in later commits": ([CREATED, BATCH, BATCH], True),
    "20 commits": ([CREATED, *[BATCH] * 19], True),
    "1,000 files": ([CREATED, [added()] * 1_000], True),
    "no rows": ([CREATED, [{"commitInfo": {}}]], False),
    "21 commits": ([CREATED, *[BATCH] * 20], False),
    "1,001 files, more than a micro-batch has": ([CREATED, [added()] * 1_001], False),
    "large commits": ([CREATED, [added(stats="x" * (1 << 20))]], False),
    "a file that is added again": ([CREATED, [added(path="f")], [added(path="f")]], False),
    "rows removed": ([*GROWN, [{"remove": {"path": "f", "dataChange": True}}]], False),
    "files compacted": ([*GROWN, [{"remove": {"path": "f", "dataChange": False}}, added(dataChange=False)]], False),
    "a deletion vector": ([CREATED, [added(deletionVector={"cardinality": 1})]], False),
    "other columns": ([*GROWN, [{"metaData": {"id": "t"}}]], False),
    "another protocol": ([*GROWN, [{"protocol": {"minReaderVersion": 3}}]], False),
    "a change feed": ([*GROWN, [added(), {"cdc": {"path": "c"}}]], False),
    "an unknown action": ([*GROWN, [{"addCDCFile": {}}]], False),
    "a commit that can't be read": ([*GROWN, []], False),
}


def commit(folder: Path, commits: Sequence[Sequence[Action]], first: int = 0) -> str:
    """Write a log; return the table's path."""
    log = folder / "table" / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True, exist_ok=True)  # Delta makes the folder with each new table
    for version, actions in enumerate(commits, first):
        named = [
            {"add": {"path": f"{version}-{number}", **each["add"]}} if each.keys() == {"add"} else each
            for number, each in enumerate(actions)
        ]
        (log / f"{version:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in named), "utf-8")
        (log / f"{version:020d}.crc").write_text("{}", "utf-8")
    return str(folder / "table")


def begins(folder: Path, path: str, given: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The options of the first read of a new checkpoint."""
    return FirstRead(storage=LocalStorage(str(folder)), checkpoint=str(folder / "checkpoint")).options(
        path, given or {}
    )


@pytest.mark.parametrize("case", TABLES)
def test_the_first_read_is_from_the_log_only_if_all_of_it_adds_rows(case: str, tmp_path: Path) -> None:
    """Of a table whose files are not those of all its commits, or are many, Delta itself finds them."""
    commits, expected = TABLES[case]
    assert (YES if expected else {}) == begins(tmp_path, commit(tmp_path, commits))


def test_a_log_without_its_beginning_or_of_a_catalog_is_left_to_delta(tmp_path: Path) -> None:
    """Commits that were cleaned up, a gap, commits that a catalog has staged, no table, and a relative path."""
    path = commit(tmp_path, GROWN)
    log = Path(path, "_delta_log")
    assert (begins(tmp_path, path), begins(tmp_path, "table"), begins(tmp_path, f"{path}s")) == (YES, {}, {})
    staged = log / "_staged_commits" / f"{3:020d}.7b3c.json"
    staged.touch()
    assert begins(tmp_path, path) == {}
    staged.unlink()
    for lost in (1, 0):
        (log / f"{lost:020d}.json").rename(log / "kept")
        assert begins(tmp_path, path) == {}
        (log / "kept").rename(log / f"{lost:020d}.json")
    assert begins(tmp_path, path) == YES


def test_a_read_that_says_how_it_begins_stays_as_it_is(tmp_path: Path) -> None:
    """Any option may choose rows, their order or the batches."""
    path = commit(tmp_path, GROWN)
    for option in ("startingVersion", "startingTimestamp", "readChangeFeed", "withEventTimeOrder", "maxFilesPerTrigger",
                   "schemaTrackingLocation", "ignoreChanges", "excludeRegex", "unknown"):  # fmt: skip
        assert begins(tmp_path, path, {"path": path, option: "1"}) == {}, option
    assert begins(tmp_path, path, {"Path": path}) == YES


def test_a_stream_that_has_had_one_batch_only_begins_in_the_same_way(tmp_path: Path) -> None:
    """Spark asks for that batch again. A planned batch, a second one, and one of other files are left to Delta."""
    path = commit(tmp_path, GROWN)
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "commits").mkdir()
    assert begins(tmp_path, path) == YES

    def read(batch: int, **offset: object) -> None:
        of_table = {"reservoirId": "t", "reservoirVersion": 3, "index": -1, "isStartingVersion": False, **offset}
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n-\n{json.dumps(of_table)}", "utf-8")

    read(0)
    assert begins(tmp_path, path) == {}
    (checkpoint / "commits" / "0").touch()
    assert begins(tmp_path, path) == YES
    for other in ({"isStartingVersion": True}, {"index": 0}, {"reservoirVersion": 4}, {"reservoirId": "other"}):
        read(0, **other)
        assert begins(tmp_path, path) == {}, other
    read(0)
    read(1)
    assert begins(tmp_path, path) == {}
    (checkpoint / "commits" / "1").touch()
    assert begins(tmp_path, path) == {}
