"""The tables of a publication: whether the log goes on for each of them, and whether one may be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from framework.foundation.errors import RemoteError, UserError
from framework.sources.databases.findings import Severity
from framework.sources.databases.postgres.log.lost_changes import Log, lost_changes, unread_log
from framework.sources.databases.postgres.log.position_check import StoredPosition
from framework.sources.databases.postgres.log.seen_partitions import SeenPartitions
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.table_checks import Publication, check_table
from framework.sources.databases.postgres.tables.catalog import partitions_without_key
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
        """Return them with the replica identities of the partitions of some tables."""
        lacking = partitions_without_key(self.session, {each.name: each.key for each in sources})
        return replace(self, unlogged=frozenset(name for name, partitions in lacking.items() if partitions))

    @property
    def has_log(self) -> bool:
        """Whether the slot exists."""
        return self.published.has_slot

    def membership(self, name: TableName) -> int:
        """Return what identifies the membership of a table; 0 if it is no member."""
        return self.published.tables.get(name, 0)

    def partitions(self, source: SourceTable) -> str:
        """Return the partitions of a table, as JSON."""
        return read_partitions(self.session, source.relation).to_json() if source.is_partitioned else ""

    def refuse(self, source: SourceTable, known: KnownTable | None) -> None:
        """Refuse a table whose changes are not in the log, or that would break its writers when it is published."""
        if known is not None:
            self._check_continuity(source, known)
        refuse_filtered(self.published, self.log.publication, [source.name])
        is_member = bool(self.membership(source.name))
        if is_member and not source.is_unidentified and source.name not in self.unlogged:
            return
        role = self.session.rows("SELECT current_user::text")[0][0]
        # The table is added to it; one that the role may not add would stop the changes of all tables.
        publication = Publication(
            name=self.log.publication, missing=(), is_via_root=True, is_owned=self.published.is_owned
        )
        for finding in check_table(self.session, source.name, role=role, publication=publication).findings:
            # A table that is published already is read with the rights that it needs now, if it is read.
            if finding.severity is Severity.ERROR and (not is_member or finding.condition in _OF_IDENTITY):
                raise RemoteError(finding.condition, what=finding.what, remedy=finding.remedy)

    def _check_continuity(self, source: SourceTable, known: KnownTable) -> None:
        """Refuse a table that is another one than before, or that changed without an entry in the log."""
        member = self.membership(source.name)
        if known.relation and source.relation != known.relation:
            raise UserError("INGESTION_TABLE_REPLACED", table=source.name)
        is_missing = known.is_begun and not member
        if is_missing or (known.membership and member != known.membership):
            raise UserError("INGESTION_TABLE_UNPUBLISHED", table=source.name, publication=self.log.publication)
        if source.is_partitioned and known.partitions:
            self._check_partitions(source, known)

    def _check_partitions(self, source: SourceTable, known: KnownTable) -> None:
        read = StoredPosition.from_json(known.position).seen if known.position else SeenPartitions()
        session, slot, publication = self.session, self.log.slot, self.log.publication
        log = Log(seen=read, unread=cache(lambda table: unread_log(session, slot, publication, table)))
        before = Partitions.from_json(known.partitions)
        change = lost_changes(session, source.name, source.relation, before, log)
        if change is not None:
            raise UserError("INGESTION_PARTITIONS_CHANGED", table=source.name, change=change)
