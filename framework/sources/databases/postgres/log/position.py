"""The position at a PostgreSQL source: a publication and a replication slot.

The order of the steps, and why no change is lost:

1. Create the publication first: a change is in the log only if its table is in the publication when it is made.
2. Create the slot. It sends transactions whose commit record is at or after its consistent point.
3. Wait for the end of every transaction that was running when 1 and 2 were done. A transaction that wrote before 1 and
   committed after it is in the log in part or not at all. A transaction that committed before 2 may still be invisible,
   because a commit record is written before the commit becomes visible. After the wait both have ended.
4. Only then may the caller read its snapshot. It sees all transactions that are not completely in the log. A change
   that is both in the snapshot and in the log is applied again, in the order of the log, with the same result.

A table that is added later goes through 1, 3 and 4: its snapshot is read after `ensure_position` has returned. If a
process is killed between 1 and 3, the publication stays marked as unsettled, and the next call waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from psycopg2 import errors, sql

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import SourceError, UserError
from framework.sources.databases.postgres.chunks.chunk_sql import quote_literal
from framework.sources.databases.postgres.faults import named_errors
from framework.sources.databases.postgres.log.position_check import StoredPosition, none_from
from framework.sources.databases.postgres.lsn import parse_lsn
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import SourceIdentity, read_identity
from framework.sources.databases.tables import TableName, quote_identifier

PLUGIN = "pgoutput"
IS_WAITING = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= "
"""The beginning of the statement that a session repeats while it waits for transactions; other sessions look for it."""
_LOCK = 0x536C75696365  # an advisory lock of the database, held while a position is created or dropped
_MARK = "Sluice: tables of the replication slot "
_UNSETTLED = " (unsettled)"
_OF = " of the storage "
_POLL_SECONDS = 0.02
_WAIT_SECONDS = 60.0

_RUNNING = """
SELECT coalesce(string_agg(DISTINCT coalesce(pid::text, 'prepared ' || quote_literal(gid)), ', '), 'none')
FROM pg_locks LEFT JOIN pg_prepared_xacts ON transaction = transactionid
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
"""

# A coordinator ends its prepared transactions at once: a prepared transaction older than a wait needs an operator.
_LEFT_BEHIND = """
SELECT string_agg(format('%%L in the database %%I', gid, database), ', ' ORDER BY prepared),
    (array_agg(format('ROLLBACK PREPARED %%L', gid) ORDER BY prepared))[1]
FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - %s * interval '1 second'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """A position that `ensure_position` made or found.

    Args:
        slot: the slot.
        publication: the publication.
        lsn: the position from which the slot sends; the consistent point of a new slot.
        identity: the server and the database.
        created: whether the slot is new.
        added: the tables that this call added to the publication: each needs a new snapshot.
    """

    slot: str
    publication: str
    lsn: int
    identity: SourceIdentity
    created: bool
    added: tuple[TableName, ...]

    def stored(self, lsn: int | None = None) -> StoredPosition:
        """Return the position that a checkpoint stores, at this LSN or at a later one."""
        return StoredPosition(
            slot=self.slot,
            publication=self.publication,
            lsn=self.lsn if lsn is None else lsn,
            identity=self.identity,
            last=none_from(self.lsn),
        )


