"""After a kill between two durable writes of histories and snapshots, the next update ends in the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework.run.update.results import UpdateState
from framework.testing.crashes import CrashJob, CrashPoint, kill_updates
from tests.crashes.test_updates import ACCOUNT, CHANGE, Bank, rows
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = Path(__file__).parent / "fixtures" / "history" / "history.py"
TABLES = {
    "owners": [(1, "Ann", 1, None), (2, "Bob", 2, 4), (3, "Cy", 5, 9)],
    "people": [(1, "Ann", 1, 2), (1, "Anna", 2, None), (2, "Bob", 1, 2), (3, "Cy", 2, None)],
}
PLACES = ("cdc.after_events", "snapshots.after_claim", "snapshots.before_mark")


@pytest.fixture(scope="module")
def wreckage(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """One storage per failpoint, as a kill there leaves it; one update passes them all."""
    bank = Bank(spark=spark, root=tmp_path_factory.mktemp("histories"), module=MODULE)
    repeated = [(1, "Ann", "INSERT", 1), (1, "Ann", "UPDATE", 3)]
    gone = [(2, "Bob", "INSERT", 2), (2, None, "DELETE", 4), (3, None, "DELETE", 9), (3, "Cy", "INSERT", 5)]
    bank.feed("changes", CHANGE, *repeated, *gone)
    bank.feed("snapshot_1", ACCOUNT, (1, "Ann"), (2, "Bob"))
    bank.feed("snapshot_2", ACCOUNT, (1, "Anna"), (3, "Cy"))
    copies = {str(bank.root / place): CrashPoint(name=place) for place in PLACES}
    job = CrashJob(spec=str(bank.copy("killed")), copies=copies)
    kill_updates([job], workspace=tmp_path_factory.mktemp("jobs"), spark_conf=INTERPRETED)
    shutil.rmtree(bank.root / "killed")
    return bank


@pytest.mark.parametrize("place", PLACES)
def test_after_a_kill_the_next_update_ends_in_the_same_histories(wreckage: Bank, place: str) -> None:
    """Each event and each snapshot counts once; one more update changes nothing."""
    pipeline = wreckage.pipeline(place)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert {name: rows(pipeline, name) for name in TABLES} == TABLES
    assert pipeline.run().state is UpdateState.COMPLETED
    assert {name: rows(pipeline, name) for name in TABLES} == TABLES
