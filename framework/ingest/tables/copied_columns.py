"""The columns of a copy: the columns that a configuration names, the key columns, and the columns that are copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.mendings import Mending
from framework.sources.databases.tables import KeyKind, SourceTable, TableName, quote_identifier

if TYPE_CHECKING:
    from framework.declare.specs import TableConfiguration
    from framework.sources.databases.dialect import Dialect, SparkColumn


def check_columns(table: TableName, configuration: TableConfiguration, known: Sequence[str]) -> None:
    """Refuse a configuration that names columns missing from the table.

    Raises:
        UserError: INGESTION_COLUMN_UNKNOWN, with the nearest name.
    """
    for name in (*configuration.primary_keys, *configuration.include_columns, *configuration.exclude_columns):
        if name not in known:
            hint = nearest_hint(name, known)
            raise UserError("INGESTION_COLUMN_UNKNOWN", table=table, column=name, hint=hint)


def key_columns(dialect: Dialect, source: SourceTable, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that identify a row; they must be a key of the source whose old values the log contains.

    For another key, the log has no old values: it could not identify a deleted row, and an update of a key column would
    leave the row with the old value behind. If the database does not keep the columns unique at each moment, a
    statement such as `SET id = id + 1` may write a second row of a key before it removes the first one, and the delete
    would remove both.

    Raises:
        UserError: INGESTION_WITHOUT_KEY, INGESTION_KEY_NOT_IN_LOG or INGESTION_KEY_OF_NAMES, with the statement that
            fixes it.
    """
    if given and {*given} == {*source.key}:
        return _lasting(dialect, source, given)
    if not given and source.key_kind in (KeyKind.PRIMARY, KeyKind.UNIQUE):
        return _lasting(dialect, source, source.key)
    if source.key_kind is KeyKind.NONE or not given:
        raise UserError("INGESTION_WITHOUT_KEY", table=source.name, statement=_key_statement(dialect, source))
    raise UserError(
        "INGESTION_KEY_NOT_IN_LOG",
        table=source.name,
        given=", ".join(given),
        key=", ".join(source.key),
        statement=dialect.mending(Mending.LOG_OTHER_KEY, source.name, given),
    )


def _lasting(dialect: Dialect, source: SourceTable, key: tuple[str, ...]) -> tuple[str, ...]:
    """Return a key; refuse it if its text may change without an entry in the log, which would leave old rows behind."""
    unstable = dialect.unstable_columns(source)
    named = [name for name in key if name in unstable]
    if named:
        raise UserError(
            "INGESTION_KEY_OF_NAMES",
            table=source.name,
            columns=", ".join(f"{name} ({source.column(name).type_name})" for name in named),
            statement=dialect.mending(Mending.STORE_NUMBERS, source.name, named),
        )
    return key


def _key_statement(dialect: Dialect, source: SourceTable) -> str:
    if source.key:  # a unique index with NULL
        nullable = [name for name in source.key if source.column(name).nullable]
        return dialect.mending(Mending.FILL_KEY, source.name, nullable)
    return dialect.mending(Mending.ADD_KEY, source.name)


def copied_columns(
    table: TableName, configuration: TableConfiguration, keys: tuple[str, ...], types: Sequence[SparkColumn]
) -> tuple[str, ...]:
    """Return the columns of the copy; the key is always among them.

    Raises:
        UserError: INGESTION_KEY_EXCLUDED.
    """
    for name in keys:
        if name in configuration.exclude_columns:
            raise UserError("INGESTION_KEY_EXCLUDED", table=table, column=name)
    known = [column.name for column in types]
    wanted = {*keys, *(configuration.include_columns or known)} - {*configuration.exclude_columns}
    return tuple(name for name in known if name in wanted)


def refuse_cased(dialect: Dialect, table: TableName, read: Iterable[str]) -> None:
    """Refuse columns whose names differ in letter case only, because neither Spark nor Delta distinguishes them.

    Args:
        dialect: of the source.
        table: the source table.
        read: the columns that are read.

    Raises:
        UserError: INGESTION_COLUMNS_CASED.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name in read:
        alike[_folded(name)].append(name)
    groups = [names for names in alike.values() if len(names) > 1]
    if groups:
        raise UserError(
            "INGESTION_COLUMNS_CASED",
            table=table,
            columns="; ".join(" and ".join(map(quote_identifier, names)) for names in groups),
            statement=dialect.mending(Mending.RENAME_COLUMN, table, groups[0][-1:]),
        )


def refuse_flag(table: TableName, flag: str | None, copied: Iterable[str]) -> None:
    """Refuse a column of the source with the name of the column that flags deleted rows.

    Raises:
        UserError: INGESTION_SOFT_DELETES_COLUMN.
    """
    if flag is not None and _folded(flag) in map(_folded, copied):
        raise UserError("INGESTION_SOFT_DELETES_COLUMN", table=table, column=flag)


def _folded(name: str) -> str:
    """Return a name as Spark compares it: letter by letter, in upper case and then in lower case."""
    upper = (letter.upper() for letter in name)
    return "".join(each if len(each) == 1 else letter for each, letter in zip(upper, name, strict=True)).lower()
