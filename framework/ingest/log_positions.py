"""Operations of a gateway on the log of its source before any flow runs: read positions, and publish tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import SourceError
from framework.ingest.connections import gateway_log, open_gateway, source_name, table_names

if TYPE_CHECKING:
    from framework.sources.databases.position import Position
    from framework.sources.databases.source_session import SourceSession

Waiting = Callable[[IngestedGateway], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPositions:
    """The log of one gateway.

    Args:
        gateway: the gateway.
        waiting: a context that is entered while the gateway waits for a position.
    """

    gateway: IngestedGateway
    waiting: Waiting

    def settled(self, after: str | None) -> Position:
        """Return the position at which a snapshot begins now.

        Args:
            after: the stored offset of the changes; None before the first.

        Raises:
            SluiceError: the database gives none.
        """
        gateway = self.gateway
        with open_gateway(gateway) as source, self.waiting(gateway):
            return source.settled_position(gateway_log(gateway), after)

    def begin_again(self, reader: str) -> dict[str, IngestedTable]:
        """Drop the position and create a new one; return the tables that can be copied, by key, as the log has them.

        Args:
            reader: the storage, see `ensure_position`.

        Raises:
            SluiceError: the database does not allow it now.
        """
        gateway, log = self.gateway, gateway_log(self.gateway)
        with open_gateway(gateway, read_only=False) as source, self.waiting(gateway):
            source.drop_position(log, reader=reader)
            source.ensure_position(log, table_names(gateway), reader=reader)
            return self._logged(source, [each for each in gateway.tables if each.identity])

    def publish(self, table: IngestedTable, reader: str) -> IngestedTable:
        """Add a table to the log; return it as the log then has it, or unchanged while there is no log.

        Args:
            table: the table.
            reader: the storage, see `ensure_position`.

        Raises:
            SluiceError: the database does not allow it now.
        """
        gateway, log = self.gateway, gateway_log(self.gateway)
        with open_gateway(gateway, read_only=False) as source:
            if not source.logged_tables(log).has_log:
                return table
            with self.waiting(gateway):
                source.ensure_position(log, (source_name(table),), reader=reader)
            return self._logged(source, [table])[table.key]

    def _logged(self, source: SourceSession, tables: Sequence[IngestedTable]) -> dict[str, IngestedTable]:
        """Return tables, by key, with the facts that the log shows about them now.

        A table that was replaced meanwhile, or can't be read, has no such facts: its snapshot refuses it.
        """
        logged = source.logged_tables(gateway_log(self.gateway))
        found = source.read_tables([*{source_name(each): None for each in tables}])
        known = {}
        for each in tables:
            table, continuity = found[source_name(each)], ""
            if not isinstance(table, SourceError) and table.identity == each.identity:
                continuity = logged.continuity(table)
            known[each.key] = replace(each, continuity=continuity, is_logged=bool(continuity))
        return known
