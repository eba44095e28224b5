"""After a kill between any two durable writes, the next update ends in the same rows."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta import DeltaTable

from framework import Pipeline
from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.foundation.failpoints import FAILPOINTS, arm, disarm
from framework.foundation.names import QualifiedName
from framework.plan.steps import SkipStep
from framework.run.update.results import UpdateState
from framework.testing.crashes import CrashJob, CrashPoint, kill_updates
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]

FIXTURES = Path(__file__).parent / "fixtures"
MODULE, OF_HISTORIES = FIXTURES / "bank" / "bank.py", FIXTURES / "history" / "history.py"
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
# A lease exists on Hadoop file systems only: tests/unit/run/test_lock.py kills its taker. A prune is cut short in
# tests/spark/test_honest_plan.py, a replay in tests/spark/test_quarantine.py, files are read in test_cloud_files.py,
# those of staging in test_postgres.py, a rewind at each of its writes in tests/spark/test_rewind.py. The lists of files
# are merged in tests/unit/sources/test_file_log.py, types become wider in test_cloud_files.py. A refresh is given up in
# tests/spark/test_interrupted_type_changes.py.
ELSEWHERE = {
    "staging.after_files", "staging.after_commit", "quarantine.after_claim", "quarantine.after_replay",
    "lease.before_cleaning", "prune.after_mark", "prune.before_table", "prune.before_unmark",
    "cloud_files.before_start", "cloud_files.after_start",
    "rewinds.after_mark", "rewinds.after_checkpoint", "rewinds.after_quarantine", "rewinds.after_abandon",
    "rewinds.after_refresh", "rewinds.after_names", "rewinds.after_restore",
    "cloud_files.after_files", "cloud_files.after_merge", "cloud_files.after_columns", "cloud_files.before_clean_mark",
    "cloud_files.after_known", "resets.after_begin", "tables.before_wider_types", "tables.after_wider_types",
    "views.after_give_up",
}  # fmt: skip

# Targets with SCD type 2, of changes and of snapshots. One update passes these failpoints.
PLACES = ("cdc.after_events", "snapshots.after_claim", "snapshots.before_mark")
HISTORIES: Mapping[str, Rows] = {
    "owners": [(1, "Ann", 1, None), (2, "Bob", 2, 4), (3, "Cy", 5, 9)],
    "people": [(1, "Ann", 1, 2), (1, "Anna", 2, None), (2, "Bob", 1, 2), (3, "Cy", 2, None)],
}


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


def rows(pipeline: Pipeline, table: str) -> Rows:
    """The rows of a table, sorted."""
    return sorted(tuple(row) for row in pipeline.table(table).collect())


def kept(pipeline: Pipeline) -> Rows:
    """The open rows of the quarantine, sorted."""
    found = pipeline.quarantine.rows().where("state = 'open'")
    return sorted(tuple(row) for row in found.selectExpr("row:account::int", "row:amount::int").collect())


def points_asked_for(items: Sequence[pytest.Item]) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Return the failpoints of the selected tests of this file, of updates and of histories.

    `-k` kills no more updates than it needs.
    """
    chosen = [item.callspec.params for item in items if item.path == Path(__file__) and hasattr(item, "callspec")]
    points = [(each["scenario"], each["failpoint"], each["nth"]) for each in chosen if "failpoint" in each]
    return points, [each["place"] for each in chosen if "place" in each]