def ensure_position(
    session: Session,
    slot: str,
    publication: str,
    tables: Sequence[TableName],
    *,
    reader: str = "",
    wait_seconds: float = _WAIT_SECONDS,
    clock: Clock | None = None,
) -> StartPosition:
    """Create the publication and the slot, or add missing tables; return when a snapshot may be read.

    Idempotent, and safe in several processes at once.

    Args:
        session: a session that is not read-only.
        slot: name of the slot.
        publication: name of the publication.
        tables: the tables to publish.
        reader: the root of the storage that reads the slot, `#`, and an id; empty for a reader without a storage.
        wait_seconds: how long to wait for other transactions, at each step.
        clock: for waiting.

    Raises:
        UserError: DATABASE_PUBLICATION_NOT_OURS, DATABASE_SLOT_NOT_OURS, DATABASE_SLOT_OF_OTHER_STORAGE.
        SourceError: DATABASE_POSITION_BUSY, DATABASE_TRANSACTIONS_OPEN, DATABASE_TRANSACTIONS_OPEN.PREPARED,
            DATABASE_POSITION_LOST.PUBLICATION, DATABASE_POSITION_LOST.TWO_PHASE, DATABASE_SLOTS_EXHAUSTED,
            DATABASE_WAL_LEVEL, DATABASE_STANDBY, and errors of statements, such as DATABASE_REPLICATION_ROLE.
    """
    assert session.raw.autocommit, "slot creation must not share a transaction with writes"
    work = _Work(session.raw.cursor(), slot, publication, wait_seconds, clock or SystemClock(), reader)
    with work.cursor, named_errors(session.connection), _lock(work):
        if _query(work, "SELECT pg_is_in_recovery()"):
            raise SourceError("DATABASE_STANDBY")
        has_slot = _find_slot(work)
        if _query(work, "SELECT two_phase FROM pg_replication_slots WHERE slot_name = %s", work.slot):
            raise SourceError("DATABASE_POSITION_LOST.TWO_PHASE", slot=work.slot)
        added, settled = _ensure_publication(work, tables, has_slot=has_slot)
        lsn = _slot_position(work) if has_slot else _create_slot(work)
        if not (settled and has_slot):
            _wait_for_running_transactions(work)
        if not settled:
            _mark(work, settled=True)
        return StartPosition(
            slot=slot,
            publication=publication,
            lsn=lsn,
            identity=read_identity(session),
            created=not has_slot,
            added=added,
        )


def settled_position(
    session: Session, slot: str, *, wait_seconds: float = _WAIT_SECONDS, clock: Clock | None = None
) -> int:
    """Return the end of the durable log, once every transaction that committed before it is visible.

    A snapshot that is read afterwards has all changes below this position.

    Args:
        session: any session of the database.
        slot: name of the slot, for messages.
        wait_seconds: how long to wait for the transactions that run now.
        clock: for waiting.

    Raises:
        SourceError: DATABASE_TRANSACTIONS_OPEN, DATABASE_TRANSACTIONS_OPEN.PREPARED, DATABASE_UNREACHABLE.
    """
    work = _Work(session.raw.cursor(), slot, slot, wait_seconds, clock or SystemClock())
    with work.cursor, named_errors(session.connection):
        # A crash of the server loses the unflushed log: later changes could then have positions below this one.
        lsn = parse_lsn(_query(work, "SELECT pg_current_wal_flush_lsn()::text"))
        _wait_for_running_transactions(work)
        return lsn


def drop_position(
    session: Session,
    slot: str,
    publication: str,
    *,
    reader: str = "",
    wait_seconds: float = _WAIT_SECONDS,
    clock: Clock | None = None,
) -> None:
    """Drop the slot and our publication if they exist; `reader` is as in `ensure_position`.

    Raises:
        UserError: DATABASE_PUBLICATION_NOT_OURS, DATABASE_SLOT_NOT_OURS, DATABASE_SLOT_OF_OTHER_STORAGE.
        SourceError: DATABASE_SLOT_IN_USE, DATABASE_POSITION_BUSY.
    """
    work = _Work(session.raw.cursor(), slot, publication, wait_seconds, clock or SystemClock(), reader)
    with work.cursor, named_errors(session.connection), _lock(work):
        comment = _publication_comment(work)
        if comment is not None:
            _require_ours(work, comment)
        if _find_slot(work):
            _drop_slot(work)
        work.cursor.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication)))


def slot_in_use(slot: str, pid: object) -> SourceError:
    """Return the error of a slot that another process reads."""
    return SourceError("DATABASE_SLOT_IN_USE", slot=slot, pid=pid)


@dataclass(frozen=True, slots=True)
class _Work:
    """The context that the steps share."""

    cursor: Any
    slot: str
    publication: str
    wait_seconds: float
    clock: Clock
    reader: str = ""


@contextmanager
def _lock(work: _Work) -> Iterator[None]:
    deadline = work.clock.monotonic() + work.wait_seconds
    while not _query(work, "SELECT pg_try_advisory_lock(%s)", _LOCK):
        if work.clock.monotonic() > deadline:
            raise SourceError("DATABASE_POSITION_BUSY", slot=work.slot, seconds=work.wait_seconds)
        work.clock.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if not work.cursor.connection.closed:
            _query(work, "SELECT pg_advisory_unlock(%s)", _LOCK)


def _query(work: _Work, query: str, *arguments: object) -> Any:
    """Return the single value of a query; None for no row."""
    work.cursor.execute(query, arguments)
    row = work.cursor.fetchone()
    return None if row is None else row[0]


