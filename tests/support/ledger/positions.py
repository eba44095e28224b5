"""Positions in a ledger: the number of a change, with the identity of the ledger."""

from __future__ import annotations

import json

from framework.sources.databases.position import position_of
from framework.sources.databases.source_session import Gap
from tests.support.ledger.database import Ledger
from tests.support.ledger.facts import HELD


def offset_at(ledger: Ledger, number: int) -> str:
    """Return what a checkpoint has at a change."""
    return json.dumps({"order": number, "text": f"change {number}", "source": ledger.identity})


def gap_of(ledger: Ledger, stored: str, name: str) -> Gap | None:
    """Return why the ledger does not go on from a stored position; None if it does."""
    position, before = position_of(stored), json.loads(stored)["source"]
    common = {"reader": name, "position": position}
    if before != ledger.identity:
        fields = {**common, "kind": "identity", "before": before, "now": ledger.identity}
        return Gap(condition="DATABASE_POSITION_LOST.SOURCE", fields=fields)
    held = ledger.one("SELECT reason FROM ledger_holds")
    if held is not None:
        return Gap(condition=HELD, fields={**common, "reason": held})
    if position.order > ledger.end:
        return Gap(condition="DATABASE_POSITION_LOST.LOG_RESET", fields={**common, "end": ledger.end})
    if position.order < ledger.begin:
        return Gap(condition="DATABASE_POSITION_LOST.LOG_REMOVED", fields=common)
    return None
