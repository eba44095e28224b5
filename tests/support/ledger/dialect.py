"""The ledger as a dialect; the entry point `ledger` of the group `sluice.dialects` names it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from framework.sources.databases.connections import Connection
from framework.sources.databases.dialect import Abilities, Dialect
from framework.sources.databases.mendings import Mending
from framework.sources.databases.options import Options
from framework.sources.databases.source_session import Gap, LogName
from framework.sources.databases.tables import SourceTable, TableName
from tests.support.ledger.facts import FACTS
from tests.support.ledger.log import LedgerChanges
from tests.support.ledger.snapshot import LedgerColumn, LedgerSnapshot, columns_of
from tests.support.ledger.source import LedgerSource


class LedgerDialect:
    """SQLite files with a table of changes."""

    name = "Ledger"
    facts = FACTS
    abilities = Abilities()
    snapshot_options: tuple[str, ...] = ()
    changes_options: tuple[str, ...] = ()

    def open(
        self, connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None
    ) -> LedgerSource:
        """Open a session."""
        del read_only, lock_seconds
        return LedgerSource(connection)

    def spark_columns(self, table: SourceTable, text_columns: Collection[str]) -> tuple[LedgerColumn, ...]:
        """Return the columns."""
        del text_columns
        return columns_of(table)

    def unstable_columns(self, table: SourceTable) -> tuple[str, ...]:
        """Return that each text is stored."""
        del table
        return ()

    def mending(self, mending: Mending, table: TableName, columns: Sequence[str] = ()) -> str:
        """Return that SQLite alters no key: the table is made again."""
        return f"make {table} again: {mending} ({', '.join(columns)})"

    def other_log(self, stored: str, log: LogName) -> Gap | None:
        """Return that a ledger has one log only."""
        del log
        json.loads(stored)
        return None

    def remembered_gap(self, condition: str, log: LogName) -> Gap | None:
        """Return that the ledger shows each gap for as long as it lasts."""
        del condition, log
        return None

    def continuity_options(self, known: Mapping[TableName, str]) -> Mapping[str, Sequence[tuple[object, ...]]]:
        """Return that the triggers name the tables."""
        del known
        return {}

    def snapshot(self, options: Options) -> LedgerSnapshot:
        """Return what the options ask for."""
        return LedgerSnapshot.of(options)

    def changes(self, options: Options) -> LedgerChanges:
        """Return what the options ask for."""
        return LedgerChanges.of(options)

    def whole_table(self, connection: Connection, name: TableName) -> NoReturn:
        """Refuse it: `abilities.compares_tables` is false."""
        raise NotImplementedError(connection, name)


LEDGER: Dialect = LedgerDialect()
