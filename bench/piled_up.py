"""(s) What thousands of micro-batches leave behind: files, logs, checkpoints, memory, and the time of a batch.

An append flow and an AUTO CDC flow read one small file in each batch, as fast as they can. A sample every few hundred
batches shows what grows.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from bench.measure import Measure, scratch_folder
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_GOAL, LIVE_GOAL, CHECKPOINT_GOAL, MEMORY_GOAL = 1.3, 100, 1_000, 1.3
_BATCHES, _EVENTS, _KEYS, _SAMPLES = 5_000, 20, 5_000, 10
_WARM_UP_BATCHES = 100
_CLEANING_SECONDS = 3
_TABLES = ("appended", "latest")
_KINDS = ("an append flow", "AUTO CDC")
_TICKS = os.sysconf("SC_CLK_TCK")
_MODULE = """
from framework import pipelines as dp

SCHEMA = "number BIGINT, id BIGINT, name STRING"


def files():
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(spark.conf.get("bench.data"))


@dp.table
def appended():
    return files()


@dp.temporary_view
def changes():
    return files()


dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(target="latest", source="changes", keys=["id"], sequence_by="number")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of both processes in megabytes; the heap right after a full collection."""

    heap_megabytes: float
    java_megabytes: float
    python_megabytes: float


class Processes:
    """This process, the JVM of its session, and the Python processes that the JVM starts.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._java = spark._jvm.java.lang  # type: ignore[union-attr]  # a started session has a JVM
        self._pids = (os.getpid(), int(self._java.ProcessHandle.current().pid()))
        self._python_seconds: dict[int, float] = {}

    def cpu_seconds_by_process(self) -> tuple[float, float]:
        """Return the CPU seconds of Python and of Java so far; a process that ended counts as at the last call."""
        self._python_seconds |= {pid: _cpu_seconds(pid) for pid in (self._pids[0], *self._below_java())}
        return sum(self._python_seconds.values()), _cpu_seconds(self._pids[1])

    def python_megabytes(self) -> float:
        """Return the memory of all Python processes; what they share counts once."""
        return sum(map(_own_megabytes, [self._pids[0], *self._below_java()]))

    def _below_java(self) -> list[int]:
        """The processes that the JVM started, and those below them."""
        parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
        found, added = [], [self._pids[1]]
        while added:
            added = [pid for pid, parent in parents.items() if parent in added]
            found += added
        return found

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of both so far."""
        return sum(self.cpu_seconds_by_process())

    def sample(self) -> Memory:
        """Collect garbage, and return the memory in use.

        Spark removes the blocks of broadcasts and checkpoints a little after a collection has found them unused.
        """
        self._java.System.gc()
        time.sleep(_CLEANING_SECONDS)
        self._java.System.gc()
        runtime = self._java.Runtime.getRuntime()
        python, java = (_resident_megabytes(pid) for pid in self._pids)
        heap = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
        return Memory(heap_megabytes=heap, java_megabytes=java, python_megabytes=python)


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text("ascii").rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _own_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _resident_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Pile:
    """What a storage holds after some batches.

    Args:
        batches: the committed batches of each flow.
        live_files: the files of the newest version of each table.
        data_files: the data files on disk.
        log_files: the files of each table's log.
        log_bytes: their size.
        checkpoint_files: the files of each stream's checkpoint.
        checkpoint_bytes: their size.
        event_files: the files of the event log.
        event_bytes: their size.
    """

    batches: tuple[int, ...]
    live_files: tuple[int, ...]
    data_files: tuple[int, ...]
    log_files: tuple[int, ...]
    log_bytes: tuple[int, ...]
    checkpoint_files: tuple[int, ...]
    checkpoint_bytes: tuple[int, ...]
    event_files: int
    event_bytes: int
    memory: Memory

    @classmethod
    def of(cls, storage: Path, memory: Memory) -> Pile:
        """Return what a storage holds now."""
        tables = [storage / "tables" / "main" / "default" / name for name in _TABLES]
        checkpoints = [_checkpoint(storage, name) for name in _TABLES]
        logs, kept = ([_sizes(path) for path in paths] for paths in ([t / "_delta_log" for t in tables], checkpoints))
        events = _sizes(storage / "events")
        return cls(
            batches=tuple(_last_number(path / "commits") + 1 for path in checkpoints),
            live_files=tuple(_live_files(table) for table in tables),
            data_files=tuple(sum(1 for _ in table.glob("**/*.parquet")) for table in tables),
            log_files=tuple(map(len, logs)), log_bytes=tuple(map(sum, logs)),
            checkpoint_files=tuple(map(len, kept)), checkpoint_bytes=tuple(map(sum, kept)),
            event_files=len(events), event_bytes=sum(events), memory=memory,
        )  # fmt: skip


def _checkpoint(storage: Path, table: str) -> Path:
    found = sorted((storage / "checkpoints").glob(f"*{table}/*/1"))
    return found[0] if found else storage / "checkpoints" / table


def _sizes(folder: Path) -> list[int]:
    found = []
    for file in folder.glob("**/*"):
        try:
            found.append(file.stat().st_size)
        except FileNotFoundError:  # deleted since it was listed
            continue
    return found


def _last_number(folder: Path) -> int:
    return max((int(file.name) for file in folder.glob("*") if file.name.isdecimal()), default=-1)


def _live_files(table: Path) -> int:
    """Return the number of files by the newest checksum of the table's log; 0 without one."""
    checksums = sorted((table / "_delta_log").glob("*[0-9].crc"))
    return int(json.loads(checksums[-1].read_text("utf-8"))["numFiles"]) if checksums else 0


