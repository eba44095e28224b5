"""The events of an update, made without an update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.foundation.files.local_storage import LocalStorage
from framework.record import drafts
from framework.record.events import Event, EventError, Origin
from framework.record.log import EventLog
from framework.testing.manual_clock import ManualClock


class Update:
    """Creates the events of an update, as its log does, on a manual clock."""

    def __init__(self, folder: str) -> None:
        self.clock = ManualClock()
        self._log = EventLog(
            LocalStorage(folder), Origin(pipeline_id="p", pipeline_name="shop", update_id="u-1"), self.clock
        )

    def state(self, state: str) -> Event:
        """The update is in a state."""
        return self._log.record(drafts.update_progress(state=state))

    def flow(
        self,
        flow: str,
        status: str,
        dataset: str | None = None,
        message: str | None = None,
        error: EventError | None = None,
        **counts: Any,
    ) -> Event:
        """A flow is in a state, with counts or an error."""
        quality: Mapping[str, Any] | None = None
        if "failed" in counts:
            record = drafts.ExpectationRecord(
                name="e", dataset="main.shop.orders", passed_records=1, failed_records=counts.pop("failed")
            )
            quality = drafts.data_quality(dropped_records=counts.pop("dropped", 0), expectations=[record])
        draft = drafts.flow_progress(
            flow=f"main.shop.{flow}",
            dataset=f"main.shop.{dataset or flow}",
            status=status,
            metrics=counts,
            quality=quality,
            message=message,
            error=error,
        )
        return self._log.record(draft)
