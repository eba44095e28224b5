"""The tables of a log that has every table of its server: whether each is the one that was copied before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from framework.foundation.errors import SluiceError, UserError
from framework.sources.databases.mysql.preflight import read_cascades
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.source_session import KnownTable
from framework.sources.databases.tables import SourceTable, TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlTables:
    """The tables of the server's log; its `continuity` is the identity of a table.

    Args:
        session: any session of the server.
        cascades: the fields of the error of each table whose rows foreign keys change without an entry in the log.
    """

    session: Session
    cascades: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)

    @property
    def has_log(self) -> bool:
        """The server logs all tables, whether or not anybody reads it."""
        return True

    def has_table(self, name: TableName) -> bool:
        """The log has every table."""
        del name
        return True

    def continuity(self, source: SourceTable) -> str:
        """Return the identity of the table."""
        return source.identity

    def among(self, sources: Sequence[SourceTable]) -> MysqlTables:
        """Return the tables with the foreign keys of some of them."""
        return replace(self, cascades=read_cascades(self.session, [each.name for each in sources]))

    def fault(self, source: SourceTable, continuity: str) -> SluiceError | None:
        """Return the error of a table that was replaced; else None."""
        if continuity and continuity != source.identity:
            return UserError("INGESTION_TABLE_REPLACED", table=source.name)
        return None

    def refuse(self, source: SourceTable, known: KnownTable | None) -> None:
        """Refuse a table that was replaced, or whose rows change without an entry in the log."""
        if source.name in self.cascades:
            fields: Mapping[str, Any] = self.cascades[source.name]
            raise UserError("MYSQL_CASCADES", table=source.name, **fields)
        if known is None:
            return
        fault = self.fault(source, known.continuity) or self.fault(source, known.planned)
        if fault is not None:
            raise fault
