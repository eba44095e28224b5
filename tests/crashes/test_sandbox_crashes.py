"""A crash of a sandbox leaves what `kill -9` leaves: the same files, and the same rows after the next update."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import Pipeline
from framework.sandbox.test_session import SESSION
from framework.testing.crashes import CrashJob, CrashPoint, kill_updates
from tests.support.killed_bank import ACCOUNT, ALL, AMOUNT, CHANGE, Bank
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.sandbox.sandbox import Sandbox

MOMENTS: Mapping[str, str] = {
    "after-quarantine": "quarantine.after_rows",
    "after-table-commit": "quarantine.after_target",
    "after-deletes": "cdc.after_tombstones",
    "after-once-flow": "run.before_once_mark",
    "after-table-create": "tables.after_create",
}
"""The failpoint that the first update of the bank passes first at each moment."""

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_VARYING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?|\b\d{13}\b|\b[0-9a-f]{32,64}\b")
_DATETIME = re.compile(r"datetime\.datetime\([^()]*(?:\([^()]*\))?[^()]*\)")
_OF_A_PROCESS = ("update.lock", "events/", "graphs/", ".crc")
"""The lock names its process, events have the texts of the session, and a graph the lines of code."""


@pytest.fixture(scope="module")
def killed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """A bank whose first update was killed by `kill -9` at each moment, in a copy for each."""
    bank = Bank(spark=spark, root=tmp_path_factory.mktemp("bank"))
    bank.feed("history", AMOUNT, (1, 10), (2, 20))
    bank.feed("snapshot", ACCOUNT, (1, "Ann"), (2, "Bob"), (3, "Cy"))
    bank.feed("payments", AMOUNT, (1, 5), (2, -1), (3, 7), (1, 1), (4, 0), (4, 9))
    changes = [(1, "Anna", "UPDATE", 4), (2, None, "DELETE", 6), (4, "Dee", "INSERT", 2), (3, None, "DELETE", 7)]
    bank.feed("changes", CHANGE, *changes, (4, "Di", "UPDATE", 3))
    bank.copy("fresh")
    jobs = [
        CrashJob(spec=str(bank.copy(moment, of="fresh")), point=CrashPoint(name=failpoint))
        for moment, failpoint in MOMENTS.items()
    ]
    kill_updates(jobs, workspace=tmp_path_factory.mktemp("jobs"), spark_conf=SESSION)
    return bank


@pytest.fixture
def sandbox(killed: Bank, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox of the bank that reads the same sources."""
    with Pipeline.from_spec(killed.root / "fresh" / "pipeline.yml", spark=killed.spark).sandbox(tmp_path) as sandbox:
        for source in ("history", "snapshot", "payments", "changes"):
            sandbox.given(f"sources/{source}", real=True)
        yield sandbox


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_leaves_what_a_kill_leaves(killed: Bank, sandbox: Sandbox, moment: str) -> None:
    """Each file has its counterpart with the same content, and so has each row; the next update ends in all rows."""
    ended = list[str]()
    with sandbox.crash.at(moment):
        sandbox.update()
        ended.append("the rest of the block")
    assert ended == []
    crashed, left = Path(sandbox.storage), killed.root / moment / "storage"

    assert files_of(left) == files_of(crashed)
    assert rows_of(killed.spark, left) == rows_of(killed.spark, crashed)

    sandbox.update()

    assert {name: sorted(map(tuple, table_rows(killed.spark, str(crashed / "tables/main/default" / name),
                                               without="__sluice"))) for name in ALL} == dict(ALL)  # fmt: skip


def files_of(storage: Path) -> list[tuple[str, str]]:
    """The files of a storage, with the contents of those that are not of a table; without what varies."""
    files = (file for file in storage.rglob("*") if file.is_file())
    named = [(file, str(file.relative_to(storage))) for file in files]
    return sorted(
        (_UUID.sub("*", name), "" if "tables/" in name or "quarantine/" in name else _same(file, storage))
        for file, name in named
        if not any(part in name for part in _OF_A_PROCESS)
    )


def _same(file: Path, storage: Path) -> str:
    text = file.read_bytes().decode("utf-8", "replace").replace(str(storage), "STORAGE")
    return _VARYING.sub("*", _UUID.sub("*", text))


def rows_of(spark: SparkSession, storage: Path) -> dict[str, list[str]]:
    """The rows of all tables of a storage, also of those of AUTO CDC itself, without ids and times of the update."""
    logs = sorted(storage.rglob("_delta_log"))
    return {
        str(log.parent.relative_to(storage)): sorted(
            _DATETIME.sub("*", _UUID.sub("*", str(tuple(row))))
            for row in table_rows(spark, str(log.parent), without="__sluice")
        )
        for log in logs
    }


def test_a_block_that_does_not_come_so_far_says_how_far_it_came(sandbox: Sandbox) -> None:
    """Its storage is that of an update without a crash."""
    with pytest.raises(AssertionError) as failed, sandbox.crash.at("after-table-commit", nth=99):
        sandbox.update()

    said = str(failed.value)
    assert said.startswith("The block was to crash at after-table-commit, which it did not pass 99 times. It passed:\n")
    assert (
        "\n  after-quarantine: the faulty rows of a batch are in the quarantine, the others nowhere (1 times)" in said
    )
    assert len(sandbox.rows("payments")) == 4
