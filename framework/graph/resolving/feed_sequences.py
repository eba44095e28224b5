"""Warnings about flows that sequence a change data feed by a column that ties deletes and upserts of a commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from framework.cdc.analysis.change_feed import is_sequenced_by_commit, reads_feed
from framework.cdc.analysis.flow_input import CdcInput
from framework.foundation.errors import UserError
from framework.graph.resolved import ResolvedFlow


def sequence_warnings(flows: Iterable[ResolvedFlow | None]) -> Iterator[UserError]:
    """Yield a warning for each flow that applies deletes of a change data feed, but is not sequenced by the commit.

    A full refresh, a RESTORE or an overwrite deletes and inserts the same row in one commit. Both changes have the same
    values in all other columns, so the delete wins.
    """
    for flow in flows:
        spec = None if flow is None else flow.flow.spec
        if flow is None or spec is None or spec.cdc is None or spec.cdc.apply_as_deletes is None:
            continue
        read = CdcInput(name=spec.name, spec=spec.cdc, once=spec.once, location=spec.location, source=flow.frame)
        if flow.versions is None and reads_feed(read) and not is_sequenced_by_commit(read):
            yield read.fault("AUTOCDC_FEED_SEQUENCE", sequence=spec.cdc.sequence_by)
