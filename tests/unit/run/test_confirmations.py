"""Flows that end at the same time confirm the snapshot of a table one after the other."""

from __future__ import annotations

from threading import Event, Thread

from framework.foundation.names import QualifiedName
from framework.run.flows.confirmations import Turns

_ORDERS, _ITEMS = (QualifiedName(catalog="main", schema="copies", table=name) for name in ("orders", "items"))


def test_one_flow_at_a_time_confirms_a_snapshot() -> None:
    """Other flows pass it over, the flow of the table waits; other tables are confirmed meanwhile."""
    turns, waits, order = Turns(), Event(), list[str]()

    def own() -> None:
        waits.set()
        with turns.of(_ORDERS, waits=True) as is_turn:
            order.append(f"own {is_turn}")

    with turns.of(_ORDERS, waits=True):
        waiting = Thread(target=own)
        waiting.start()
        assert waits.wait(60)
        for target in (_ORDERS, _ITEMS):
            with turns.of(target, waits=False) as is_turn:
                order.append(f"{target.table} {is_turn}")
    waiting.join(60)
    with turns.of(_ORDERS, waits=False) as is_turn:
        order.append(f"later {is_turn}")
    assert order == ["orders False", "items True", "own True", "later True"]
