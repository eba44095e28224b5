"""The report of a pipeline as values and tables: graph, last updates, expectations, lag, and findings of the doctor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from framework.foundation.names import ShortNames
from framework.foundation.wording import counted, rows_text, seconds_text
from framework.graph.graph import DataflowGraph
from framework.recovery.doctor.finding import Examination
from framework.recovery.flow_lag import FlowLag
from framework.views.flow_board import TONES as FLOW_TONES
from framework.views.flow_board import FlowBoard, FlowProgress, qualified
from framework.views.reports.update_record import ENDED, QualityCount, RequestRecord, UpdateRecord, requests_of
from framework.views.table import Cell, Column, Table, Tone

MARKS: Mapping[str, str] = {
    "COMPLETED": "✓",
    "FAILED": "✕",
    "CANCELED": "■",
    "STOPPED": "■",
    "LOST": "?",
    "DEGRADED": "!",
    "SKIPPED": "\N{EN DASH}",
    "IDLE": "○",
    "EXCLUDED": "·",
    "RUNNING": "●",
    "STARTING": "●",
    "QUEUED": "◌",
}
"""A shape for each state, so that no state is told by its colour alone."""

TONES: Mapping[str, Tone] = {**FLOW_TONES, "LOST": Tone.BAD, "CANCELED": Tone.WARNING}
"""The tone of each state of an update or a flow; other states have none."""

_BARS = "▁▂▃▄▅▆▇█"
_MOST_REQUESTS = 20
_LONGEST_ERROR = 300
_WORDS = {"COMPLETED": "completed", "IDLE": "idle", "FAILED": "failed", "SKIPPED": "skipped",
          "STOPPED": "stopped", "DEGRADED": "to be retried"}  # fmt: skip
_REQUESTS = (
    Column(name="started (UTC)", wraps=False),
    Column(name="outcome", wraps=False),
    Column(name="took", right=True, wraps=False),
    Column(name="attempts", right=True),
    Column(name="flows"),
    Column(name="rows", right=True),
    Column(name="cause", wraps=False),
    Column(name="by", wraps=False),
    Column(name="error"),
)
_QUALITY = (
    Column(name="dataset", wraps=False),
    Column(name="expectation"),
    Column(name="passed", right=True),
    Column(name="failed", right=True),
    Column(name="failed share", right=True),
    Column(name="over time", wraps=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known about a pipeline at one moment; it has no rows of tables.

    Args:
        made_at: the time, in UTC.
        graph: its graph; None if it can't be resolved, and none is stored.
        updates: its last updates, oldest first.
        lag: the lag of its flows; None if it was not measured.
        examination: what the doctor found; None if it did not examine.
        faults: why a part is missing or out of date, as texts.
    """

    pipeline: str
    made_at: datetime
    graph: DataflowGraph | None = None
    updates: tuple[UpdateRecord, ...] = ()
    lag: tuple[FlowLag, ...] | None = None
    examination: Examination | None = None
    faults: tuple[str, ...] = ()

    @property
    def running(self) -> UpdateRecord | None:
        """The update that runs now; None if there is none."""
        return next((each for each in reversed(self.updates) if each.state not in ENDED), None)

    @property
    def last(self) -> UpdateRecord | None:
        """The last update that has ended; None before it."""
        return next((each for each in reversed(self.updates) if each.state in ENDED), None)

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """The requests of the updates, newest first."""
        return tuple(reversed(requests_of(self.updates)))

    def board(self) -> FlowBoard:
        """Return the newest known progress of each flow: of the last update that did not leave it out."""
        flows: dict[str, FlowProgress] = {}
        for update in self.updates:
            for flow in update.board.flows:
                if flow.state != "EXCLUDED" or flow.flow not in flows:
                    flows[flow.flow] = flow
        last = self.updates[-1] if self.updates else None
        if last is None:
            return FlowBoard()
        return FlowBoard(update_id=last.update_id, state=last.state, flows=tuple(flows.values()))

    def requests_table(self) -> Table:
        """Return one row for each of the last requests, newest first."""
        rows = [_request_row(each) for each in self.requests[:_MOST_REQUESTS]]
        return Table.of(_REQUESTS, rows).without_empty_columns()

    def quality_table(self) -> Table:
        """Return one row for each expectation: its counts in the last update that has some, and its share over time."""
        series: dict[tuple[str, str], list[QualityCount]] = {}
        for update in self.updates:
            for count in update.quality:
                series.setdefault((count.dataset, count.name), []).append(count)
        short = ShortNames.of(name for dataset, _ in series if (name := qualified(dataset)) is not None)
        return Table.of(_QUALITY, [_quality_row(counts, short) for counts in series.values()])

    def sentence(self) -> str:
        """Return what the pipeline does now and how its last update ended, in one line."""
        now = "idle" if self.running is None else f"running since {minute_text(self.running.created_at)}"
        if self.last is None:
            return f"{now} · no update has ended yet"
        took = "" if self.last.seconds is None else f" in {seconds_text(self.last.seconds)}"
        ended = minute_text(self.last.ended_at or self.last.created_at)
        return f"{now} · last update {self.last.state}{took}, {ended} UTC"