@pytest.fixture(scope="module")
def bank(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """The initial states of the killed updates, created without a crash."""
    bank = Bank(spark=spark, root=tmp_path_factory.mktemp("bank"))
    bank.feed("history", AMOUNT, (1, 10), (2, 20))
    bank.feed("snapshot", ACCOUNT, (1, "Ann"), (2, "Bob"), (3, "Cy"))
    bank.feed("payments", AMOUNT, (1, 5), (2, -1), (3, 7))
    bank.feed("changes", CHANGE, (1, "Anna", "UPDATE", 4), (2, None, "DELETE", 6), (4, "Dee", "INSERT", 2))
    bank.copy("fresh")
    bank.copy("begun", of="fresh")
    assert bank.pipeline("begun").run().state is UpdateState.COMPLETED
    # Late, deleting, and out of order: an update below a tombstone, a delete of a row from the snapshot.
    bank.feed("payments", AMOUNT, (1, 1), (4, 0), (4, 9))
    late = [(2, "Bo", "UPDATE", 5), (3, None, "DELETE", 7), (4, "Di", "UPDATE", 3), (1, "An", "UPDATE", 3)]
    bank.feed("changes", CHANGE, *late)
    bank.copy("lost", of="begun")
    for table in ("payments", "ledger", "accounts"):
        shutil.rmtree(bank.root / "lost" / "storage" / "tables" / "main" / "default" / table)
    bank.copy("lossy", of="begun")
    bank.lose("lossy", {"history": "amount = 20", "changes": "owner = 'Anna' OR operation = 'DELETE' AND account = 2"})
    return bank


@pytest.fixture(scope="module")
def halfway(bank: Bank) -> Path:
    """Return a copy whose full refresh of the accounts failed after its once flow had finished."""

    def fail() -> None:
        raise RuntimeError

    spec = bank.copy("halfway", of="begun")
    arm("run.before_once_mark", action=fail)
    try:
        result = bank.pipeline("halfway").run(full_refresh=["accounts"])
    finally:
        disarm()
    assert result.state is UpdateState.FAILED
    return spec


@pytest.fixture(scope="module")
def histories(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """Changes that come late and say the same twice, and two snapshots."""
    bank = Bank(spark=spark, root=tmp_path_factory.mktemp("histories"), module=OF_HISTORIES)
    repeated = [(1, "Ann", "INSERT", 1), (1, "Ann", "UPDATE", 3)]
    gone = [(2, "Bob", "INSERT", 2), (2, None, "DELETE", 4), (3, None, "DELETE", 9), (3, "Cy", "INSERT", 5)]
    bank.feed("changes", CHANGE, *repeated, *gone)
    bank.feed("snapshot_1", ACCOUNT, (1, "Ann"), (2, "Bob"))
    bank.feed("snapshot_2", ACCOUNT, (1, "Anna"), (3, "Cy"))
    return bank


@pytest.fixture(scope="module")
def wreckage(
    bank: Bank, halfway: Path, histories: Bank, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Bank:
    """The storages of all selected cases, as a kill at the failpoint leaves them, all of one process.

    An update is copied at each failpoint, and killed at the last one. The copies are all that is left, so that none of
    them can refer to files of the update that they come from.
    """
    assert halfway.is_file()
    asked, places = points_asked_for(request.session.items)
    if any(SCENARIOS[scenario].start == "ahead" for scenario, _, _ in asked):
        bank.copy("ahead", of="begun")
        ahead = bank.pipeline("ahead").run(refresh=["payments", "accounts"])
        assert ahead.state is UpdateState.COMPLETED
    # By update: scenarios that differ only in what follows have one.
    killed: dict[str, Scenario] = {}
    copies: dict[str, dict[str, CrashPoint]] = defaultdict(dict)
    jobs = []
    for name, failpoint, nth in asked:
        scenario, point = SCENARIOS[name], CrashPoint(name=failpoint, nth=nth)
        if scenario.rewinds:  # the mark of a rewind has the paths of tables: a copy would continue elsewhere
            spec = bank.copy(case_name(name, point), of=scenario.start)
            jobs.append(CrashJob(spec=str(spec), point=point, rewind_to=bank.first_update))
        else:
            update = f"{scenario.start} {scenario.update}"
            killed[update] = scenario
            copies[update][str(bank.root / case_name(name, point))] = point
    for number, (update, scenario) in enumerate(killed.items()):
        spec = bank.copy(f"killed {number}", of=scenario.start)
        jobs.append(CrashJob(spec=str(spec), arguments=scenario.update, copies=copies[update]))
    if places:
        folders = {str(histories.root / place): CrashPoint(name=place) for place in places}
        jobs.append(CrashJob(spec=str(histories.copy("killed")), copies=folders))
    kill_updates(jobs, workspace=tmp_path_factory.mktemp("jobs"), spark_conf=INTERPRETED)
    for folder in (*bank.root.glob("killed *"), *histories.root.glob("killed")):
        shutil.rmtree(folder)
    return bank


@pytest.mark.parametrize(("scenario", "failpoint", "nth"), POINTS if EVERY_POINT else once_each(POINTS))
def test_after_a_kill_the_next_update_ends_as_if_nothing_had_happened(
    wreckage: Bank, scenario: str, failpoint: str, nth: int
) -> None:
    """The tables are those of an uninterrupted update, nothing is left to do, and no temporary files are left."""
    expected = SCENARIOS[scenario]
    pipeline = wreckage.pipeline(case_name(scenario, CrashPoint(name=failpoint, nth=nth)))
    result = pipeline.run(**expected.again)
    assert result.state is UpdateState.COMPLETED
    assert {name: rows(pipeline, name) for name in expected.tables} == dict(expected.tables)
    if "payments" in expected.tables:  # each row is in its table or in the quarantine, once
        assert kept(pipeline) == [(2, -1), (4, 0)]
    plan = pipeline.plan(refresh=list(expected.tables))
    assert [step for step in plan.steps if not isinstance(step, SkipStep)] == []
    for manifest in GenerationStore(pipeline.storage).list_all():
        if manifest.dataset.table not in expected.tables:
            continue
        states = [generation.state for generation in manifest.generations]
        assert (states.count(GenerationState.CURRENT), states.count(GenerationState.BUILDING)) == (1, 0)
    copies = [pipeline.storage.list_names(pipeline.storage.path("rebuilds", f"main.default.{name}")) for name in ALL]
    assert [name for names in copies for name in names if name != "rebuild.json"] == []


@pytest.mark.usefixtures("wreckage")
@pytest.mark.parametrize("place", PLACES)
def test_after_a_kill_the_next_update_ends_in_the_same_histories(histories: Bank, place: str) -> None:
    """Each event and each snapshot counts once; one more update changes nothing."""
    pipeline = histories.pipeline(place)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert {name: rows(pipeline, name) for name in HISTORIES} == HISTORIES
    commits = commits_of(histories, place)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert commits_of(histories, place) == commits


def commits_of(bank: Bank, name: str) -> list[str]:
    """The commits of all tables of a copy."""
    return sorted(map(str, (bank.root / name / "storage" / "tables").rglob("_delta_log/*.json")))


def test_a_full_refresh_that_failed_halfway_still_serves_the_old_rows(bank: Bank, halfway: Path) -> None:
    """While a rebuild is unfinished the table has the rows from before, and its flow the checkpoint from before."""
    pipeline = bank.pipeline(halfway.parent.name)
    assert rows(pipeline, "accounts") == [(1, "Anna"), (3, "Cy"), (4, "Dee")]
    name = QualifiedName.parse("accounts", catalog="main", schema="default")
    flow = QualifiedName.parse("snapshot", catalog="main", schema="default")
    generations = GenerationStore(pipeline.storage).read(name, flow)
    assert [(each.state, each.completed) for each in generations] == [("current", True), ("building", False)]


def test_every_failpoint_has_an_update_that_is_killed_there() -> None:
    """No pair of durable writes is omitted."""
    assert {failpoint for _, failpoint, _ in POINTS} | {*PLACES} | ELSEWHERE == FAILPOINTS
