"""The outcome of one run of a flow, and the sources of its metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.cdc.model.metrics import CdcMetrics
from framework.engine.streams.queries import metrics_observed
from framework.foundation.files.storage import Storage
from framework.foundation.files.storage_port import lines_of
from framework.run.flows.quality_counts import NOTHING_COUNTED, QualityCounts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Observed = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOutcome:
    """Row counts and data quality of one run; `written` is None if the target does not report it."""

    written: int | None = None
    upserted: int = 0
    deleted: int = 0
    late: int = 0
    quarantined: int = 0
    quality: QualityCounts = NOTHING_COUNTED

    @classmethod
    def of_cdc(cls, metrics: CdcMetrics) -> FlowOutcome:
        """Return the outcome of one AUTO CDC batch."""
        return cls(written=metrics.upserted, upserted=metrics.upserted, deleted=metrics.deleted, late=metrics.late)

    def plus(self, other: FlowOutcome) -> FlowOutcome:
        """Return the sum of both outcomes."""
        written = None if self.written is None and other.written is None else (self.written or 0) + (other.written or 0)
        return FlowOutcome(
            written=written,
            upserted=self.upserted + other.upserted,
            deleted=self.deleted + other.deleted,
            late=self.late + other.late,
            quarantined=self.quarantined + other.quarantined,
            quality=self.quality.plus(other.quality),
        )


@contextmanager
def observing(session: SparkSession) -> Iterator[Observed]:
    """Collect the observed metrics of the queries of `session`; complete after the block.

    Args:
        session: a session used by one flow only, so that it has no metrics of other flows.

    Yields:
        name of the observation -> metric -> value; a repeated query counts only once.
    """
    found: Observed = {}
    with metrics_observed(session, found.setdefault):
        yield found


class CommittedRows:
    """Counts the output rows of a table's commits as they appear, optionally of a single query.

    The counts are read from the Delta log: Spark's progress does not report the rows of a Delta sink, and counting them
    in the query would cost a pass. A query that runs for weeks has more commits than can be read at its end, so each
    call reads only the commits since the last call.

    Args:
        storage: reads the log.
        path: the folder of the table.
        after: the version after which commits count; None for all.
    """

    def __init__(self, storage: Storage, path: str, *, after: int | None) -> None:
        self._storage = storage
        self._path = path
        self._next = 0 if after is None else after + 1

    def take(self, query_id: str | None = None, *, application: str | None = None) -> int:
        """Return the rows of the commits since the last call.

        Args:
            query_id: count only commits of this streaming query.
            application: count only commits with a transaction identifier of this application, because others commit
                meanwhile.
        """
        total = 0
        while (text := self._storage.read_text(f"{self._path}/_delta_log/{self._next:020d}.json")) is not None:
            self._next += 1
            if application is not None and not _is_of(text, application):
                continue
            for info in _commit_infos(text):
                if query_id in (None, info.get("operationParameters", {}).get("queryId")):
                    total += int(info.get("operationMetrics", {}).get("numOutputRows", 0))
        return total


def _is_of(commit: str, application: str) -> bool:
    """Whether a commit has a transaction identifier of this application."""
    found = (json.loads(line)["txn"] for line in lines_of(commit) if line.startswith('{"txn"'))
    return any(each["appId"] == application for each in found)


def _commit_infos(commit: str) -> Iterator[dict[str, Any]]:
    for line in lines_of(commit):
        if line.startswith('{"commitInfo"'):
            yield json.loads(line)["commitInfo"]
