"""After a kill between any two durable writes, the next update ends in the same rows.

Random histories of files with simulated kills are in `tests/properties/test_cloud_files_converge.py`.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.foundation.failpoints import FAILPOINTS, arm, disarm
from framework.foundation.names import QualifiedName
from framework.plan.steps import SkipStep
from framework.run.update.results import UpdateState
from framework.testing.crashes import CrashJob, CrashPoint, kill_updates
from tests.support.killed_bank import (
    ACCOUNT,
    ALL,
    AMOUNT,
    CHANGE,
    EVERY_POINT,
    FIXTURES,
    POINTS,
    SCENARIOS,
    Bank,
    Rows,
    Scenario,
    case_name,
    once_each,
)
from tests.support.killed_files import (
    POINTS_OF_FILES,
    READINGS,
    WIDENING,
    Files,
    files_name,
    jobs_of_files,
    readings,
    widening,
)
from tests.support.plain_tables import table_rows
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_HISTORIES = FIXTURES / "history" / "history.py"

# A lease exists on Hadoop file systems only: tests/unit/run/test_lock.py kills its taker, test_update_identity.py
# beside it the claim of an id. A prune is cut short in tests/spark/test_honest_plan.py, a replay in
# tests/spark/test_quarantine.py. Kills while files are staged are in test_postgres.py, those at each write of a rewind
# in tests/spark/test_rewind.py. The lists of files are merged in tests/unit/sources/test_file_log.py. A refresh is
# given up in tests/spark/test_interrupted_type_changes.py. Computed columns of a view are in
# tests/spark/test_computed_columns.py, commits that a stream has read in tests/spark/test_put_back_sources.py, entries
# of catalogs in tests/e2e/test_catalog.py.
ELSEWHERE = {
    "sources.after_known", "sources.before_known",
    "staging.after_files", "staging.after_commit", "quarantine.after_claim", "quarantine.after_replay",
    "versions.before_cleaning", "updates.after_claim", "prune.after_mark", "prune.before_table", "prune.before_unmark",
    "rewinds.after_mark", "rewinds.after_checkpoint", "rewinds.after_quarantine", "rewinds.after_abandon",
    "rewinds.after_refresh", "rewinds.after_names", "rewinds.after_restore",
    "cloud_files.after_merge", "cloud_files.before_clean_mark", "cloud_files.after_known", "resets.after_begin",
    "schedules.after_decision", "schedules.after_start",
    "views.after_give_up", "rebuilds.after_quarantine", "views.after_create", "catalog.after_drop",
    "serve.after_accept", "serve.after_claim", "serve.after_spawn", "serve.after_stop_request",
    "serve.after_give_up",
}  # fmt: skip

# Targets with SCD type 2, of changes and of snapshots. One update passes these failpoints.
PLACES = ("cdc.after_events", "snapshots.after_claim", "snapshots.before_mark")
HISTORIES: Mapping[str, Rows] = {
    "owners": [(1, "Ann", 1, None), (2, "Bob", 2, 4), (3, "Cy", 5, 9)],
    "people": [(1, "Ann", 1, 2), (1, "Anna", 2, None), (2, "Bob", 1, 2), (3, "Cy", 2, None)],
}


def rows(pipeline: Pipeline, table: str) -> Rows:
    """The rows of a table, sorted."""
    path = pipeline.storage.path("tables", "main", "default", table)
    return sorted(map(tuple, table_rows(pipeline.spark, path, without="__sluice")))


def kept(pipeline: Pipeline) -> Rows:
    """The open rows of the quarantine, sorted."""
    found = pipeline.quarantine.rows().where("state = 'open'")
    return sorted(tuple(row) for row in found.selectExpr("row:account::int", "row:amount::int").collect())


def params_asked_for(items: Sequence[pytest.Item]) -> list[dict[str, Any]]:
    """Return the parameters of the selected tests of this file: `-k` kills no more updates than it needs."""
    return [item.callspec.params for item in items if item.path == Path(__file__) and hasattr(item, "callspec")]


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
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Files]:
    """A pipeline whose files get a new column, and one whose files need wider types."""
    session, folder = spark.newSession(), tmp_path_factory.mktemp
    return readings(session, folder("readings")), widening(session, folder("balances"))


@pytest.fixture(scope="module")
def wreckage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The storages of all selected cases, as a kill at the failpoint leaves them, all of one process.

    An update is copied at each failpoint, and killed at the last one. The copies are all that is left, so that none of
    them can refer to files of the update that they come from.
    """
    asked, jobs = params_asked_for(request.session.items), list[CrashJob]()
    if points := [(each["scenario"], each["failpoint"], each["nth"]) for each in asked if "failpoint" in each]:
        assert request.getfixturevalue("halfway").is_file()
        jobs += jobs_of_bank(request.getfixturevalue("bank"), points)
    if places := [each["place"] for each in asked if "place" in each]:
        histories: Bank = request.getfixturevalue("histories")
        folders = {str(histories.root / place): CrashPoint(name=place) for place in places}
        jobs.append(CrashJob(spec=str(histories.copy("killed")), copies=folders))
    if any("point" in each for each in asked):
        jobs += jobs_of_files(*request.getfixturevalue("files"))
    kill_updates(jobs, workspace=tmp_path_factory.mktemp("jobs"), spark_conf=INTERPRETED)
    for job in jobs:
        if job.copies:
            shutil.rmtree(Path(job.spec).parent)


