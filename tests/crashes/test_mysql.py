"""Copies of MySQL and MariaDB under load, with kills, restarts, cuts and new definitions, end equal to their source.

Four sessions change rows, a fifth one the definitions of tables, while updates take snapshots and follow the log.
Meanwhile processes of updates are killed at failpoints and at random moments, flows and readers end, the server is
killed and started again, and its connections are cut. At each quiet point all copies are equal to their tables, or a
flow fails with a condition whose printed way out, followed to the letter, makes them equal. `SLUICE_KILL_SEED` repeats
the draws as far as timing allows. From `SLUICE_KILLS=3` on, as in `make soak`, there are twenty kills of processes on
each server, one every 20 seconds, and a restart of the server every two minutes; in every other round a replica takes
the place of the server, with changes that were not read. With `SLUICE_KILL_MINUTES` there are so many minutes of them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from framework.foundation.errors import SluiceError
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
from tests.support.mysql_copies import Copies, cut_connections
from tests.support.mysql_load import TABLES, Alterations, Workload, loaded
from tests.support.mysql_programs import KNOWN, MARIADB, MYSQL, ServerMissingError, programs_of
from tests.support.mysql_servers import MysqlServer
from tests.support.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DURABLE = {"innodb-flush-log-at-trx-commit": "1", "sync-binlog": "1", "log-slave-updates": "ON"}
_GTIDS = {MYSQL: {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}}
_IS_LONG = KILLS > 2 or KILL_MINUTES > 0
_LEAST_KILLS = 20 if _IS_LONG else 1
_ROUND_SECONDS = 20.0
_KILLS_OF_STORM, _STRIKES = (8, 2) if KILL_MINUTES else (4, 4) if _IS_LONG else (1, 2)
_KILLS_OF_RESTART = 6
_COPIED = ("a", "b", "c", "e", "f")
_FILL = (
    "CREATE TABLE e (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE f LIKE e",
    "INSERT INTO a SELECT seq, 0, 'old' FROM ({numbers}) AS numbers",
    "INSERT INTO b SELECT seq, 'x', 0, REPEAT('b', 500) FROM ({numbers}) AS numbers",
    "INSERT INTO c SELECT seq + 1000000, 0 FROM ({numbers}) AS numbers",
    "INSERT INTO e SELECT seq, 'e' FROM ({numbers}) AS numbers",
)
_NUMBERS = "WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < 300) SELECT seq FROM n"


@dataclass(kw_only=True)
class Storm:
    """What happens to the copies of a server, and to the server itself.

    Args:
        copies: the copies, at the server that is the primary.
        proxy: between them.
        chance: draws the blows.
        replica: of the server; None without one.
    """

    copies: Copies
    proxy: TcpProxy
    chance: Random
    replica: MysqlServer | None = None
    kills: int = 0
    others: int = 0

    def kill_process(self, window: str = "") -> None:
        """Kill a process that runs an update, at a failpoint if one is given, or at any moment."""
        updates = KilledUpdates(root=self.copies.folder)
        begun = time.monotonic()
        with updates.running(window, continuous=not window and self.kills % 2 == 1) as process:
            if window:
                process.wait(DEADLINE_SECONDS)
            else:
                updates.wait_for_effects(self.chance.randrange(1, 14), process)
            while _IS_LONG and time.monotonic() < begun + _ROUND_SECONDS and process.poll() is None:
                time.sleep(0.1)
            was_running = process.poll() is None
        self.kills += was_running or process.returncode == -signal.SIGKILL
        if self.kills % _KILLS_OF_RESTART == _KILLS_OF_RESTART - 1:
            self.copies.server.restart(kill=True)

    def strike(self) -> None:
        """Let something end while an update runs in this process."""
        blows: tuple[Callable[[], object], ...] = (
            self._end_flows,
            self._kill_reader,
            lambda: self._meanwhile(lambda: self.copies.server.restart(kill=True)),
            lambda: self._meanwhile(lambda: cut_connections(self.copies.server)),
            self._fail_network,
            lambda: self.copies.server.query("FLUSH BINARY LOGS"),
        )
        with suppress(SluiceError):  # the server did not answer when the update began
            self.chance.choice(blows)()
            self.others += 1

    def fail_over(self) -> None:
        """Let the replica take the place of the server, and the server follow it."""
        old, new = self.copies.server, self.replica
        if new is None:
            return
        old.await_replica(new)
        old.kill()
        new.promote()
        self.proxy.lead_to(new.port)
        self.copies.server, self.replica = new, old
        old.start()
        old.replicate_from(new, has_been_primary=True)
        self.others += 1

    def _end_flows(self) -> None:
        end_flows(self.copies.pipeline(), self.chance)

    def _kill_reader(self) -> None:
        kill_reader(self.copies.pipeline(), self.chance, "shop_changes")

    def _fail_network(self) -> None:
        self.proxy.fail_after(self.chance.randrange(1, 300_000))
        try:
            self._meanwhile(lambda: None)
        finally:
            self.proxy.restore()

    def _meanwhile(self, act: Callable[[], object]) -> None:
        handle = self.copies.pipeline().start()
        time.sleep(3 * self.chance.random())
        act()
        time.sleep(self.chance.random())
        handle.stop()


@contextmanager
def stormy(spark: SparkSession, folder: Path, name: str) -> Iterator[Storm]:
    """Start a server with tables and the pipeline of their copies, behind a network that can fail."""
    try:
        programs = programs_of(name)
    except ServerMissingError as error:
        pytest.skip(f"{name}: {error}")
    settings = {**_DURABLE, **_GTIDS.get(name, {})}
    with ExitStack() as stack:
        server = stack.enter_context(MysqlServer(programs, settings))
        replica = stack.enter_context(MysqlServer(programs, settings, server_id=2)) if _IS_LONG else None
        if replica is not None:
            replica.replicate_from(server)
        proxy = stack.enter_context(TcpProxy(server.port))
        copies = Copies(server=server, spark=spark, folder=folder, port=proxy.port)
        copies.create(*TABLES, *(statement.format(numbers=_NUMBERS) for statement in _FILL))
        chance = Random(SEED)  # noqa: S311 - moments, not secrets
        yield Storm(copies=copies, proxy=proxy, chance=chance, replica=replica)


@pytest.mark.parametrize("name", KNOWN if _IS_LONG else [MARIADB])
def test_nothing_that_ends_at_any_moment_leaves_a_trace(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """At each quiet point the copies have the rows of their tables, once what errors say is done."""
    print(f"SLUICE_KILL_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    over = time.monotonic() + 60 * KILL_MINUTES
    with stormy(spark, tmp_path, name) as storm:
        copies, number, met = storm.copies, 0, set[str]()
        while storm.kills < _LEAST_KILLS or time.monotonic() < over:
            writers = [Workload(copies.server, SEED + 10 * number + n, pause=0.02) for n in range(4)]
            altering = Alterations(copies.server, SEED + number, pause=8)
            with loaded(*writers, altering):
                for _ in range(_STRIKES):
                    storm.strike()
                for kill in range(_KILLS_OF_STORM):
                    storm.kill_process(f"{WINDOWS[number % 2]}:{storm.chance.randrange(1, 4)}" if kill == 0 else "")
            if number % 2:
                storm.fail_over()
            conditions = copies.settle()
            met |= conditions
            assert copies.differing(*_COPIED) == {}, (SEED, number, conditions, altering.made, copies.followed)
            number += 1
        print(f"{name}: {storm.kills} kills, {storm.others} other blows, {number} quiet points; met {sorted(met)}")  # noqa: T201 - as above
