"""Random files, columns, types, overwrites, faults, resets and full refreshes: each row is there as often as needed.

Many histories run at once: each has a folder and a table, and all tables are in one pipeline. A fault ends the update,
or one of its flows, between two durable writes; `tests/crashes` kills processes at the same places.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.checkpoints.generations import GenerationStore
from framework.foundation.errors import GraphErrors
from framework.foundation.failpoints import arm, disarm
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows
from tests.support.seeds import fresh_seed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORIES = min(int(os.environ.get("SLUICE_WORLDS", "4")), 40)
ROUNDS = 2 if HISTORIES <= 6 else 8
FAULTS = (
    "cloud_files.before_start", "cloud_files.after_start", "cloud_files.after_files", "cloud_files.after_columns",
    "storage.before_replace", "generations.before_delete", "rebuilds.after_begin", "rebuilds.after_publish",
    "rebuilds.after_mark", "tables.after_create", "tables.before_wider_types",
)  # fmt: skip

Row = frozenset[tuple[str, str]]
"""The values of a row that are not NULL, by column."""


class StopError(RuntimeError):
    """Ends an update as an unforeseen fault does."""


def _stop() -> None:
    raise StopError


@dataclass(kw_only=True)
class History:
    """One folder with its table, and the rows that the table must have.

    Args:
        name: of both.
        root: the folder of all folders.
        random: draws everything.
    """

    name: str
    root: Path
    random: Random
    expected: Counter[Row] = field(default_factory=Counter)
    unread: dict[str, list[Row]] = field(default_factory=dict)
    """The rows of the files that no clean update has seen, in their present content."""
    content: dict[str, list[Row]] = field(default_factory=dict)
    """The rows of all files."""
    times: dict[str, int] = field(default_factory=dict)
    maybe: Counter[Row] = field(default_factory=Counter)
    """Rows that were overwritten after an update that failed may have read them."""
    after: int | None = None
    """The start of the generation, in epoch seconds; None if it reads all files."""
    rows: int = 0
    generation: int = 0

    def __post_init__(self) -> None:
        """Draw the kind of the files and the options."""
        self.kind = self.random.choice(("json", "json", "csv"))
        self.overwrites = self.random.random() < 0.3
        self.options = {
            "cloudFiles.format": self.kind,
            "cloudFiles.maxFilesPerTrigger": str(self.random.choice((1, 2, 1000))),
            "cloudFiles.inferColumnTypes": self.random.choice(("true", "false")),
            "cloudFiles.allowOverwrites": str(self.overwrites).lower(),
            "cloudFiles.partitionColumns": "k",
            **({"header": "true"} if self.kind == "csv" else {}),
        }
        if self.random.random() < 0.3:
            self.options["cloudFiles.maxBytesPerTrigger"] = "100b"
        self.widens = self.random.random() < 0.4
        if self.widens:
            self.options["cloudFiles.schemaEvolutionMode"] = "addNewColumnsWithTypeWidening"
            self.options["prefersDecimal"] = "true"

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self.root / self.name

    def write_files(self, *, settled: bool) -> None:
        """Add files, delete some that are read, and overwrite some if that is allowed.

        Args:
            settled: whether all files are read; if not, an update that failed may have read any of them.
        """
        for _ in range(self.random.randint(0 if self.content else 1, 4)):
            place = self.random.choice(("", "k=1/", "deep/er/"))
            self._write(f"{place}{len(self.times)}-{self.rows} {self.random.choice('%=+ü ж,')}")
        for name in list(self.content):
            chance = self.random.random()
            if chance < 0.1 and settled and name not in self.unread:
                (self.folder / name).unlink()
                del self.content[name]
            elif chance > 0.75 and self.overwrites and not (settled and name in self.unread):
                self.maybe.update([] if settled else self.content[name])
                self._write(name)

    def _write(self, name: str) -> None:
        """Write a file beside the folder and move it there, with any modification time."""
        rows = [self._row() for _ in range(self.random.randint(1 if not self.content else 0, 3))]
        text, suffix = (_csv(rows) if self.kind == "csv" else _json(rows)), f".{self.kind}"
        data = text.encode()
        if not name.endswith((".gz", suffix)):
            name += self.random.choice((suffix, suffix, f"{suffix}.gz"))
        staged = self.root / "staged"
        staged.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        # Clocks differ: a new file may be older than one that is read. Each version of a file has its own time.
        self.times[name] = self.random.choice((-1_000, 10**9, 2 * 10**9, 5 * 10**9)) + self.rows
        os.utime(staged, (self.times[name], self.times[name]))
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        staged.rename(self.folder / name)
        folder = {"k": "1"} if name.startswith("k=1/") else {}
        self.content[name] = self.unread[name] = [frozenset({**row, **folder}.items()) for row in rows]

    def _row(self) -> dict[str, str]:
        self.rows += 1
        more = {f"c{index}": str(index) for index in range(5) if self.random.random() < 0.25}
        most = self.random.choice((0, 0, 0, 5 * 10**9, 10**20)) if self.widens else 0
        return {"id": str(most + self.rows), **more}

    def settle(self, generation: int, start: int | None, found: Counter[Row]) -> None:
        """Check the rows after a clean update: the unread files once more, or all files of a new generation.

        Args:
            generation: the table's generation.
            start: the start of a reset, in epoch seconds; None if a new generation is of a full refresh.
            found: the rows of the table.
        """
        read = self.unread
        if generation != self.generation:
            self.generation, self.after, read = generation, start, self.content
            if start is None:
                self.expected = Counter()
        for name, rows in read.items():
            if self.after is None or self.times[name] > self.after:
                self.expected.update(rows)
        assert found >= self.expected, f"lost: {self.expected - found}"
        assert found - self.expected <= self.maybe, f"doubled: {found - self.expected}"
        self.expected, self.unread, self.maybe = found, {}, Counter()


def _json(rows: Sequence[Mapping[str, str]]) -> str:
    return "".join(f"{json.dumps({**row, 'id': int(row['id'])})}\n" for row in rows)


def _csv(rows: Sequence[Mapping[str, str]]) -> str:
    names = sorted({name for row in rows for name in row}, reverse=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, names)
    if names:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def declare(spark: SparkSession, histories: Sequence[History]) -> Callable[[], None]:
    """A streaming table for each history."""

    def declared() -> None:
        for history in histories:

            @dp.table(name=history.name)
            def rows(history: History = history) -> DataFrame:
                reader = spark.readStream.format("cloudFiles").options(**history.options)
                return reader.load(str(history.folder)).drop("_rescued_data")

    return declared


def texts_of(world: EngineWorld, name: str) -> Counter[Row]:
    """The rows of a table as texts, without NULL."""
    return Counter(
        frozenset((key, str(value)) for key, value in row.asDict().items() if value is not None)
        for row in table_rows(world.spark, world.path(name))
    )


@contextmanager
def _stopped() -> Iterator[None]:
    """Let an update end by the fault that is armed."""
    try:
        yield
    except StopError:
        pass
    except GraphErrors as error:  # the fault came while the columns of files were recorded
        if {each.fields.get("cause") for each in error.errors} != {"StopError"}:
            raise
    finally:
        disarm()


def test_each_row_arrives_as_often_as_it_has_to(interpreting: SparkSession, tmp_path: Path) -> None:
    """A file's rows arrive once, once more after a reset that names them, and are all there after a full refresh."""
    seed = int(os.environ.get("SLUICE_SEED", "0")) or fresh_seed()
    print(f"SLUICE_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    random = Random(seed)  # noqa: S311 - the seed makes the history repeatable
    world = EngineWorld(interpreting, tmp_path)
    histories = [
        History(name=f"h{number}", root=tmp_path / "landing", random=Random(random.random()))  # noqa: S311 - as above
        for number in range(HISTORIES)
    ]
    (tmp_path / "landing").mkdir()
    generations = GenerationStore(LocalStorage(str(tmp_path / "storage")))
    for turn in range(ROUNDS):
        for history in histories:
            history.write_files(settled=True)
        change = {history.name: random.choice(("", "", "reset", "refresh")) for history in histories if turn}
        starts = {name: random.choice((0, 10**9, 3 * 10**9)) for name in change if change[name] == "reset"}
        fault = random.choice((None, *FAULTS))
        if fault is not None:
            arm(fault, nth=random.randint(1, 2 * HISTORIES), action=_stop)
        with _stopped():
            world.run(
                declare(interpreting, histories),
                refresh=[history.name for history in histories],
                full_refresh=[name for name in change if change[name] == "refresh"],
                reset_checkpoints={name: f"modifiedAfter={_time(start)}" for name, start in starts.items()},
            )
        for history in histories:
            if random.random() < 0.5:
                history.write_files(settled=False)
        result = world.run(declare(interpreting, histories))
        drawn = (seed, turn, fault, change, starts)
        assert result.state is UpdateState.COMPLETED, (drawn, result)
        for history in histories:
            name = QualifiedName(catalog="main", schema="s", table=history.name)
            current = generations.current(name, name)
            assert current is not None
            try:
                history.settle(current.number, starts.get(history.name), texts_of(world, history.name))
            except AssertionError as error:
                error.add_note(f"{drawn} {history.name} {history.options}")
                raise


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@pytest.fixture(autouse=True)
def _disarmed() -> None:
    """No failpoint of another test is armed."""
    disarm()
