"""The updates that `tests/crashes/test_updates.py` kills: a bank, its scenarios and the failpoints in them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta import DeltaTable

from framework import Pipeline
from framework.testing.crashes import CrashPoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]

FIXTURES = Path(__file__).parents[1] / "crashes" / "fixtures"
MODULE = FIXTURES / "bank" / "bank.py"
ACCOUNT, AMOUNT = "account INT, owner STRING", "account INT, amount INT"
CHANGE = "account INT, owner STRING, operation STRING, position INT"

# What an uninterrupted update makes of all sources; the rebuild of the ledger alone reads payments as they were.
ACCOUNTS = [(1, "Anna"), (4, "Di")]
PAYMENTS = [(1, 1), (1, 5), (3, 7), (4, 9)]
LEDGER = [(1, 1), (1, 5), (1, 10), (2, 20), (3, 7), (4, 9)]
LEDGER_REREAD = [(1, 5), (1, 10), (2, 20), (3, 7)]
ALL: Mapping[str, Rows] = {
    "payments": PAYMENTS,
    "ledger": LEDGER,
    "accounts": ACCOUNTS,
    "balances": [(1, "Anna", 16), (4, "Di", 9)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """An update to be killed, the update after it, and the expected tables after both.

    Args:
        start: the initial state: `fresh`, `begun` (all flows ran before the last changes arrived), `halfway` (as
            begun, and a full refresh of the accounts failed in the middle), `lossy` (as begun, and the sources lost
            rows that were read before), `lost` (as begun, and all tables were deleted), or `ahead` (the flows of
            payments and accounts ran after the last changes arrived, too).
        update: the request of the killed update.
        again: the request of the update after it.
        rewinds: the killed command is no update, but a rewind to the end of the first one.
    """

    start: str
    tables: Mapping[str, Rows]
    update: Mapping[str, Any] = field(default_factory=dict)
    again: Mapping[str, Any] = field(default_factory=dict)
    rewinds: bool = False


HISTORY = {"full_refresh": ["accounts", "ledger"], "keep_history": True, "history_keys": ["*"]}

SCENARIOS = {
    "first": Scenario(start="fresh", tables=ALL),
    "next": Scenario(start="begun", tables=ALL),
    # What follows concerns the killed flow or the tables at the failpoint, and not the flows that have not run.
    "payments": Scenario(start="fresh", tables={"payments": PAYMENTS}, again={"refresh": ["payments"]}),
    "lost ledger": Scenario(
        start="lost",
        tables={"payments": PAYMENTS, "ledger": LEDGER},
        again={"refresh": ["payments", "ledger"]},
    ),
    "lost accounts": Scenario(start="lost", tables={"accounts": ACCOUNTS}, again={"refresh": ["accounts"]}),
    "rebuild": Scenario(
        start="begun",
        tables={"accounts": ACCOUNTS},
        update={"full_refresh": ["accounts"]},
        again={"refresh": ["accounts"]},
    ),
    "append": Scenario(
        start="begun",
        tables={"ledger": LEDGER_REREAD},
        update={"full_refresh": ["ledger"]},
        again={"refresh": ["ledger"]},
    ),
    "anew": Scenario(
        start="halfway",
        tables={"accounts": ACCOUNTS},
        update={"full_refresh": ["accounts"]},
        again={"refresh": ["accounts"]},
    ),
    "reset": Scenario(
        start="begun",
        tables={"accounts": ACCOUNTS},
        update={"reset_checkpoints": ["change"]},
        again={"refresh": ["accounts"]},
    ),
    "history": Scenario(
        start="lossy",
        tables={"accounts": ACCOUNTS, "ledger": LEDGER_REREAD},
        update=HISTORY,
        again=HISTORY,
    ),
    "history of accounts": Scenario(
        start="lossy",
        tables={"accounts": ACCOUNTS},
        update=HISTORY,
        again={"full_refresh": ["accounts"], "keep_history": True},
    ),
    "history of ledger": Scenario(
        start="lossy",
        tables={"ledger": LEDGER_REREAD},
        update=HISTORY,
        again={**HISTORY, "full_refresh": ["ledger"]},
    ),
    "history continued": Scenario(
        start="lossy",
        tables={"accounts": ACCOUNTS, "ledger": LEDGER_REREAD},
        update=HISTORY,
        again={"refresh": ["accounts", "ledger"]},
    ),
    "continuous": Scenario(start="begun", tables=ALL, update={"continuous": True}),
    # The update finishes the rewind of all tables, and goes on with some.
    "rewind": Scenario(
        start="ahead",
        tables={"payments": PAYMENTS, "accounts": ACCOUNTS},
        again={"refresh": ["payments", "accounts"]},
        rewinds=True,
    ),
}

# Every failpoint at least once; one that an update passes several times, not only at the first passing.
POINTS = [
    ("next", "cdc.after_merge", 1),
    ("next", "views.after_commit", 1),
    ("first", "tables.after_create", 1),
    ("first", "storage.before_replace", 4),
    ("first", "run.before_once_mark", 1),
    ("first", "storage.before_replace", 10),
    # A flow that is suspended in its query blocks every later query with its id, of a copy of the same checkpoint:
    # these have new checkpoints.
    ("payments", "quarantine.after_rows", 1),
    ("payments", "quarantine.after_target", 1),
    ("first", "appends.after_commit", 1),
    ("first", "cdc.after_tombstones", 1),
    ("first", "cdc.after_merge", 1),
    ("first", "cdc.after_merge", 2),
    ("first", "views.after_commit", 1),
    ("lost ledger", "tables.before_create", 2),
    ("lost ledger", "generations.after_begin", 1),
    ("lost accounts", "tables.after_create", 3),
    ("history of accounts", "backups.after_copy", 2),
    ("history of ledger", "backups.after_mark", 1),
    ("history", "rebuilds.after_history", 2),
    ("history continued", "rebuilds.after_history", 1),
    ("history continued", "rebuilds.after_publish", 1),
    ("append", "run.before_once_mark", 1),
    ("append", "rebuilds.after_publish", 1),
    ("rebuild", "rebuilds.after_begin", 1),
    ("rebuild", "run.before_once_mark", 1),
    ("rebuild", "cdc.after_tombstones", 1),
    ("rebuild", "rebuilds.after_freeze", 1),
    ("rebuild", "rebuilds.after_auxiliary", 1),
    ("rebuild", "rebuilds.after_publish", 1),
    ("rebuild", "rebuilds.after_mark", 1),
    ("rebuild", "rebuilds.after_promote", 1),
    ("anew", "generations.before_delete", 1),
    ("reset", "storage.before_replace", 1),
    ("reset", "cdc.after_merge", 1),
    ("rewind", "rewinds.after_table", 2),
    ("rewind", "rewinds.after_generation", 2),
    ("continuous", "cdc.after_merge", 1),
    ("continuous", "views.after_commit", 1),
]
# CI kills once at each place that an update can pass; with SLUICE_CRASH_POINTS=all also at its later passings and in
# other kinds of updates.
EVERY_POINT = os.environ.get("SLUICE_CRASH_POINTS") == "all"


def once_each(points: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """The last kill of a triggered update at each failpoint.

    Rebuilds pass most failpoints, and the first ones are passed on the way there. A rewind is killed once: it can't be
    copied, and tests/spark/test_rewind.py interrupts one at each of its failpoints. A continuous update is killed at
    random moments in test_continuous.py.
    """
    triggered = [point for point in points if point[0] != "continuous"]
    return list({"rewind" if point[0] == "rewind" else point[1]: point for point in triggered}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """Copies of one pipeline, each in a separate folder, over the same sources."""

    spark: SparkSession
    root: Path
    module: Path = MODULE

    def feed(self, source: str, ddl: str, *rows: tuple[Any, ...]) -> None:
        """Append rows to a source in one commit."""
        frame = self.spark.createDataFrame(list(rows), ddl).coalesce(1)
        frame.write.format("delta").mode("append").save(str(self.root / "sources" / source))

    def copy(self, name: str, of: str | None = None) -> Path:
        """Return the spec of a new copy, with the current storage of another one."""
        folder = self.root / name
        if of is not None:
            shutil.copytree(self.root / of, folder)
            return folder / "pipeline.yml"
        folder.mkdir()
        shutil.copy(self.module, folder)
        spec = {
            "name": "bank",
            "storage": "storage",
            "development": True,
            "configuration": {"bank.source": str(self.root / "sources")},
            "libraries": [{"file": {"path": self.module.name}}],
        }
        (folder / "pipeline.yml").write_text(json.dumps(spec))  # JSON is YAML too
        return folder / "pipeline.yml"

    def lose(self, name: str, lost: Mapping[str, str]) -> None:
        """Give a copy sources of its own, without the rows that meet a condition."""
        folder = self.root / f"sources of {name}"
        shutil.copytree(self.root / "sources", folder)
        for source, condition in lost.items():
            DeltaTable.forPath(self.spark, str(folder / source)).delete(condition)
        file = self.root / name / "pipeline.yml"
        spec = json.loads(file.read_text())
        file.write_text(json.dumps({**spec, "configuration": {"bank.source": str(folder)}}))

    @property
    def first_update(self) -> str:
        """The id of the update that ran before the last changes arrived."""
        storage = self.pipeline("begun").storage
        (name,) = storage.list_names(storage.path("events"))
        return name.removesuffix(".jsonl")

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline of a copy, as in a new process."""
        return Pipeline.from_spec(self.root / name / "pipeline.yml", spark=self.spark)


def case_name(scenario: str, point: CrashPoint) -> str:
    """The folder of one killed update."""
    return f"{scenario}-{point.name}-{point.nth}"
