"""The copies of an ingestion: its tables, as the database has them now, with keys, columns and targets.

A table with an error becomes a `FailedCopy`, so that the other tables are copied. A database that can't be read is an
error of the whole ingestion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.declare.copy_definition import CopiedColumn, CopyDefinition
from framework.foundation.errors import SluiceError, SourceError, UserError
from framework.foundation.names import QualifiedName
from framework.ingest.connections import named_connection
from framework.ingest.names import log_name
from framework.ingest.tables.copied_columns import check_columns, copied_columns, key_columns, refuse_cased, refuse_flag
from framework.ingest.tables.objects import SCHEMA_MISSING, object_tables, target_of
from framework.ingest.tables.repeated_tables import alike_tables, copy_names
from framework.sources.databases.dialects import dialect_of, is_log_in_use, is_retryable
from framework.sources.databases.source_session import KnownTable
from framework.sources.databases.tables import SourceTable, TableName

if TYPE_CHECKING:
    from framework.declare.specs import IngestedObject, IngestionSpec, TableConfiguration
    from framework.sources.databases.dialect import Dialect, SparkColumn
    from framework.sources.databases.source_session import LoggedTables, SourceSession
    from framework.sources.databases.tables import ColumnIdentity

PARTITIONS_CHANGED = "INGESTION_PARTITIONS_CHANGED"
"""The only gap with known rows: the rows of the partitions that the error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A source table and its copy.

    Args:
        table: the name of the source table.
        target: the name of the copy.
        keys: the columns that identify a row.
        columns: the columns of the copy, in the order of the source.
        read_columns: the columns that are read: the columns of the copy; with a row filter, all columns.
        schema: DDL of `read_columns`.
        configuration: how it is copied.
        identity: identifies the table in its database.
        continuity: distinguishes the table and its part of the log from replacements of the same name, as text of the
            dialect.
        is_logged: whether the log has its changes now.
        definition: how its rows are made.
        children: the tables that inherit from it; the copy does not have their rows.
        copy_name: as in `IngestedTable`.
    """

    table: TableName
    target: QualifiedName
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    read_columns: tuple[str, ...]
    schema: str
    configuration: TableConfiguration
    definition: CopyDefinition = field(repr=False)
    # Left out of the text of its queries: an update that finds a replaced table has refused it, or reads it again.
    identity: str = field(default="", repr=False)
    continuity: str = field(default="", repr=False)
    is_logged: bool = field(default=False, repr=False)
    children: tuple[str, ...] = field(default=(), repr=False)
    copy_name: str = field(default="", repr=False)

    @property
    def key(self) -> str:
        """The key of the copy in states and requests."""
        return self.copy_name or str(self.table)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that are read as text, in the output format of the database."""
        return self.configuration.text_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCopy:
    """A copy that can't be kept up to date: its flows fail with the error.

    Args:
        table: the name of the source table.
        target: the name of the copy.
        error: the error.
        named_continuity: the present continuity of the table, if the error compared it with the recorded one and names
            the rows that came or went; empty for any other error.
        copy_name: as in `IngestedTable`.
    """

    table: TableName
    target: QualifiedName
    error: SluiceError
    named_continuity: str = ""
    copy_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFinder:
    """Finds the copies of an ingestion.

    Args:
        spec: the ingestion.
        catalog: the catalog of copies without one.
        schema: the schema of copies without one.
        known: the recorded facts about the table of a copy, by its `key`; None if a new snapshot is requested.
        recorded: the keys of the copies of a table in the last update.
        listed: the tables of a source schema in the last update that match an object.
        refuse_filter: raises the error of a row filter that is invalid for the columns of a table.
        refuse_drift: raises the error of a copy that has rows of another definition.
    """

    spec: IngestionSpec
    catalog: str
    schema: str
    known: Callable[[TableName, QualifiedName, str], KnownTable | None]
    recorded: Callable[[TableName], Mapping[QualifiedName, str]]
    listed: Callable[[IngestedObject], tuple[TableName, ...]]
    refuse_filter: Callable[[TableName, str, str], None]
    refuse_drift: Callable[[Copy], None]

    def find(self, folder: Path) -> tuple[Copy | FailedCopy, ...]:
        """Return the copies, including failed ones.

        Args:
            folder: the folder of `connections.yml`.

        Raises:
            UserError: the connection or any table of the ingestion is missing.
            SourceError: the database can't be read; DATABASE_SCHEMA_MISSING for a schema that no earlier update found.
        """
        log = log_name(self.spec)
        try:
            connection = named_connection(self.spec.connection, str(folder))
            dialect = dialect_of(connection)
            with dialect.open(connection) as source:
                logged = source.logged_tables(log)
                tables, gone = self._tables(source)
                declared = [(name, self._target(each, name), each.configuration) for each, name in tables]
                named = copy_names(declared, self.recorded)
                sources = source.read_tables([name for _, name in tables])
                logged = logged.among([each for each in sources.values() if isinstance(each, SourceTable)])
                children = source.read_children([*sources])
                copies = [
                    self._copy(dialect, logged, each, (name, sources[name]), named[name, self._target(each, name)])
                    for each, name in tables
                ]
                found = [
                    replace(each, children=children.get(each.table, ())) if isinstance(each, Copy) else each
                    for each in copies
                ]
                found += gone
        except SluiceError as error:
            raise error.at(self.spec.location) from None
        if not found:
            raise UserError("INGESTION_WITHOUT_TABLES", location=self.spec.location, name=self.spec.name)
        return self._without_doubles(found, alike_tables(declared))

    def _tables(self, source: SourceSession) -> tuple[list[tuple[IngestedObject, TableName]], list[FailedCopy]]:
        """Return the tables of the database, and failed copies for the tables of dropped schemas."""
        tables: list[tuple[IngestedObject, TableName]] = []
        gone: list[FailedCopy] = []
        for each in self.spec.objects:
            try:
                tables += object_tables(source, each)
            except SourceError as error:
                listed = self.listed(each) if error.condition == SCHEMA_MISSING else ()
                if not listed:
                    raise
                located = error.at(self.spec.location)
                for name in dict.fromkeys(listed):
                    target = self._target(each, name)
                    named = self.recorded(name).get(target, "")
                    gone.append(FailedCopy(table=name, target=target, error=located, copy_name=named))
        return tables, gone

    def _target(self, each: IngestedObject, name: TableName) -> QualifiedName:
        return target_of(each, name, catalog=self.catalog, schema=self.schema)

    def _copy(
        self,
        dialect: Dialect,
        logged: LoggedTables,
        each: IngestedObject,
        found: tuple[TableName, SourceTable | SourceError],
        copy_name: str,
    ) -> Copy | FailedCopy:
        """Return the copy of one table, failed if the table has an error; raise only errors of the connection."""
        name, source = found
        target = self._target(each, name)
        continuity = ""
        try:
            if isinstance(source, SourceError):
                raise source
            # Set before the comparison: its error names the rows that came or went up to this continuity.
            continuity = logged.continuity(source)
            copy = replace(
                self._described(dialect, source, target, each.configuration),
                identity=source.identity,
                continuity=continuity,
                is_logged=logged.has_table(source.name),
                copy_name=copy_name,
            )
            logged.refuse(source, self.known(source.name, target, copy.key) if logged.has_log else None)
            self.refuse_drift(copy)
        except SluiceError as error:
            # Facts that only the log shows can't be compared before the other reader of the log has ended.
            if is_retryable(error.condition) and not is_log_in_use(error.condition):
                raise
            located = error.at(self.spec.location)
            return FailedCopy(
                table=name,
                target=target,
                error=located,
                named_continuity=continuity if error.condition == PARTITIONS_CHANGED else "",
                copy_name=copy_name,
            )
        else:
            return copy

    def _described(
        self, dialect: Dialect, source: SourceTable, target: QualifiedName, configuration: TableConfiguration
    ) -> Copy:
        types = dialect.spark_columns(source, configuration.text_columns)
        check_columns(source.name, configuration, [column.name for column in types])
        keys = key_columns(dialect, source, configuration.primary_keys)
        columns = copied_columns(source.name, configuration, keys, types)
        refuse_flag(source.name, configuration.soft_deletes, columns)
        read = types if configuration.row_filter else [column for column in types if column.name in columns]
        refuse_cased(dialect, source.name, [column.name for column in read])
        schema = ", ".join(f"`{column.name.replace('`', '``')}` {column.spark_type}" for column in read)
        if configuration.row_filter:
            self.refuse_filter(source.name, schema, configuration.row_filter)
        return Copy(
            table=source.name,
            target=target,
            keys=keys,
            columns=columns,
            read_columns=tuple(column.name for column in read),
            schema=schema,
            configuration=configuration,
            definition=definition_of(self.spec.name, source, configuration, keys, read),
        )

    def _without_doubles(
        self, found: Sequence[Copy | FailedCopy], alike: Collection[TableName]
    ) -> tuple[Copy | FailedCopy, ...]:
        """Return one copy for each target; refuse tables with a common target, and tables with several equal copies."""
        tables: dict[QualifiedName, list[TableName]] = defaultdict(list)
        targets: dict[TableName, list[QualifiedName]] = defaultdict(list)
        for copy in found:
            tables[copy.target].append(copy.table)
            targets[copy.table].append(copy.target)
        first = {copy.target: copy for copy in reversed(found)}
        each = (first[target] for target in dict.fromkeys(copy.target for copy in found))
        return tuple(
            self._checked(copy, tables[copy.target], targets[copy.table] if copy.table in alike else ())
            for copy in each
        )

    def _checked(
        self, copy: Copy | FailedCopy, tables: Iterable[TableName], targets: Sequence[QualifiedName]
    ) -> Copy | FailedCopy:
        error = None
        if len({*tables}) > 1:
            listed = " and ".join(map(str, dict.fromkeys(tables)))
            error = UserError(
                "INGESTION_TARGET_TWICE", location=self.spec.location, tables=listed, target=str(copy.target)
            )
        elif len(targets) > 1:
            error = UserError(
                "INGESTION_TABLE_TWICE",
                location=self.spec.location,
                name=self.spec.name,
                table=copy.table,
                targets=_listed_copies(targets),
            )
        if error is None:
            return copy
        return FailedCopy(table=copy.table, target=copy.target, error=error, copy_name=copy.copy_name)


