"""Rows of a Delta source that are gone: with a table that was created again, or before they were read."""

from __future__ import annotations

from collections.abc import Mapping

from framework.recovery.doctor.amounts import NONE, Amount, unknown
from framework.sources.delta.log import read_commit, read_tip
from framework.sources.delta.source import NextVersion
from framework.sources.port import SourcePosition, SourceReference


def is_replaced(position: SourcePosition, source: SourceReference) -> bool:
    """Whether an offset is one of a table that is gone, and none is one of this table."""
    read = {place.table_id for offset in position.offsets if (place := NextVersion.of(offset)) is not None}
    tips = {each: read_tip(position.storage, str(each.location)) for each in position.sources}
    present = {each: None if tip is None else tip.table_id for each, tip in tips.items()}
    return present[source] not in read and not read <= {*present.values()}


def missed_rows(position: SourcePosition, path: str, files: Mapping[int, str]) -> Amount:
    """Return the rows of files that were added and removed again before a flow has read them."""
    lost = unknown(f"rows that were deleted from {path} before they were read", is_gone=True)
    places = [place for offset in position.offsets if (place := NextVersion.of(offset)) is not None]
    if not places or any(place.version is None for place in places):
        return lost  # it begins with all rows, or is in the middle of them
    first = min(place.version or 0 for place in places)
    unread = {version: file for version, file in files.items() if version >= first}
    if unread and min(unread) > first:
        return lost
    added: set[str] = set()
    for file in unread.values():
        for action in read_commit(position.storage, file):
            if "add" in action:
                added.add(action["add"]["path"])
            elif action.get("remove", {}).get("dataChange") and action["remove"]["path"] in added:
                return lost
    return NONE
