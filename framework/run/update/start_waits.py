"""Events about what the start of a snapshot waits for: transactions that were already open.

A snapshot begins only when all transactions have ended that were open when its table was published. That may take as
long as the wait's timeout, so the events, the flow board and the progress lines name the blocking transactions and the
statement that ends them. The wait itself is in another process, or in a statement of the server. So the database is
polled, but only while a flow of an ingestion runs without having committed anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event as Signal
from threading import Lock, Thread

from framework.declare.specs import IngestedGateway
from framework.foundation.clock import Clock
from framework.foundation.errors import SluiceError
from framework.ingest.waits import held_up, named
from framework.record import drafts
from framework.record.events import Event, EventType
from framework.record.log import EventLog
from framework.run.update.ingestion_reports import SNAPSHOT_OPERATION

POLL_SECONDS = 2.0
"""The poll interval; a start that takes less time is not polled for."""
_MOST_SECONDS = 300.0
"""A flow that has committed nothing for longer waits for something else, such as its next row."""

HeldUp = Callable[[IngestedGateway, bool], tuple[str, ...]]
"""Returns what a gateway waits for, each with its way out; the flag says whether it is certain to wait."""


@contextmanager
def reported_waits(
    gateways: Sequence[IngestedGateway],
    log: EventLog,
    clock: Clock,
) -> Iterator[StartWaits]:
    """Record what the starts of snapshots wait for while the block runs; without a gateway nothing is started.

    Args:
        gateways: the gateways.
        log: the event log of the update.
        clock: measures how long a flow has committed nothing.
    """
    waits = StartWaits(gateways, log, clock, held_up)
    if not gateways:
        yield waits
        return
    log.subscribe(waits.observe)
    stop = Signal()
    thread = Thread(target=waits.run, args=(stop, POLL_SECONDS), name="sluice-start-waits", daemon=True)
    thread.start()
    try:
        yield waits
    finally:
        stop.set()
        thread.join()


class StartWaits:
    """The waits of the flows of an update's ingestions."""

    def __init__(self, gateways: Sequence[IngestedGateway], log: EventLog, clock: Clock, asked: HeldUp) -> None:
        self._gateways: Mapping[str, IngestedGateway] = {each.name: each for each in gateways}
        self._flows = {
            str(flow): (each.name, str(target))
            for each in gateways
            for flow, target in (
                (each.changes, each.changes),
                *((table.snapshot_flow, table.target) for table in each.tables),
            )
        }
        self._log = log
        self._clock = clock
        self._asked = asked
        self._lock = Lock()
        self._beginning: dict[str, float] = {}
        self._running: dict[str, float] = {}
        self._told: dict[str, str] = {}

    @contextmanager
    def beginning(self, gateway: IngestedGateway) -> Iterator[None]:
        """Mark that this process waits for a position of a gateway while the block runs."""
        with self._lock:
            self._beginning[gateway.name] = self._clock.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._beginning.pop(gateway.name, None)

    def observe(self, event: Event) -> None:
        """Track the flows that run and have committed nothing yet; an observer of the log."""
        flow = event.origin.flow_name
        if event.event_type is not EventType.FLOW_PROGRESS or flow not in self._flows:
            return
        details = event.details.get(EventType.FLOW_PROGRESS.value) or {}
        with self._lock:
            if details.get("status") == "RUNNING" and not details.get("metrics"):
                self._running.setdefault(flow, self._clock.monotonic())
            elif details.get("status") != "RUNNING" or "interval_seconds" not in details["metrics"]:
                self._running.pop(flow, None)
                self._told.pop(flow, None)

    def run(self, stop: Signal, poll_seconds: float) -> None:
        """Poll until the signal is set."""
        while not stop.wait(poll_seconds):
            self.poll(poll_seconds)

    def poll(self, least_seconds: float) -> None:
        """Poll the databases of flows that have waited for some seconds, and record new waits."""
        now = self._clock.monotonic()
        with self._lock:
            waiting = {
                flow: self._flows[flow][0]
                for flow, since in self._running.items()
                if least_seconds / 2 <= now - since < _MOST_SECONDS
            }
            certain = {name for name, since in self._beginning.items() if now - since >= least_seconds / 2}
        for name in sorted({*waiting.values(), *certain}):
            gateway = self._gateways[name]
            try:
                found = self._asked(gateway, name in certain)
            except SluiceError:  # if the reason stays, the waiting flow fails with it
                continue
            flows = [flow for flow, owner in waiting.items() if owner == name]
            self._record(flows or [str(gateway.changes)], found)

    def _record(self, flows: Sequence[str], found: Sequence[str]) -> None:
        text = named("older transactions have ended", tuple(found))
        for flow in flows:
            with self._lock:
                is_new = self._told.get(flow, "") != text
                self._told[flow] = text
            if is_new:
                dataset = self._flows[flow][1]
                self._log.record(
                    drafts.waiting_operation(operation=SNAPSHOT_OPERATION, dataset=dataset, flow=flow, text=text)
                )
