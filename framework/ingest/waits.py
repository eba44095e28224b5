"""Transactions, locks and readers at the source that a gateway waits for, each with the statement that ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.ingest.connections import gateway_log, open_gateway, table_names

if TYPE_CHECKING:
    from framework.declare.specs import IngestedGateway
    from framework.sources.databases.source_session import SourceSession

MOST_NAMED = 3


def held_up(gateway: IngestedGateway, is_certain: bool) -> tuple[str, ...]:  # noqa: FBT001 - the type of a port
    """Return the transactions that delay the start of a snapshot, each with the statement that ends it.

    Args:
        gateway: the gateway.
        is_certain: whether this process is waiting now; else the database is asked whether any process waits.

    Raises:
        SluiceError: the database gives no answer.
    """
    with open_gateway(gateway) as source:
        return _transactions(source, gateway, is_certain=is_certain)


def waits_of(source: SourceSession, gateway: IngestedGateway, *, is_refused: bool) -> tuple[str, ...]:
    """Return everything that a gateway or its next update waits for, as sentences with the way out.

    Args:
        source: a session on its database.
        gateway: the gateway.
        is_refused: whether the last update found the log in use. If not, the reader may be an update of the pipeline.

    Raises:
        SourceError: the database gives no answer.
    """
    begun = _transactions(source, gateway, is_certain=source.is_waiting())
    started = named("older transactions have ended", begun)
    locks = source.table_locks(table_names(gateway))
    held = tuple(f"{lock}; to end it: {lock.way_out}" for lock in locks)
    reader = source.log_holder(gateway_log(gateway)) if is_refused else None
    in_use = () if reader is None else (f"{reader}; to end it: {reader.way_out}",)
    return tuple(filter(None, (started, named("tables are unlocked", held), named("the log is free", in_use))))


def named(what: str, found: tuple[str, ...]) -> str:
    """Return a sentence that names what is waited for; empty for nothing."""
    rest = len(found) - MOST_NAMED
    texts = [*found[:MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])]
    return f"Waits until {what}: {'. '.join(texts)}" if texts else ""


def _transactions(source: SourceSession, gateway: IngestedGateway, *, is_certain: bool) -> tuple[str, ...]:
    waits = source.starting_waits(gateway_log(gateway), is_certain=is_certain)
    return tuple(f"{each}; to end it: {each.way_out}" for each in waits)
