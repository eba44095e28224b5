"""Time of a page of the event log, from its end to its beginning, and of the index that it needs; no Spark.

`python -m bench events [--events N]`. The log has the events of 40 updates, in files of at most
8 MB, as updates write them.
"""

from __future__ import annotations

import argparse
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from bench.measure import Measure, scratch_folder
from bench.results import render_line, save_measures
from framework.foundation.files.local_storage import LocalStorage
from framework.record.events import Event, EventLevel, EventType, MaturityLevel, Origin
from framework.record.log import EVENTS_FOLDER
from framework.record.pages import EventPages

EVENTS = 100_000
GOAL_SECONDS, COLD_GOAL_SECONDS = 0.1, 10.0
_UPDATES, _START, _STEP, _PART_BYTES, _PAGE = 40, 1_767_225_600.0, 0.25, 8_000_000, 200


def measure(events: int = EVENTS) -> list[Measure]:
    """The pages of a walk through the log, the first page without an index, and a page behind new events."""
    with scratch_folder() as folder:
        storage = LocalStorage(str(folder / "storage"))
        size = _write_log(storage, events)
        pages = EventPages(storage, folder / "cache")
        cold = _seconds(lambda: pages.page(limit=_PAGE))
        walk = _walk(pages, events)
        errors = [_seconds(lambda: pages.page(limit=_PAGE, level=EventLevel.ERROR, dataset="t3")) for _ in range(9)]
        grown = []
        for number in range(20):
            _append(storage, number)
            grown.append(_seconds(lambda: pages.page(limit=_PAGE)))
        index = sum(path.stat().st_size for path in (folder / "cache").rglob("*.sqlite"))
    log = f"{events:,} events, {size / 1e6:.0f} MB"
    whole = f"{len(walk)} pages of {_PAGE}; median {_milliseconds(median(walk))}, longest {_milliseconds(max(walk))}"
    found = (
        ("99 of 100 pages of a walk backwards", quantiles(walk, n=100)[-1], GOAL_SECONDS, f"{whole}; {log}"),
        ("page of errors of one dataset", median(errors), GOAL_SECONDS, f"median of {len(errors)}; {log}"),
        ("page behind 100 new events", median(grown), GOAL_SECONDS, f"median of {len(grown)}; {log}"),
        ("first page, which makes the index", cold, COLD_GOAL_SECONDS, f"{log}; index of {index / 1e6:.0f} MB"),
    )
    return [
        Measure(benchmark="events", what=what, value=value, unit="s", goal=goal, detail=detail)
        for what, value, goal, detail in found
    ]


def main(arguments: list[str]) -> int:
    """Run the benchmark and keep its figures; returns 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench events", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="events of the log; a smaller number is not kept")
    chosen = parser.parse_args(arguments)
    measures = measure(chosen.events)
    for each in measures:
        print(render_line(each))
    if chosen.events == EVENTS:
        save_measures(measures)
    return 0 if all(each.met for each in measures) else 1


def _walk(pages: EventPages, events: int) -> list[float]:
    seconds, before, count = [], None, 0
    while True:
        begun = time.perf_counter()
        page = pages.page(before, limit=_PAGE)
        seconds.append(time.perf_counter() - begun)
        before, count = page.before, count + len(page.events)
        if before is None:
            assert count == events
            return seconds


def _write_log(storage: LocalStorage, events: int) -> int:
    """Write the log and return its size."""
    size, at = 0, _START
    for update in range(_UPDATES):
        name, part, lines, written = str(uuid.UUID(int=update)), 0, list[str](), 0
        for number in range(events // _UPDATES):
            at += _STEP
            lines.append(_event(name, number, at).to_line())
            written += len(lines[-1])
            if written >= _PART_BYTES:
                size += _write(storage, f"{name}-{part:05d}" if part else name, lines, at)
                part, lines, written = part + 1, [], 0
        if lines:
            size += _write(storage, f"{name}-{part:05d}" if part else name, lines, at)
    return size


def _write(storage: LocalStorage, name: str, lines: list[str], at: float) -> int:
    path = Path(storage.path(EVENTS_FOLDER, f"{name}.jsonl"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), "utf-8")
    os.utime(path, (at, at + 0.5))
    return path.stat().st_size


def _append(storage: LocalStorage, number: int) -> None:
    name = str(uuid.UUID(int=_UPDATES))
    lines = "".join(_event(name, number * 100 + each, time.time()).to_line() for each in range(100))
    storage.append_text(storage.path(EVENTS_FOLDER, f"{name}.jsonl"), lines)


def _event(update: str, number: int, at: float) -> Event:
    """An event of a flow's batch, as most are in a long log."""
    name = f"main.shop.t{number % 50}"
    moment = time.gmtime(at)
    return Event(
        id=str(uuid.uuid4()),
        sequence=number + 1,
        origin=Origin(
            pipeline_id="shop@/data/shop", pipeline_name="shop", update_id=update, dataset_name=name, flow_name=name,
            host="host:1",
        ),
        timestamp=f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(at % 1 * 1000):03d}Z",
        message=f"Flow {name} is RUNNING.",
        level=EventLevel.ERROR if number % 1000 == 3 else EventLevel.METRICS,
        maturity_level=MaturityLevel.STABLE,
        error=None,
        details={"flow_progress": {"status": "RUNNING", "metrics": {"num_output_rows": number, "backlog_bytes": 17}}},
        event_type=EventType.FLOW_PROGRESS,
    )  # fmt: skip


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
