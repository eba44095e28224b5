"""The copies of an ingestion: its tables, as the database has them now, with keys, columns and targets.

A table with a fault becomes a `FailedCopy`, so that the other tables are copied; a database that can't be read is an
error of the whole ingestion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.declare.copy_definition import CopiedColumn, CopyDefinition
from framework.foundation.conditions.databases import RETRYABLE
from framework.foundation.errors import RemoteError, SluiceError, SourceError, UserError
from framework.foundation.names import QualifiedName
from framework.ingest.copied_columns import check_columns, copied_columns, key_columns, refuse_cased, refuse_flag
from framework.ingest.names import publication_name, slot_name
from framework.ingest.objects import SCHEMA_MISSING, object_tables, target_of
from framework.ingest.repeated_tables import alike_tables, copy_names
from framework.sources.databases.findings import Severity
from framework.sources.databases.options import Options
from framework.sources.databases.tables import SourceTable, TableName

if TYPE_CHECKING:
    from framework.declare.specs import IngestedObject, IngestionSpec, TableConfiguration
    from framework.sources.databases.postgres.membership import Membership
    from framework.sources.databases.postgres.session import Session
    from framework.sources.databases.postgres.types import ColumnType
    from framework.sources.databases.tables import ColumnIdentity

_OF_IDENTITY = frozenset({"DATABASE_REPLICA_IDENTITY", "DATABASE_KEY_NOT_LOGGED"})
"""Each partition has a replica identity of its own, which may change when the table is published."""
_SLOT_IN_USE = "DATABASE_SLOT_IN_USE"
"""Of a table: its partitions can't be compared before the other reader of the log has ended."""