def measure_pile(minutes: float, batches: int = _BATCHES) -> list[Measure]:
    """(s) Run micro-batches for some minutes, at most so many of each flow."""
    with scratch_folder() as folder:
        _write_files(folder / "data", batches)
        spark = start_session(app_name="bench", master="local[2]", spark_conf={})
        try:
            piles = _run(spark, folder, batches, minutes)
        finally:
            stop_session(spark)
        growth = [_growth(folder / "storage" / "tables" / "main" / "default" / name) for name in _TABLES]
    for pile in piles:
        print(asdict(pile))
    first, last = piles[min(1, len(piles) - 1)], piles[-1]
    found = [
        Measure(
            benchmark="s", what=f"time of a micro-batch of {kind}, last tenth / first tenth", unit="x",
            goal=BATCH_GOAL, value=late / early,
            detail=f"{late * 1000:.0f} ms / {early * 1000:.0f} ms, {count:,} batches",
        )
        for kind, (early, late), count in zip(_KINDS, growth, last.batches, strict=True)
    ]  # fmt: skip
    found += [
        Measure(
            benchmark="s", what=f"live files of the target of {kind}", unit="", goal=LIVE_GOAL, value=live,
            detail=f"{data:,} data files on disk, {log:,} files in the log ({log_bytes / 2**20:.0f} MB)",
        )
        for kind, live, data, log, log_bytes in zip(
            _KINDS, last.live_files, last.data_files, last.log_files, last.log_bytes, strict=True
        )
    ]  # fmt: skip
    return [
        *found,
        Measure(
            benchmark="s", what="files in a stream's checkpoint", unit="", goal=CHECKPOINT_GOAL,
            value=max(last.checkpoint_files), detail=f"{max(last.checkpoint_bytes) / 2**20:.1f} MB",
        ),
        Measure(
            benchmark="s", what="Java heap after GC, end / after the first tenth", unit="x", goal=MEMORY_GOAL,
            value=last.memory.heap_megabytes / first.memory.heap_megabytes,
            detail=f"{first.memory.heap_megabytes:.0f} MB, {last.memory.heap_megabytes:.0f} MB; event log "
            f"{last.event_files} files, {last.event_bytes / 2**20:.1f} MB",
        ),
        Measure(
            benchmark="s", what="resident memory of Python, end / after the first tenth", unit="x", goal=MEMORY_GOAL,
            value=last.memory.python_megabytes / first.memory.python_megabytes,
            detail=f"{first.memory.python_megabytes:.0f} MB, {last.memory.python_megabytes:.0f} MB",
        ),
    ]  # fmt: skip


def _run(spark: SparkSession, folder: Path, batches: int, minutes: float) -> list[Pile]:
    """Run the update, and sample it ten times; it ends when all files are read or the time is over."""
    (folder / "module.py").write_text(_MODULE, encoding="utf-8")
    storage, processes = folder / "storage", Processes(spark)
    pipeline = Pipeline(
        name="pile", modules=[str(folder / "module.py")], storage=storage, spark=spark,
        configuration={"bench.data": str(folder / "data")},
    )  # fmt: skip
    running = pipeline.start()
    begin, piles = time.monotonic(), list[Pile]()
    try:
        while time.monotonic() - begin < minutes * 60:
            due = begin + minutes * 60 * (len(piles) + 1) / _SAMPLES
            done = [_last_number(_checkpoint(storage, name) / "commits") + 1 for name in _TABLES]
            if min(done) >= batches:
                break
            if time.monotonic() >= due:
                piles.append(Pile.of(storage, processes.sample()))
            time.sleep(1)
        piles.append(Pile.of(storage, processes.sample()))
    finally:
        asked = time.monotonic()
        running.stop()
        print(f"stopped in {time.monotonic() - asked:.1f} s")
    return piles


def _write_files(folder: Path, count: int) -> None:
    folder.mkdir()
    begin = time.time() - count
    for file in range(count):
        numbers = range(file * _EVENTS, (file + 1) * _EVENTS)
        rows = ({"number": n, "id": n * 7919 % _KEYS, "name": f"name {n}"} for n in numbers)
        path = folder / f"{file:06d}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        os.utime(path, (begin + file, begin + file))  # the source reads them in this order


def _growth(table: Path) -> tuple[float, float]:
    """Return the mean seconds between two commits, of the first and of the last tenth, after the warm-up."""
    commits = sorted((table / "_delta_log").glob("*[0-9].json"))
    times = [file.stat().st_mtime for file in commits]
    times = times[min(_WARM_UP_BATCHES, len(times) // 4) :]
    spans = [after - before for before, after in pairwise(times)]
    tenth = max(len(spans) // 10, 1)
    return mean(spans[:tenth]), mean(spans[-tenth:])
