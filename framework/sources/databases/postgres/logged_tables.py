"""The tables of a publication: whether the log of each table is continuous, and whether a table may be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from framework.foundation.errors import RemoteError, SluiceError, UserError
from framework.sources.databases.findings import Severity
from framework.sources.databases.postgres.log.lost_changes import Log, lost_changes, unread_log
from framework.sources.databases.postgres.log.position_check import StoredPosition
from framework.sources.databases.postgres.log.seen_partitions import SeenPartitions
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.table_checks import Publication, check_table
from framework.sources.databases.postgres.tables.catalog import partitions_without_key
from framework.sources.databases.postgres.tables.continuity import Continuity
from framework.sources.databases.postgres.tables.membership import Membership, refuse_filtered
from framework.sources.databases.postgres.tables.partitions import Partitions, read_partitions
from framework.sources.databases.source_session import KnownTable, LogName
from framework.sources.databases.tables import SourceTable, TableName

_OF_IDENTITY = frozenset({"DATABASE_REPLICA_IDENTITY", "DATABASE_KEY_NOT_LOGGED"})
"""Each partition has a replica identity of its own, which may change when the table is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTables:
    """The tables of a publication.

    Args:
        session: any session of the database.
        log: the slot and the publication.
        published: its members.
        unlogged: the tables with a partition whose old rows lack the key in the log.
    """

    session: Session
    log: LogName
    published: Membership
    unlogged: frozenset[TableName] = frozenset()

    def among(self, sources: Sequence[SourceTable]) -> PostgresTables:
        """Return the tables with the replica identities of the partitions of some of them."""
        lacking = partitions_without_key(self.session, {each.name: each.key for each in sources})
        return replace(self, unlogged=frozenset(name for name, partitions in lacking.items() if partitions))

    @property
    def has_log(self) -> bool:
        """Whether the slot exists."""
        return self.published.has_slot

    def has_table(self, name: TableName) -> bool:
        """Whether a table is a member of the publication."""
        return name in self.published.tables

    def continuity(self, source: SourceTable) -> str:
        """Return the oids of a table and of its membership, and its partitions."""
        oid = int(source.identity)
        partitions = read_partitions(self.session, oid).to_json() if source.is_partitioned else ""
        return Continuity(table=oid, member=self._member(source.name), partitions=partitions).to_text()

    def refuse(self, source: SourceTable, known: KnownTable | None) -> None:
        """Refuse a table whose changes are not in the log, or whose writers would fail once it is published."""
        if known is not None:
            self._check_continuity(source, known)
        refuse_filtered(self.published, self.log.tables, [source.name])
        is_member = self.has_table(source.name)
        if is_member and not source.is_unidentified and source.name not in self.unlogged:
            return
        role = self.session.rows("SELECT current_user::text")[0][0]
        # The table will be published; if the role may not add it, that would stop the changes of all tables.
        publication = Publication(name=self.log.tables, missing=(), is_via_root=True, is_owned=self.published.is_owned)
        for finding in check_table(self.session, source.name, role=role, publication=publication).findings:
            # If the table is already published, missing rights are reported when it is read.
            if finding.severity is Severity.ERROR and (not is_member or finding.condition in _OF_IDENTITY):
                raise RemoteError(finding.condition, what=finding.what, remedy=finding.remedy)

    def fault(self, source: SourceTable, continuity: str) -> SluiceError | None:
        """Return the error of a table that was replaced, or was out of the publication for some time; else None."""
        return self._fault(source, Continuity.of(continuity))

    def _member(self, name: TableName) -> int:
        return self.published.tables.get(name, 0)

    def _fault(self, source: SourceTable, before: Continuity) -> SluiceError | None:
        if before.table and int(source.identity) != before.table:
            return UserError("INGESTION_TABLE_REPLACED", table=source.name)
        return self._unpublished(source) if before.member and self._member(source.name) != before.member else None

    def _unpublished(self, source: SourceTable) -> UserError:
        return UserError("INGESTION_TABLE_UNPUBLISHED", table=source.name, members=f"the publication {self.log.tables}")

    def _check_continuity(self, source: SourceTable, known: KnownTable) -> None:
        """Refuse a table that was replaced, or that changed without an entry in the log."""
        before, planned = Continuity.of(known.continuity), Continuity.of(known.planned)
        # The plan of a snapshot may have published the table after the publication was read.
        before = replace(before, table=before.table or planned.table, member=before.member or planned.member)
        fault = self._fault(source, before)
        if fault is not None:
            raise fault
        if known.is_begun and not self.has_table(source.name):
            raise self._unpublished(source)
        # Rows of partitions that came or went while the table was missed are read again.
        partitions = "" if known.is_missed else Continuity.of(known.accepted).partitions or before.partitions
        if source.is_partitioned and partitions:
            self._check_partitions(source, known, partitions)

    def _check_partitions(self, source: SourceTable, known: KnownTable, partitions: str) -> None:
        read = StoredPosition.from_json(known.position).seen if known.position else SeenPartitions()
        session, slot, publication = self.session, self.log.position, self.log.tables
        log = Log(seen=read, unread=cache(lambda table: unread_log(session, slot, publication, table)))
        change = lost_changes(session, source.name, int(source.identity), Partitions.from_json(partitions), log)
        if change is not None:
            raise UserError("INGESTION_PARTITIONS_CHANGED", table=source.name, change=change)