def _listed_copies(targets: Sequence[QualifiedName]) -> str:
    names = [str(target) for target in dict.fromkeys(targets)]
    return f"the copy {names[0]}" if len(names) == 1 else f"the copies {' and '.join(names)}"


def definition_of(
    gateway: str,
    source: SourceTable,
    configuration: TableConfiguration,
    keys: tuple[str, ...],
    read: Sequence[SparkColumn],
) -> CopyDefinition:
    """Return how the rows of a copy are made.

    Args:
        gateway: the name of the ingestion.
        source: the table as it is now.
        configuration: how it is copied.
        keys: the columns that identify a row.
        read: the columns that are read.
    """
    lists = (configuration.include_columns, configuration.exclude_columns, configuration.text_columns)
    found = {column.name: column for column in source.columns}
    return CopyDefinition(
        gateway=gateway,
        source=str(source.name),
        keys=keys,
        scd_type=configuration.scd_type,
        soft_deletes=configuration.soft_deletes,
        row_filter=configuration.row_filter,
        selection=repr([sorted(names) for names in lists]),
        columns=tuple(
            CopiedColumn(
                name=each.name,
                type=each.spark_type,
                source_type=found[each.name].type_name,
                **_fields(found[each.name].identity),
            )
            for each in read
        ),
        most_columns=source.most_columns,
        gone=source.gone,
        storage=source.storage_id,
        key_ids=source.key_ids,
        is_full=source.has_full_part,
        log_version=source.log_version,
        earlier_versions=source.earlier_versions,
    )


def _fields(identity: ColumnIdentity) -> dict[str, Any]:
    return {name: getattr(identity, name) for name in identity.__dataclass_fields__}
