"""The rows that a flow skips if it restarts where its code says: at the latest version, after a time, at new files."""

from __future__ import annotations

from functools import reduce

from framework.checkpoints.generations import GenerationStore
from framework.graph.graph import GraphFlow
from framework.recovery.doctor.amounts import NONE, Amount, unknown
from framework.recovery.doctor.broken_flow import BrokenFlow
from framework.sources.delta.source import NextVersion
from framework.sources.port import SourceReference

_WITH_ALL = frozenset({"delta", "files", "cloud_files", "kafka"})
"""The kinds of sources whose start position is known."""

_VERSION = "startingVersion="


def not_refreshed(case: BrokenFlow) -> Amount:
    """Return the rows of the target that its full refresh can't read again, except rows deleted from the sources."""
    declared = case.graph.flows_into(case.dataset.name)
    names = {flow.spec.name for flow in declared}
    manifests = GenerationStore(case.states.storage).list_all()
    left = (each.flow for each in manifests if each.dataset == case.dataset.name and each.flow not in names)
    found = [left_out(case, flow) for flow in declared]
    found += [unknown(f"the rows of {flow}, which the code no longer declares") for flow in left]
    return reduce(Amount.plus, found, NONE)


def left_out(case: BrokenFlow, flow: GraphFlow, *, is_read: bool = False) -> Amount:
    """Return the rows that a flow skips if it starts where its code says.

    Args:
        case: the case of a flow into the same target.
        flow: the flow.
        is_read: whether to ignore rows before its position, because they are already in the target.
    """
    if not flow.streaming:
        return NONE
    sources = case.states.stream_sources(flow)
    if sources is None:
        return unknown(f"the rows that the sources of {flow.spec.name} leave out")
    place = _version(case) if is_read and len(sources) == 1 else None
    return reduce(Amount.plus, (_of_source(source, place) for source in sources), NONE)


def _of_source(source: SourceReference, place: int | None) -> Amount:
    if source.kind not in _WITH_ALL:
        return unknown(f"only the source knows where it begins ({source.location or source.kind})")
    begins = source.begins
    if not begins:
        return NONE
    number = begins.removeprefix(_VERSION)
    if place is not None and number.isdecimal() and int(number) <= place:
        return NONE
    return unknown(f"what {source.location} has from before `{begins}`, where the code begins")


def _version(case: BrokenFlow) -> int | None:
    """Return the next version that a flow with a single Delta source reads; None for other sources."""
    offsets = () if case.progress is None else case.progress.sources
    place = NextVersion.of(offsets[0]) if len(offsets) == 1 else None
    return None if place is None else place.version
