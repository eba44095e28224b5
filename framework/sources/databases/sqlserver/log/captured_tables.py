"""The tables of a batch with their capture instances: which ranges of which change tables are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework.foundation.errors import SourceError
from framework.sources.databases.sqlserver.log.change_rows import (
    ChangedTable,
    ChangeTransaction,
    ChangeWriter,
    RowEncoder,
)
from framework.sources.databases.sqlserver.log.change_tables import (
    Segment,
    changed_segments,
    commit_times,
    segments,
    write_changes,
)
from framework.sources.databases.sqlserver.log.moved_keys import MovedKeys
from framework.sources.databases.sqlserver.log.stored_position import StoredPosition
from framework.sources.databases.sqlserver.log.wanted_tables import WantedTables
from framework.sources.databases.sqlserver.lsn import Lsn
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.tables.catalog import is_in_order, read_clustered, read_tables
from framework.sources.databases.sqlserver.tables.instances import CaptureInstance, instances_of, read_instances
from framework.sources.databases.sqlserver.tables.object_ids import find_object_ids
from framework.sources.databases.sqlserver.values.types import column_type, version_of
from framework.sources.databases.tables import REPLACED, UNREADABLE, SourceColumn, TableName


class CapturedTables:
    """The tables of a batch with their capture instances, read once for all its windows."""

    def __init__(
        self,
        wanted: WantedTables,
        instances: Sequence[CaptureInstance],
        ids: Mapping[TableName, int],
        keys: Mapping[TableName, tuple[str, ...]],
        *,
        known: Sequence[int],
        clustered: Mapping[int, tuple[str, ...]],
    ) -> None:
        self._wanted = wanted
        self._instances = instances
        self._ids = ids
        self._keys = keys
        self._known = {*known}
        self._clustered = clustered
        self._encoders: dict[int, RowEncoder] = {}
        self._read_after: dict[int, Lsn] = {}

    @classmethod
    def of(cls, session: Session, wanted: WantedTables, stored: StoredPosition) -> CapturedTables:
        """Read the instances, and the keys that the request does not name."""
        present = find_object_ids(session, wanted.names)
        others = [name for name in wanted.names if name not in wanted.keys]
        found = read_tables(session, others)
        keys = {name: each.key for name, each in found.items() if not isinstance(each, SourceError)}
        ids = {name: wanted.identities.get(name, present.get(name, 0)) for name in wanted.names}
        clustered = read_clustered(session)
        return cls(
            wanted, read_instances(session), ids, {**keys, **wanted.keys}, known=stored.tables, clustered=clustered
        )

    def read_ids(self) -> tuple[int, ...]:
        """Return the object ids of the tables that are read now."""
        return tuple(sorted(self._known))

    def join(self, at: Lsn) -> None:
        """Add the tables that have all changes after an LSN; one whose instance is made later joins at its begin."""
        self._known |= {
            number
            for number in self._ids.values()
            if segments(instances_of(self._instances, number), at, at) is not None
        }

    def write(self, session: Session, after: Lsn, to: Lsn, writer: ChangeWriter) -> None:
        """Write the changes of a window, one table after the other."""
        found: dict[TableName, tuple[Segment, ...]] = {}
        for name, number in self._ids.items():
            ranges = self._segments(name, number, after, to, writer)
            if ranges:
                found[name] = ranges
        for each in (segment for ranges in found.values() for segment in ranges):
            # A later instance is read from its begin on.
            begun = each.after if each.instance.begin is None else max(each.after, each.instance.begin)
            self._read_after.setdefault(each.instance.id, begun)
        names = {each.instance.id: name for name, ranges in found.items() for each in ranges}
        changed = changed_segments(session, [each for ranges in found.values() for each in ranges])
        times = commit_times(session, after, to) if changed else {}
        for each in changed:
            write_changes(session, each, self._encoder(names[each.instance.id], each.instance), writer, times)

    def is_whole(self, session: Session) -> bool:
        """Whether no change was removed while it was to be read: the clean-up job moves a begin before it removes."""
        now = {each.id: each.begin for each in read_instances(session)}
        begins = ((now.get(number), after) for number, after in self._read_after.items())
        return all(begin is not None and begin <= after for begin, after in begins)

    def _segments(self, name: TableName, number: int, after: Lsn, to: Lsn, writer: ChangeWriter) -> tuple[Segment, ...]:
        own = instances_of(self._instances, number)
        found = segments(own, after, to)
        if found is not None:
            self._known.add(number)
            return found
        if number in self._known:
            self._known.discard(number)
            self._add_gap(name, own, after, to, writer)
            return ()
        begins = [each.begin for each in own if each.begin is not None and each.begin <= to]
        if not begins:
            return ()
        # A table that joins: its snapshot was planned when its instance had begun.
        self._known.add(number)
        return segments(own, min(begins), to) or ()

    def _add_gap(
        self, name: TableName, own: Sequence[CaptureInstance], after: Lsn, to: Lsn, writer: ChangeWriter
    ) -> None:
        """Hold one table whose changes are missing; the others go on.

        Raises:
            SourceError: SQLSERVER_CAPTURE_GAP, unless such changes are kept.
        """
        begins = [each.begin for each in own if each.begin is not None]
        reason = f"the oldest one begins at {min(begins)}" if begins else "the table has none any more"
        error = SourceError("SQLSERVER_CAPTURE_GAP", table=name, position=after, reason=reason)
        if not self._wanted.keeps_unreadable:
            raise error
        writer.begin(ChangeTransaction(to.order, 0))
        shape = ChangedTable(name, version_of(()))
        if begins:
            writer.add(shape, UNREADABLE, error.what)
        else:
            writer.add(shape, REPLACED, None)
        writer.end()

    def _encoder(self, name: TableName, instance: CaptureInstance) -> RowEncoder:
        if instance.id not in self._encoders:
            texts = self._wanted.text_columns.get(name, ())
            columns = tuple(
                column_type(name, SourceColumn(name=each, type_name=kind, nullable=True), as_text=each in texts)
                for each, kind in instance.columns
            )
            shape = ChangedTable(name, version_of(instance.columns))
            key = self._keys.get(name, ())
            # Without a key, rows that are equal are one row of the copy anyway.
            is_in_doubt = bool(key) and not is_in_order(key, self._clustered.get(self._ids[name], ()))
            moved = MovedKeys([kind for _, kind in instance.columns]) if is_in_doubt else None
            encoder = RowEncoder(shape, columns, key, is_kept=self._wanted.keeps_unreadable, moved=moved)
            self._encoders[instance.id] = encoder
        return self._encoders[instance.id]
