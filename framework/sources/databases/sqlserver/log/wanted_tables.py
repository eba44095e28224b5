"""The tables of a stream of changes, as its options describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.sources.databases.options import Options
from framework.sources.databases.tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTables:
    """The tables of a stream of changes.

    Args:
        names: the tables.
        text_columns: the columns that are read as text.
        identities: the object ids of the tables that are meant; a table without one may be any of its name.
        histories: the tables whose copies keep every state of a row.
        keys: the columns that identify rows; a table without them has those of the catalog.
        keeps_unreadable: whether a change that can't be represented is kept as one that holds its table.
    """

    names: tuple[TableName, ...]
    text_columns: Mapping[TableName, tuple[str, ...]]
    identities: Mapping[TableName, int]
    histories: tuple[TableName, ...]
    keys: Mapping[TableName, tuple[str, ...]]
    keeps_unreadable: bool

    @classmethod
    def of(cls, options: Options) -> WantedTables:
        """Read the options.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID.
        """
        identities = options.identities("identities")
        if not all(number.isdecimal() for number, _ in identities):
            raise options.invalid("identities", "tables with their object id, such as dbo.orders.245575913")
        return cls(
            names=options.tables("tables"),
            text_columns=options.columns_of_tables("textColumns"),
            identities={table: int(number) for number, table in identities},
            histories=options.tables("historyTables") if options.optional("historyTables") else (),
            keys=options.columns_of_tables("keys"),
            keeps_unreadable=options.choice("unreadableRows", ("fail", "keep")) == "keep",
        )
