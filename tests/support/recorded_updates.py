"""Updates in an event log, written by the code of the record, for tests of what reads them without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.foundation.clock import Clock
from framework.foundation.files.local_storage import LocalStorage
from framework.record import drafts
from framework.record.events import Event, EventError, ExceptionSummary, Origin
from framework.record.log import EventLog
from framework.testing.manual_clock import ManualClock


@dataclass(frozen=True, kw_only=True)
class RecordedFlow:
    """A flow of an update: its final state, with the metrics and the expectations of its whole run.

    Args:
        quality: passed and failed records by expectation.
    """

    name: str
    state: str = "COMPLETED"
    target: str | None = None
    seconds: float = 2.0
    metrics: Mapping[str, int] = field(default_factory=dict)
    quality: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    error: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Recorder:
    """Writes updates of `shop` into a storage.

    Args:
        clock: the time, which passes while updates run.
    """

    storage: LocalStorage
    clock: Clock = field(default_factory=ManualClock)
    pipeline: str = "shop"
    events: list[Event] = field(default_factory=list)

    def update(
        self,
        update_id: str,
        *flows: RecordedFlow,
        state: str | None = "COMPLETED",
        error: str = "",
        **created: Any,
    ) -> None:
        """Write the events of one update; without a state it never ends."""
        origin = Origin.of(self.pipeline, self.storage.root, update_id)
        with EventLog(self.storage, origin, self.clock) as log:
            log.subscribe(self.events.append)
            log.record(drafts.create_update(**{"cause": "USER_ACTION", **created}))
            log.record(drafts.update_progress(state="RUNNING"))
            for flow in flows:
                self._flow(log, flow)
            if state is not None:
                log.record(drafts.update_progress(state=state, error=error_of(error) if error else None))

    def _flow(self, log: EventLog, flow: RecordedFlow) -> None:
        names: dict[str, Any] = {"flow": f"main.shop.{flow.name}", "dataset": f"main.shop.{flow.target or flow.name}"}
        log.record(drafts.flow_progress(**names, status="RUNNING"))
        self.clock.sleep(flow.seconds)
        records = [
            drafts.ExpectationRecord(name=name, dataset=names["dataset"], passed_records=passed, failed_records=failed)
            for name, (passed, failed) in flow.quality.items()
        ]
        log.record(
            drafts.flow_progress(
                **names, status=flow.state, metrics=flow.metrics,
                quality=drafts.data_quality(dropped_records=0, expectations=records) if records else None,
                error=error_of(flow.error) if flow.error else None,
                message=f"Flow {names['flow']} is {flow.state}: {flow.reason}." if flow.reason else None,
            )
        )  # fmt: skip


def error_of(message: str) -> EventError:
    """A fatal error with a message."""
    return EventError(fatal=True, exceptions=(ExceptionSummary(class_name="OperationError", message=message),))