def _ensure_publication(
    work: _Work, tables: Sequence[TableName], *, has_slot: bool
) -> tuple[tuple[TableName, ...], bool]:
    """Return the added tables, and whether all transactions from before the last addition have ended."""
    comment = _publication_comment(work)
    if comment is None and has_slot:
        # A publication that is made now is unknown to the log before this moment.
        raise SourceError("DATABASE_POSITION_LOST.PUBLICATION", slot=work.slot, publication=work.publication)
    if comment is not None:
        _require_ours(work, comment)
    missing = tuple(sorted(set(tables) - _published(work)))
    if comment is not None and not missing:
        settled = not comment.endswith(_UNSETTLED)
        if work.reader not in {"", _reader_of(work, comment)}:
            with suppress(errors.InsufficientPrivilege):  # the publication of a user; its slots can't be distinguished
                _mark(work, settled=settled)
        return (), settled
    # Without ONLY, its child tables are published, too, and the database refuses updates of a child without a key.
    names = sql.SQL(", ").join(sql.SQL("ONLY {}").format(sql.Identifier(name.schema, name.table)) for name in missing)
    publication = sql.Identifier(work.publication)
    if comment is not None:
        change = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(publication, names)
    else:
        listed = sql.SQL("FOR TABLE {}").format(names) if missing else sql.SQL("")
        options = sql.SQL("WITH (publish_via_partition_root = true)")
        change = sql.SQL("CREATE PUBLICATION {} {} {}").format(publication, listed, options)
    work.cursor.execute("BEGIN")
    try:
        work.cursor.execute(change)
        _mark(work, settled=False)
    except BaseException:
        work.cursor.execute("ROLLBACK")
        raise
    work.cursor.execute("COMMIT")
    return missing, False


def _mark(work: _Work, *, settled: bool) -> None:
    reader = f"{_OF}{work.reader}" if work.reader else ""
    comment = f"{_MARK}{work.slot}{reader}{'' if settled else _UNSETTLED}"
    work.cursor.execute(
        sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(work.publication), sql.Literal(comment))
    )


def mark_sql(slot: str, publication: str) -> str:
    """Return the statement with which the owner of a publication assigns it to a slot of Sluice."""
    return f"COMMENT ON PUBLICATION {quote_identifier(publication)} IS {quote_literal(f'{_MARK}{slot}')}"


def is_marked(comment: str, slot: str) -> bool:
    """Return whether the comment of a publication marks it as belonging to a slot of Sluice."""
    return comment.removesuffix(_UNSETTLED).partition(_OF)[0] == f"{_MARK}{slot}"


def _publication_comment(work: _Work) -> str | None:
    """Return the comment of the publication, '' without a comment; None if there is no publication."""
    found: str | None = _query(
        work,
        "SELECT coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = %s",
        work.publication,
    )
    return found


def _require_ours(work: _Work, comment: str) -> None:
    if not is_marked(comment, work.slot):
        statement = mark_sql(work.slot, work.publication)
        raise UserError(
            "DATABASE_PUBLICATION_NOT_OURS", publication=work.publication, slot=work.slot, statement=statement
        )
    _require_own_storage(work, _reader_of(work, comment))


def _reader_of(work: _Work, comment: str) -> str:
    """Return the reader in the comment of the publication; empty if a user created it."""
    return comment.removesuffix(_UNSETTLED).removeprefix(f"{_MARK}{work.slot}").removeprefix(_OF)


def _require_own_storage(work: _Work, other: str) -> None:
    """Refuse the slot of another storage, because that storage would miss the changes that are read here.

    A moved storage has its id at another root, and a recreated storage has another id at the same root.
    """
    (own_root, _, own_id), (root, _, id_) = work.reader.rpartition("#"), other.rpartition("#")
    if own_id and id_ and own_id != id_ and own_root != root:
        statement = (
            f"SELECT pg_drop_replication_slot({quote_literal(work.slot).strip()}); "
            f"DROP PUBLICATION {quote_identifier(work.publication)}"
        )
        raise UserError("DATABASE_SLOT_OF_OTHER_STORAGE", slot=work.slot, other=root, statement=statement)