def state_cell(state: str, *, more: str = "") -> Cell:
    """Return a cell with the shape and the word of a state."""
    return Cell(text=f"{MARKS.get(state, '●')} {state}{more}", tone=TONES.get(state))


def minute_text(timestamp: str) -> str:
    """Return a time of the event log to the minute, in UTC.

    Examples:
        >>> minute_text("2026-01-31T09:30:00.123Z")
        '2026-01-31 09:30'
    """
    return f"{datetime.fromisoformat(timestamp).astimezone(UTC):%Y-%m-%d %H:%M}"


def bars(values: Sequence[float]) -> str:
    """Return shares from 0 to 1 as a line of bars; any share above 0 is higher than the lowest bar.

    Examples:
        >>> bars([0, 0.01, 0.5, 1])
        '▁▂▅█'
    """
    steps = len(_BARS) - 1
    return "".join(_BARS[0 if value <= 0 else max(1, round(min(value, 1.0) * steps))] for value in values)


def _request_row(request: RequestRecord) -> tuple[Cell | str, ...]:
    update, attempts = request.last, len(request.attempts)
    return (
        minute_text(request.created_at),
        state_cell(update.state),
        seconds_text(request.seconds),
        str(attempts) if attempts > 1 else "",
        flows_text(update.board.flows),
        _written(update.board.flows),
        update.cause,
        update.user or "",
        Cell(text=_shortened(update.error), tone=Tone.BAD if update.state in {"FAILED", "LOST"} else Tone.QUIET),
    )


def flows_text(flows: Sequence[FlowProgress]) -> str:
    """Return how many flows are in each state, without those that the update left out."""
    counts = Counter(flow.state for flow in flows)
    words = [f"{counts.pop(state)} {word}" for state, word in _WORDS.items() if counts.get(state)]
    counts.pop("EXCLUDED", None)
    return ", ".join([*words, *(f"{number} {state.lower()}" for state, number in counts.items())])


def _written(flows: Sequence[FlowProgress]) -> str:
    known = [flow.written for flow in flows if flow.written is not None]
    upserted, deleted = sum(flow.upserted for flow in flows), sum(flow.deleted for flow in flows)
    return rows_text(sum(known) + upserted + deleted, 0, 0) if known or upserted or deleted else ""


def _quality_row(counts: Sequence[QualityCount], short: ShortNames) -> tuple[Cell | str, ...]:
    last, shares = counts[-1], [each.failed / max(each.passed + each.failed, 1) for each in counts]
    name = qualified(last.dataset)
    return (
        last.dataset if name is None else short(name),
        last.name,
        f"{last.passed:,}",
        Cell(text=f"{last.failed:,}", tone=Tone.WARNING if last.failed else None),
        _percent(shares[-1]),
        Cell(text=bars(shares), tone=Tone.QUIET),
    )


def _percent(share: float) -> str:
    """Return a share as a percentage that is 0 only for none, and 100 only for all."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    return f"{min(round(share * 100, 2), 99.99) if share < 1 else 100:g} %"


def _shortened(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}…"


def attention_text(report: Report) -> str:
    """Return what needs somebody, in one line; empty if nothing does."""
    words = []
    found = report.examination
    if found is not None and found.findings:
        words.append(counted(len(found.findings), "finding"))
    if report.last is not None and report.last.state in {"FAILED", "LOST"}:
        words.append(f"the last update is {report.last.state}")
    waiting = sum(each.rows for each in found.quarantined) if found is not None else 0
    if waiting:
        words.append(f"{counted(waiting, 'row')} in quarantine")
    return " · ".join(words)