def jobs_of_bank(bank: Bank, asked: Sequence[tuple[str, str, int]]) -> list[CrashJob]:
    """The updates to be killed: scenarios that differ only in what follows have one."""
    if any(SCENARIOS[scenario].start == "ahead" for scenario, _, _ in asked):
        bank.copy("ahead", of="begun")
        ahead = bank.pipeline("ahead").run(refresh=["payments", "accounts"])
        assert ahead.state is UpdateState.COMPLETED
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
    return jobs


@pytest.mark.usefixtures("wreckage")
@pytest.mark.parametrize(("scenario", "failpoint", "nth"), POINTS if EVERY_POINT else once_each(POINTS))
def test_after_a_kill_the_next_update_ends_as_if_nothing_had_happened(
    bank: Bank, scenario: str, failpoint: str, nth: int
) -> None:
    """The tables are those of an uninterrupted update, nothing is left to do, and no temporary files are left."""
    expected = SCENARIOS[scenario]
    pipeline = bank.pipeline(case_name(scenario, CrashPoint(name=failpoint, nth=nth)))
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


def read_rows(pipeline: Pipeline, table: str) -> list[dict[str, Any]]:
    """The rows of a table of files without NULL, in the order of their ids."""
    path = pipeline.storage.path("tables", "main", "default", table)
    found = [row.asDict() for row in table_rows(pipeline.spark, path, without="__sluice")]
    return sorted(({k: v for k, v in row.items() if v is not None} for row in found), key=json.dumps)


@pytest.mark.usefixtures("wreckage")
@pytest.mark.parametrize(("start", "point"), POINTS_OF_FILES)
def test_after_a_kill_the_next_update_has_each_row_once(files: tuple[Files, Files], start: str, point: str) -> None:
    """Killed at each pair of durable writes of the source, at the first start and when a new column has come."""
    pipeline = files[0].pipeline(files_name(start, CrashPoint(name=point)))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert read_rows(pipeline, "readings") == READINGS
    assert read_rows(pipeline, "sensors") == [{"sensor": "0"}, {"sensor": "1"}, {"sensor": "2"}]


@pytest.mark.usefixtures("wreckage")
@pytest.mark.parametrize(("point", "nth"), WIDENING)
def test_after_a_kill_while_types_widen_each_row_is_there_once_in_the_wider_types(
    files: tuple[Files, Files], point: str, nth: int
) -> None:
    """Values, keys and sequences that need wider types; a table, and a target of AUTO CDC with a late event."""
    most = 5_000_000_000
    pipeline = files[1].pipeline(files_name("begun", CrashPoint(name=point, nth=nth)))
    assert pipeline.run().state is UpdateState.COMPLETED
    found = pipeline.table("readings").select("id", "amount", "op", "seq")
    assert [kind for _, kind in found.dtypes] == ["bigint", "double", "string", "bigint"]
    assert sorted(tuple(row) for row in found.collect()) == [
        (1, 10.0, "u", 1), (1, 10.5, "u", 11), (2, 0.0, "d", 12), (2, 20.0, "u", 2), (3, 30.0, "d", 9),
        (3, 31.0, "u", 8), (most, 1.5, "u", most),
    ]  # fmt: skip
    balances = pipeline.table("balances").select("id", "amount", "seq").collect()
    assert sorted(tuple(row) for row in balances) == [(1, 10.5, 11), (most, 1.5, most)]


def test_every_failpoint_has_an_update_that_is_killed_there() -> None:
    """No pair of durable writes is omitted."""
    files = {point for _, point in POINTS_OF_FILES} | {point for point, _ in WIDENING}
    assert {failpoint for _, failpoint, _ in POINTS} | {*PLACES} | files | ELSEWHERE == FAILPOINTS
