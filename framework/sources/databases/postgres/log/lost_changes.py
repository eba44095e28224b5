"""Detects changes of partitions that are not in the log.

A publication with `publish_via_partition_root` sends the changes of rows, and a TRUNCATE of the partitioned table. It
sends nothing when a single partition is attached with its rows, detached, dropped or truncated. So each update compares
the partitions with the partitions of the previous update, and with the partitions that were in the log since. A
partition that is created, or rewritten by VACUUM FULL, is not a loss: the transactions that wrote its rows show this.
If all partitions were truncated at once, it is not a loss if the log has a TRUNCATE of their table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from framework.foundation.clock import SystemClock
from framework.sources.databases.postgres.log.pgoutput import Begin, Relation, Truncate
from framework.sources.databases.postgres.log.reading import Goal, LogScan
from framework.sources.databases.postgres.log.seen_partitions import PartitionWatch, SeenPartitions, precedes
from framework.sources.databases.postgres.log.slot_status import read_flushed_end
from framework.sources.databases.postgres.log.stream import open_stream
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.partitions import (
    Partition,
    Partitions,
    has_attached_rows,
    has_rows,
    is_older,
    present_partitions,
)
from framework.sources.databases.tables import TableName

# A TRUNCATE changes the entries of all of them, so a later change of a single entry does not count as one.
_REWRITTEN = """
    SELECT s.xmin::text::bigint
    FROM pg_class AS c
    JOIN pg_class AS s ON s.oid IN (c.oid, c.reltoastrelid)
                       OR s.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = c.oid)
    WHERE c.oid = %s
    ORDER BY age(s.xmin) < 0 DESC, age(s.xmin) DESC LIMIT 1
"""
_ALTERED = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = %s AND xmin = %s::xid)"
_NUDGE = "SELECT pg_current_xact_id()::text"
_FEEDBACK_SECONDS = 1.0
_SLOT_WAIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The content of the log since the partitions were last compared.

    Args:
        seen: the partitions and truncates in the part that was read.
        unread: returns the partitions and truncates in the unacknowledged part, for a table by its oid.
    """

    seen: SeenPartitions
    unread: Callable[[int], SeenPartitions]


def unread_log(session: Session, slot: str, publication: str, table: int) -> SeenPartitions:
    """Return the partitions and truncates of a table, by its oid, in the unacknowledged part of the log.

    The server decodes and sends this whole part, so call it only in rare cases.

    Raises:
        SourceError: DATABASE_SLOT_IN_USE, or the database can't be read.
    """
    watch = _Watch(PartitionWatch([table]))
    end = read_flushed_end(session)
    clock = SystemClock()
    goal = Goal(end, None, clock, session.connection)
    stream = open_stream(
        session,
        slot=slot,
        publication=publication,
        start=0,
        feedback_seconds=_FEEDBACK_SECONDS,
        wait_seconds=_SLOT_WAIT_SECONDS,
        clock=clock,
    )
    with closing(stream):
        LogScan(end, watch.see).run(stream, goal, lambda: session.rows(_NUDGE))
    watch.partitions.commit()
    return watch.partitions.take()


class _Watch:
    """Passes the messages of the log to a watch, each with its transaction."""

    def __init__(self, partitions: PartitionWatch) -> None:
        self.partitions = partitions
        self._xid = 0

    def see(self, message: object) -> None:
        """Pass on a message."""
        match message:
            case Begin():
                self._xid = message.xid
            case Relation() as relation:
                self.partitions.relate(relation, self._xid)
            case Truncate() as truncate:
                self.partitions.truncate(truncate, self._xid)
            case _:
                pass


