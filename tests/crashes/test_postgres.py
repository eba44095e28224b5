"""A copy of a database under load, whose processes are killed at random, ends equal to the database.

pgbench writes while `sluice run` takes a snapshot in chunks and follows the log, in turns triggered and continuous.
Each round kills the process with SIGKILL after a random number of durable effects, or stops the database as a loss of
power would. A killed process costs its start, so most kills are in updates of the test's own process: of the process
that reads the log, and of flows between two durable effects. Moments are drawn from a seed: `SLUICE_KILL_SEED` repeats
them as far as timing allows. `SLUICE_KILLS` sets the number of killed processes of updates; from three on, as in
`make soak`, 20 kills are drawn in place of eight. With `SLUICE_KILL_MINUTES` there is one every 20 seconds until the
minutes are over.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from framework import Pipeline
from framework.demo.postgres_server import PostgresServer
from framework.run.update.results import UpdateState
from tests.support.killed_updates import (
    DEADLINE_SECONDS,
    KILL_MINUTES,
    KILLS,
    SEED,
    WINDOWS,
    KilledUpdates,
    end_flows,
    kill_reader,
)
from tests.support.plain_tables import table_rows
from tests.support.running_updates import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = Path(__file__).parents[1] / "databases" / "fixtures" / "bank" / "bank.py"
LEAST_KILLS = 20 if KILLS > 2 or KILL_MINUTES else 8
_ACCOUNTS = 100_000
_READERS = 11
_TABLES = {
    "accounts": ("aid, bid, abalance, filler", "abalance"),
    "branches": ("bid, bbalance, filler", "bbalance"),
    "tellers": ("tid, bid, tbalance, filler", "tbalance"),
    "history": ("hid, tid, bid, aid, delta, mtime, filler", "delta"),
}
"""The columns of each table, and the one whose sum is that of all others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bank(KilledUpdates):
    """A database that pgbench fills and changes, and the folder of the pipeline that copies it."""

    server: PostgresServer

    def prepare(self) -> None:
        """Fill the database, and write the pipeline's spec, module and connection."""
        self.server.run("pgbench", "-i", "-q", "-s", "1")
        self.query("ALTER TABLE pgbench_history ADD COLUMN hid BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
        shutil.copy(MODULE, self.root)
        (self.root / "connections.yml").write_text(f"bank: {self.server.uri()}\n", "utf-8")
        # A stream starts Python processes, which must answer within ten seconds; two at a time do on a busy machine.
        configuration = {
            "bank.folder": str(self.root), "bank.chunk_bytes": "1m", "pipelines.maxParallelFlows": "2",
        }  # fmt: skip
        spec = {
            "name": "bank", "storage": "storage", "development": True, "configuration": configuration,
            "libraries": [{"file": {"path": MODULE.name}}],
        }  # fmt: skip
        (self.root / "pipeline.yml").write_text(json.dumps(spec), "utf-8")

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement at the source."""
        with closing(psycopg2.connect(self.server.uri())) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def load(self) -> Iterator[None]:
        """Have pgbench change rows; it is started again after the database was."""
        command = self.server.command("pgbench", ["-n", "-c", "2", "-R", "40", "-T", str(DEADLINE_SECONDS)])
        user = "nobody" if os.getuid() == 0 else None
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd="/", user=user)
        try:
            yield
        finally:
            process.kill()
            process.wait(30)


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """A bank on a server of its own."""
    with PostgresServer() as server:
        found = Bank(server=server, root=tmp_path)
        found.prepare()
        yield found


def rounds() -> Iterator[int]:
    """The numbers of the rounds, each of which ends with a kill."""
    over = time.monotonic() + 60 * KILL_MINUTES
    for number in count():
        if number >= KILLS and time.monotonic() >= over:
            return
        yield number


def lose_power(bank: Bank, pipeline: Pipeline, effects: int) -> None:
    """Stop the database at once while an update runs, after so many effects; the update may fail."""
    begun, handle = bank.effects(), pipeline.start()
    until(lambda: bank.effects() >= begun + effects, handle)
    bank.server.stop("immediate")
    bank.server.start()
    handle.stop()


def kill_within(pipeline: Pipeline, chance: Random, kills: int) -> int:
    """Run updates until so many flows and readers were killed, of each kind some; return how many were."""
    flows = readers = 0
    for number in range(10 * LEAST_KILLS):
        if flows and readers > 1 and flows + readers >= kills:
            return flows + readers
        if number % (_READERS + 1):
            readers += kill_reader(pipeline, chance, "bank_changes")
        else:
            flows += end_flows(pipeline, chance)
    raise AssertionError((flows, readers, SEED))


def test_kills_of_the_process_and_of_the_database_leave_no_trace(spark: SparkSession, bank: Bank) -> None:
    """Each table equals its source, the sums of all balances agree, and no snapshot began again."""
    print(f"SLUICE_KILL_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    chance = Random(SEED)  # noqa: S311 - moments of kills, not secrets
    restarts = 6 if KILL_MINUTES else 3
    for number in rounds():
        # The first two rounds die between the files of a batch, its commit, and its checkpoint.
        window = f"{WINDOWS[number]}:{chance.randrange(1, 4)}" if number < len(WINDOWS) else ""
        with bank.load(), bank.running(window, continuous=number % 2 == 1) as process:
            if window:
                assert process.wait(DEADLINE_SECONDS) == -signal.SIGKILL, bank.output()
            else:
                bank.wait_for_effects(chance.randrange(1, 14), process)
            time.sleep(chance.random() / 3)
            if number % restarts == restarts - 1:
                bank.server.stop("immediate")
                bank.server.start()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(60)
    pipeline = Pipeline.from_spec(bank.root / "pipeline.yml", spark=spark)
    with bank.load():
        within = kill_within(pipeline, chance, max(LEAST_KILLS - number - 1, LEAST_KILLS // 2))
        lose_power(bank, pipeline, chance.randrange(1, 14))
    stops = (number + 1) // restarts + 1
    print(f"killed: {number + 1} updates, {within} readers and flows; {stops} stops of the database")  # noqa: T201 - as above
    for _ in range(2):
        result = pipeline.run()
        assert result.state is UpdateState.COMPLETED, (result.flows, SEED)
    sums, rows = set[int](), 0
    for table, (columns, balance) in _TABLES.items():
        copy = table_rows(spark, pipeline.storage.path("tables", "main", "default", table), without="__sluice")
        found = sorted((tuple(row[column] for column in columns.split(", ")) for row in copy), key=itemgetter(0))
        key = columns.split(", ", maxsplit=1)[0]
        assert found == bank.query(f"SELECT {columns} FROM pgbench_{table} ORDER BY {key}"), (table, SEED)
        sums.add(sum(row[balance] for row in copy))
        rows = max(rows, len(found))
    assert len(sums) == 1, (sums, SEED)
    assert rows == _ACCOUNTS
    generations = [*(bank.root / "storage" / "checkpoints" / "main.default.accounts").glob("*snapshot_flow/[0-9]*")]
    assert len(generations) <= 1, generations
