"""The names and small files of a Delta log give its newest version, its table id and our mark."""

from __future__ import annotations

import json
import pathlib

import pytest

from framework.foundation.files.storage import LocalStorage
from framework.sources.delta.log import (
    CommitMark,
    LogTip,
    last_user_metadata,
    latest_version,
    read_tip,
)
from framework.sources.delta.source import offset_is_drained


class Log:
    """A Delta log made by hand."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.storage = LocalStorage(str(folder))
        self.table = str(folder / "table")

    def commit(self, version: int, *, metadata_id: str | None = None, user_metadata: str | None = None) -> None:
        """Write one commit, with a metadata action and user metadata where given."""
        information = {"operation": "WRITE"} | ({"userMetadata": user_metadata} if user_metadata is not None else {})
        actions: list[dict[str, object]] = [{"commitInfo": information}, {"add": {"path": "x", "dataChange": True}}]
        if metadata_id:
            actions.append({"metaData": {"id": metadata_id, "schemaString": "{}"}})
        self.file(f"{version:020d}.json", "".join(f"{json.dumps(a, separators=(',', ':'))}\n" for a in actions))

    def file(self, name: str, text: str = "") -> None:
        """Write any file of the log."""
        self.storage.write_text(f"{self.table}/_delta_log/{name}", text)


@pytest.fixture
def log(tmp_path: pathlib.Path) -> Log:
    """The log of a table that does not exist yet."""
    return Log(tmp_path)


def offset(*, version: int, table: str = "t-1", starting: bool = False) -> str:
    """A Delta source's offset as Spark writes it."""
    fields = {"sourceVersion": 1, "reservoirId": table, "reservoirVersion": version, "index": -1}
    return json.dumps(fields | {"isStartingVersion": starting})


def test_without_a_log_there_is_no_table(log: Log) -> None:
    """A path without a log has no version, no tip and no mark."""
    assert (latest_version(log.storage, log.table), read_tip(log.storage, log.table)) == (None, None)
    assert last_user_metadata(log.storage, log.table) is None


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (f"{7:020d}.json", 7),
        (f"{8:020d}.checkpoint.parquet", 8),
        (f"{9:020d}.checkpoint.{1:010d}.{2:010d}.parquet", 9),
        (f"{10:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", 10),
        (f"{5:020d}.{11:020d}.compacted.json", 11),
        (f"_staged_commits/{12:020d}.80a083e8-7026-4e79-81be-64bd76c43a11.json", 12),
        (f"{99:020d}.crc", 3),
        ("_last_checkpoint", 3),
        (f"{99:020d}.json.tmp", 3),
    ],
)
def test_the_newest_version_is_the_highest_that_any_file_names(log: Log, name: str, version: int) -> None:
    """Commits, checkpoints of all kinds, compacted logs and staged commits count; other files do not."""
    log.commit(3)
    log.file(name)
    assert latest_version(log.storage, log.table) == version


def test_the_table_id_comes_from_the_newest_checksum_file(log: Log) -> None:
    """A checksum file has the id, even if no commit within the limit has a metadata action."""
    log.commit(30)
    log.file(f"{30:020d}.crc", json.dumps({"metadata": {"id": "t-1", "schemaString": "{}"}}))
    tip = read_tip(log.storage, log.table)
    assert tip == LogTip(version=30, table_id="t-1")
    assert tip.schema == "{}"


def test_without_a_checksum_file_the_newest_metadata_action_tells_the_id(log: Log) -> None:
    """A table that was replaced in place has the id of its last metadata action."""
    log.commit(0, metadata_id="t-1")
    log.commit(1, metadata_id="t-2")
    log.commit(2)
    log.file(f"{2:020d}.crc", "torn {")
    assert read_tip(log.storage, log.table) == LogTip(version=2, table_id="t-2")


def test_an_id_out_of_cheap_reach_is_not_told(log: Log) -> None:
    """After twenty commits without metadata, or in a cleaned log, the id is None."""
    log.commit(0, metadata_id="t-1")
    for version in range(1, 21):
        log.commit(version)
    assert read_tip(log.storage, log.table) == LogTip(version=20, table_id=None)
    log.storage.delete_tree(f"{log.table}/_delta_log/{19:020d}.json")
    assert read_tip(log.storage, log.table) == LogTip(version=20, table_id=None)


@pytest.mark.parametrize(
    ("text", "tip", "drained"),
    [
        (offset(version=6), LogTip(version=5, table_id="t-1"), True),
        (offset(version=9), LogTip(version=5, table_id="t-1"), True),
        (offset(version=5), LogTip(version=5, table_id="t-1"), False),
        (offset(version=2), LogTip(version=5, table_id="t-1"), False),
        (offset(version=6, starting=True), LogTip(version=5, table_id="t-1"), False),
        (offset(version=6), LogTip(version=5, table_id="t-2"), False),
        (offset(version=6), LogTip(version=5, table_id=None), False),
        (offset(version=6), None, False),
        ("-", LogTip(version=5, table_id="t-1"), False),
        ('{"logOffset":3}', LogTip(version=5, table_id="t-1"), False),
        ("6", LogTip(version=5, table_id="t-1"), False),
    ],
)
def test_only_an_offset_beyond_the_tip_of_its_own_table_is_drained(
    text: str, tip: LogTip | None, *, drained: bool
) -> None:
    """At or before the tip, in a snapshot, of another table, or unknown: not drained."""
    assert offset_is_drained(text, tip) is drained


def test_the_newest_mark_of_ours_is_found_behind_commits_of_others(log: Log) -> None:
    """Commits without our key, with other texts or with none are skipped."""
    log.commit(0, user_metadata='{"sluice": {"inputs": "a"}}')
    log.commit(1, user_metadata='{"sluice": {"inputs": "b"}}')
    for version, text in enumerate(["nightly", "[1]", '{"other": {}}', '{"sluice": 3}', None], start=2):
        log.commit(version, user_metadata=text)
    assert last_user_metadata(log.storage, log.table) == CommitMark(version=1, content={"inputs": "b"})


def test_a_mark_is_looked_for_in_the_last_twenty_commits(log: Log) -> None:
    """The twentieth commit from the end is read, the one before it is not."""
    log.commit(0, user_metadata='{"sluice": {}}')
    for version in range(1, 20):
        log.commit(version)
    assert last_user_metadata(log.storage, log.table) == CommitMark(version=0, content={})
    log.commit(20)
    assert last_user_metadata(log.storage, log.table) is None
