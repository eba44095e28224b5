"""The comparison of two storages: one of a sandbox, one of an update on real inputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.cdc.model.reserved_names import AUXILIARY_PREFIX
from framework.engine.files.storage import open_storage
from framework.record.events import Event
from framework.record.reader import read_events
from framework.run.update.results import UpdateResult
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMES = re.compile(r"\d+(?:\.\d+)? (?:s|seconds|ms)\b|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|[0-9a-f]{8}-[0-9a-f-]{27}")


def tables_of(spark: SparkSession, storage: str) -> dict[str, list[str]]:
    """Return the rows of each table in a storage by its place, hidden columns included; no tables of AUTO CDC's own."""
    root = Path(storage) / "tables"
    return {
        str(log.parent.relative_to(root)): sorted(repr(row) for row in table_rows(spark, str(log.parent)))
        for log in sorted(root.rglob("_delta_log"))
        if not log.parent.name.startswith(AUXILIARY_PREFIX)
    }


def counts_of(result: UpdateResult) -> dict[str, Any]:
    """Return the state, the rows and the counts of expectations of each flow."""
    return {
        str(flow.flow): (
            flow.state, flow.rows_written, flow.rows_upserted, flow.rows_deleted, flow.rows_dropped,
            sorted(flow.expectations, key=repr),
        )
        for flow in result.flows
    }  # fmt: skip


def events_of(storage: str) -> frozenset[tuple[str, ...]]:
    """Return the events of all updates without what differs in each of them: times, identities, folders, and number."""
    return frozenset(_known(event, storage) for event in read_events(open_storage(storage, None)))


def _known(event: Event, storage: str) -> tuple[str, ...]:
    message = _TIMES.sub("…", event.message.replace(storage, "…"))
    return (event.event_type, event.level, str(event.origin.dataset_name), str(event.origin.flow_name), message)