PARTITIONS_CHANGED = "INGESTION_PARTITIONS_CHANGED"
"""The only gap of which the rows are known: those of the partitions that the error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A source table and its copy.

    Args:
        table: the name of the source table.
        target: the name of the copy.
        keys: the columns that identify a row.
        columns: the columns of the copy, in the order of the source.
        read_columns: the columns that are read: those of the copy, and with a row filter all.
        schema: DDL of `read_columns`.
        configuration: how it is copied.
        relation: what identifies the table in its database.
        membership: what identifies its membership of the publication; 0 if it is no member.
        partitions: its partitions, as text of the dialect; empty if it has none.
        definition: how its rows are made.
        children: the tables that inherit from it, whose rows it does not have.
        copy_name: as that of an `IngestedTable`.
    """

    table: TableName
    target: QualifiedName
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    read_columns: tuple[str, ...]
    schema: str
    configuration: TableConfiguration
    definition: CopyDefinition = field(repr=False)
    # Not in the text of its queries: an update that finds another one has refused it, or reads it again.
    relation: int = field(default=0, repr=False)
    membership: int = field(default=0, repr=False)
    partitions: str = field(default="", repr=False)
    children: tuple[str, ...] = field(default=(), repr=False)
    copy_name: str = field(default="", repr=False)

    @property
    def key(self) -> str:
        """What states and requests call the copy."""
        return self.copy_name or str(self.table)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that are read as PostgreSQL's text."""
        return self.configuration.text_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCopy:
    """A copy that can't be kept up to date: its flows fail with the error.

    Args:
        table: the name of the source table.
        target: the name of the copy.
        error: the error.
        named_partitions: the partitions with which the error compared those of before, as text of the dialect; empty
            for another error.
        copy_name: as that of an `IngestedTable`.
    """

    table: TableName
    target: QualifiedName
    error: SluiceError
    named_partitions: str = ""
    copy_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """What earlier updates know of a source table whose changes a copy needs from the log.

    Args:
        is_begun: whether its snapshot has planned a chunk, so that it was a member of the publication.
        relation: what identified it in its database; 0 if that is not recorded.
        membership: what identified its membership of the publication; 0 if it was no member.
        partitions: its partitions, as text of the dialect; empty if it had none.
        position: the last position of the changes, as text of the dialect; empty if none was planned.
    """

    is_begun: bool
    relation: int = 0
    membership: int = 0
    partitions: str = ""
    position: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFinder:
    """Finds the copies of an ingestion.

    Args:
        spec: the ingestion.
        catalog: the catalog of copies without one.
        schema: the schema of copies without one.
        known: what is known of the table of a copy, by its `key`; None if another snapshot of it was asked for.
        recorded: the keys of the copies of a table that the last update had.
        listed: the tables of a source schema that the last update had, of those that an object takes.
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
        """Return the copies, those with a fault included.

        Args:
            folder: the folder of `connections.yml`.

        Raises:
            UserError: the connection or any table of the ingestion is missing.
            SourceError: the database can't be read; DATABASE_SCHEMA_MISSING of a schema that no update had.
        """
        from framework.sources.databases.postgres.catalog import partitions_without_key, read_tables
        from framework.sources.databases.postgres.inheritance import read_children
        from framework.sources.databases.postgres.membership import read_membership
        from framework.sources.databases.postgres.session import Session

        options = {"connection": self.spec.connection, "connectionsFolder": str(folder)}
        try:
            with Session(Options("ingest_database", options).connection()) as session:
                membership = read_membership(session, slot_name(self.spec), publication_name(self.spec))
                tables, gone = self._tables(session)
                declared = [(name, self._target(each, name), each.configuration) for each, name in tables]
                named = copy_names(declared, self.recorded)
                sources = read_tables(session, [name for _, name in tables])
                keys = {name: each.key for name, each in sources.items() if isinstance(each, SourceTable)}
                unlogged = {name for name, lacking in partitions_without_key(session, keys).items() if lacking}
                children = read_children(session, [*sources])
                copies = [
                    self._copy(
                        session,
                        membership,
                        each,
                        sources[name],
                        name,
                        is_logged=name not in unlogged,
                        copy_name=named[name, self._target(each, name)],
                    )
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

    def _tables(self, session: Session) -> tuple[list[tuple[IngestedObject, TableName]], list[FailedCopy]]:
        """Return the tables that the database has, and those of schemas that it no longer has."""
        tables: list[tuple[IngestedObject, TableName]] = []
        gone: list[FailedCopy] = []
        for each in self.spec.objects:
            try:
                tables += object_tables(session, each)
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
        session: Session,
        membership: Membership,
        each: IngestedObject,
        source: SourceTable | SourceError,
        name: TableName,
        *,
        is_logged: bool,
        copy_name: str,
    ) -> Copy | FailedCopy:
        """Return the copy of one table. Only a fault of the connection is raised, since it is not one of the table."""
        target = self._target(each, name)
        from framework.sources.databases.postgres.partitions import read_partitions

        partitions = ""
        try:
            if isinstance(source, SourceError):
                raise source
            # Before they are compared: the error then names what came or went up to these.
            partitions = read_partitions(session, source.relation).to_json() if source.is_partitioned else ""
            copy = replace(
                self._described(source, target, each.configuration),
                relation=source.relation,
                membership=membership.tables.get(source.name, 0),
                partitions=partitions,
                copy_name=copy_name,
            )
            self._check_log(session, membership, source, copy, is_logged=is_logged)
            self.refuse_drift(copy)
        except SluiceError as error:
            if error.condition in RETRYABLE and error.condition != _SLOT_IN_USE:
                raise
            located = error.at(self.spec.location)
            return FailedCopy(
                table=name, target=target, error=located,
                named_partitions=partitions if error.condition == PARTITIONS_CHANGED else "", copy_name=copy_name,
            )  # fmt: skip
        else:
            return copy

    def _check_log(
        self, session: Session, membership: Membership, source: SourceTable, copy: Copy, *, is_logged: bool
    ) -> None:
        """Refuse a table whose changes are not in the log, or that would break its writers when it is published."""
        from framework.sources.databases.postgres.membership import refuse_filtered
        from framework.sources.databases.postgres.table_checks import Publication, check_table

        if membership.has_slot:
            self._check_continuity(session, source, membership.tables.get(source.name, 0), copy)
        refuse_filtered(membership, publication_name(self.spec), [source.name])
        is_member = source.name in membership.tables
        if is_member and not source.is_unidentified and is_logged:
            return
        role = session.rows("SELECT current_user::text")[0][0]
        # The table is added to it; one that the role may not add would stop the changes of all tables.
        publication = Publication(
            name=publication_name(self.spec), missing=(), is_via_root=True, is_owned=membership.is_owned
        )
        for finding in check_table(session, source.name, role=role, publication=publication).findings:
            # A table that is published already is read with the rights that it needs now, if it is read.
            if finding.severity is Severity.ERROR and (not is_member or finding.condition in _OF_IDENTITY):
                raise RemoteError(finding.condition, what=finding.what, remedy=finding.remedy)

    def _check_continuity(self, session: Session, source: SourceTable, member: int, copy: Copy) -> None:
        """Refuse a table that is another one than before, or that changed without an entry in the log."""
        known = self.known(source.name, copy.target, copy.key)
        if known is None:
            return
        if known.relation and source.relation != known.relation:
            raise UserError("INGESTION_TABLE_REPLACED", table=source.name)
        is_missing = known.is_begun and not member
        if is_missing or (known.membership and member != known.membership):
            raise UserError("INGESTION_TABLE_UNPUBLISHED", table=source.name, publication=publication_name(self.spec))
        if source.is_partitioned and known.partitions:
            self._check_partitions(session, source, known)

    def _check_partitions(self, session: Session, source: SourceTable, known: KnownTable) -> None:
        from framework.sources.databases.postgres.lost_changes import Log, lost_changes, unread_log
        from framework.sources.databases.postgres.partitions import Partitions
        from framework.sources.databases.postgres.position_check import StoredPosition
        from framework.sources.databases.postgres.seen_partitions import SeenPartitions

        read = StoredPosition.from_json(known.position).seen if known.position else SeenPartitions()
        slot, publication = slot_name(self.spec), publication_name(self.spec)
        log = Log(seen=read, unread=cache(lambda table: unread_log(session, slot, publication, table)))
        before = Partitions.from_json(known.partitions)
        change = lost_changes(session, source.name, source.relation, before, log)
        if change is not None:
            raise UserError(PARTITIONS_CHANGED, table=source.name, change=change)

    def _described(self, source: SourceTable, target: QualifiedName, configuration: TableConfiguration) -> Copy:
        from framework.sources.databases.postgres.types import check_text_columns, column_types

        check_text_columns(source, configuration.text_columns)
        types = column_types(source, configuration.text_columns)
        check_columns(source.name, configuration, [column.name for column in types])
        keys = key_columns(source, configuration.primary_keys)
        columns = copied_columns(source.name, configuration, keys, types)
        refuse_flag(source.name, configuration.soft_deletes, columns)
        read = types if configuration.row_filter else [column for column in types if column.name in columns]
        refuse_cased(source.name, [column.name for column in read])
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
        """Return one copy for each target; tables with one target, and a table with alike copies, are faults."""
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
                "INGESTION_TABLE_TWICE", location=self.spec.location, name=self.spec.name, table=copy.table,
                targets=_listed_copies(targets),
            )  # fmt: skip
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
    read: Sequence[ColumnType],
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