def lost_changes(session: Session, table: TableName, relation: int, before: Partitions, log: Log) -> str | None:
    """Return the change of partitions that the log lacks, as the end of a sentence; None without such a change.

    Args:
        session: of the database.
        table: the partitioned table.
        relation: its oid.
        before: its partitions in the last comparison.
        log: the content of the log since.

    Raises:
        SourceError: the database can't be read.
    """
    query = partial(session.rows, table=table)
    found = present_partitions(query, relation)
    links = {each.link for each in found}
    seen = log.seen.since({relation: before.oldest})
    gone = [name for link, name in before.links.items() if link not in links]
    known = {*map(int, before.files), *(each.oid for each in found)}
    gone += [each.name for oid, each in seen.partitions.items() if oid not in known]
    new = [each for each in found if each.is_leaf and each.link not in before.links]
    attached = [each.name for each in new if has_attached_rows(query, table, each)]
    truncated = _Truncates(session=session, table=table, relation=relation, before=before, log=log)
    compared = [each for each in found if str(each.oid) in before.files]
    filled = [each for each in compared if each.oid not in before.empty]
    empty = [each for each in compared if each.oid in before.empty and each.file != before.files[str(each.oid)]]
    # The file of a table has its oid as its number until the table is rewritten.
    created = [each for each in new if each.file not in (0, each.oid) and each.name not in attached]
    emptied = truncated.of_filled(filled) or truncated.of_empty([*empty, *created])
    # Name all of them: the operator may read only the rows of these partitions again.
    losses = {
        "was detached or dropped": gone,
        "was attached with its rows": attached,
        "was truncated": [each.name for each in emptied],
    }
    return "; ".join(f"{', '.join(names)} {what}" for what, names in losses.items() if names) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Truncates:
    """Finds partitions that lost rows by a TRUNCATE that is not in the log."""

    session: Session
    table: TableName
    relation: int
    before: Partitions
    log: Log

    def of_filled(self, known: Sequence[Partition]) -> Sequence[Partition]:
        """Return the truncated partitions among known ones that had rows before."""
        changed = [each for each in known if each.file != self.before.files[str(each.oid)]]
        older = is_older(f"'{int(self.before.horizon)}'::xid8::xid")
        emptied = [each for each in changed if not self._has_rows(each, older)]
        if not emptied or len(emptied) < len(known):
            return emptied
        # A TRUNCATE of the table gives all of them new files in one transaction; so does a TRUNCATE of all partitions.
        writers = {self._rewritten(each) for each in emptied}
        if len(writers) > 1:
            return emptied
        (writer,) = writers
        # Altering a column rewrites the rows. The copy is then held, see `drift`.
        is_altered = bool(self.session.rows(_ALTERED, [emptied[0].oid, str(writer)])[0][0])
        return () if is_altered or self._is_truncated(self.before.oldest, writer) else emptied

    def of_empty(self, rewritten: Sequence[Partition]) -> Sequence[Partition]:
        """Return the truncated partitions among rewritten ones that were empty before, or created since."""
        writers = {each: self._rewritten(each) for each in rewritten}
        emptied = {each: by for each, by in writers.items() if not self._has_rows(each, is_older(f"'{by}'::xid"))}
        return [each for each, by in emptied.items() if self._had_changes(each, by)]

    def _has_rows(self, partition: Partition, condition: str) -> bool:
        return has_rows(partial(self.session.rows, table=self.table), self.table, partition, condition)

    def _had_changes(self, partition: Partition, rewritten: int) -> bool:
        """Whether the log has changes of a partition from before its rewrite, and no TRUNCATE after them."""
        seen = self.log.seen.partitions.get(partition.oid) or self._unread().partitions.get(partition.oid)
        return seen is not None and precedes(seen.xid, rewritten) and not self._is_truncated(seen.xid, rewritten)

    def _is_truncated(self, first: int, last: int) -> bool:
        """Whether the log has a TRUNCATE of the table in a transaction from `first` to `last`.

        If there was a savepoint, `last` is its subtransaction, which has a higher id.
        """
        read = self.log.seen.truncates.get(self.relation)
        if read is not None and _is_between(first, read, last):
            return True
        unread = self._unread().truncates.get(self.relation)
        return unread is not None and _is_between(first, unread, last)

    def _unread(self) -> SeenPartitions:
        return self.log.unread(self.relation)

    def _rewritten(self, partition: Partition) -> int:
        """Return the transaction that created the present file of a partition."""
        return int(self.session.rows(_REWRITTEN, [partition.oid])[0][0])


def _is_between(first: int, xid: int, last: int) -> bool:
    return not precedes(xid, first) and not precedes(last, xid)