def _published(work: _Work) -> set[TableName]:
    work.cursor.execute(
        "SELECT n.nspname, c.relname FROM pg_publication AS p JOIN pg_publication_rel AS r ON r.prpubid = p.oid"
        " JOIN pg_class AS c ON c.oid = r.prrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE p.pubname = %s",
        [work.publication],
    )
    return {TableName(schema=schema, table=table) for schema, table in work.cursor.fetchall()}


def _find_slot(work: _Work) -> bool:
    """Return whether the slot exists; refuse a slot that Sluice may not use or drop."""
    work.cursor.execute(
        "SELECT coalesce(plugin, 'none'), coalesce(database, 'none'), current_database(), temporary"
        " FROM pg_replication_slots WHERE slot_name = %s",
        [work.slot],
    )
    row = work.cursor.fetchone()
    if row is None:
        return False
    plugin, database, current, temporary = row
    if plugin != PLUGIN or database != current or temporary:
        raise UserError("DATABASE_SLOT_NOT_OURS", slot=work.slot, plugin=plugin, database=database)
    return True


def _slot_position(work: _Work) -> int:
    position = _query(work, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s", work.slot)
    if position is None:  # another process is creating it
        raise slot_in_use(work.slot, _active_pid(work))
    return parse_lsn(position)


def _create_slot(work: _Work) -> int:
    """Create the slot in a transaction of its own; the server waits for all running transactions."""
    _query(work, "SELECT set_config('statement_timeout', %s, false)", str(int(work.wait_seconds * 1000)))
    try:
        created = _query(work, "SELECT lsn FROM pg_create_logical_replication_slot(%s, %s)", work.slot, PLUGIN)
    except errors.QueryCanceled:
        raise _open_transactions(work) from None
    except errors.ConfigurationLimitExceeded:
        raise _no_slot_left(work) from None
    except errors.ObjectNotInPrerequisiteState:
        raise _without_log(work) or _no_slot_left(work) from None
    finally:
        if not work.cursor.connection.closed:
            _query(work, "SELECT set_config('statement_timeout', '0', false)")
    return parse_lsn(created)


def _no_slot_left(work: _Work) -> SourceError:
    most = int(_query(work, "SELECT current_setting('max_replication_slots')"))
    statement = f"ALTER SYSTEM SET max_replication_slots = {most + 1}"
    return SourceError("DATABASE_SLOTS_EXHAUSTED", most=most, statement=statement)


def _without_log(work: _Work) -> SourceError | None:
    """Return the error of a server whose log lacks row changes; None if the log has them."""
    level = _query(work, "SELECT current_setting('wal_level')")
    statement = "ALTER SYSTEM SET wal_level = 'logical'"
    return None if level == "logical" else SourceError("DATABASE_WAL_LEVEL", level=level, statement=statement)


def _wait_for_running_transactions(work: _Work) -> None:
    # A new id is above the ids of all running transactions. The end of a snapshot is not: it follows the newest ended
    # transaction, so a newer transaction may still run, for example one whose commit waits for a standby.
    newest = _query(work, "SELECT pg_current_xact_id()::text")
    deadline = work.clock.monotonic() + work.wait_seconds
    while not _query(work, f"{IS_WAITING}%s::xid8", newest):
        if work.clock.monotonic() > deadline:
            raise _open_transactions(work)
        work.clock.sleep(_POLL_SECONDS)


def _open_transactions(work: _Work) -> SourceError:
    work.cursor.execute(_LEFT_BEHIND, [work.wait_seconds])
    names, statement = work.cursor.fetchone()
    if names is not None:  # retries don't help
        return SourceError(
            "DATABASE_TRANSACTIONS_OPEN.PREPARED",
            slot=work.slot,
            seconds=work.wait_seconds,
            names=names,
            statement=statement,
        )
    return SourceError(
        "DATABASE_TRANSACTIONS_OPEN", slot=work.slot, seconds=work.wait_seconds, pids=_query(work, _RUNNING)
    )


def _drop_slot(work: _Work) -> None:
    deadline = work.clock.monotonic() + work.wait_seconds
    while True:
        try:
            _query(work, "SELECT pg_drop_replication_slot(%s)", work.slot)
        except errors.ObjectInUse:
            if work.clock.monotonic() > deadline:
                raise slot_in_use(work.slot, _active_pid(work)) from None
            work.clock.sleep(_POLL_SECONDS)
        except errors.UndefinedObject:
            return
        else:
            return


def _active_pid(work: _Work) -> object:
    return _query(work, "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", work.slot)
