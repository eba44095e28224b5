"""The index of an event log, without Spark: the place of each event, in the order of all events.

The log is authoritative. An index may be deleted at any time, and a damaged index, or one of another log, is rebuilt.
Each index is a SQLite file with a unique name, so that SQLite never applies the journal of a deleted index to its
successor.
"""

from __future__ import annotations

import hashlib
import socket
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from framework.foundation.files.private_files import make_private_folder, write_private_file
from framework.foundation.files.storage_port import FileStatus, Storage
from framework.record.events import EventLevel, parse_event
from framework.record.reader import event_files, file_path, place_of, written_at

_APPLICATION, _FORMAT = 0x51CE, 1
_BUSY_SECONDS = 30.0
_RANKS = {level: level.rank for level in EventLevel}
_PLACE = "age, capped, timestamp, update_id, sequence, id"
_TABLES = f"""
BEGIN;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_FORMAT};
CREATE TABLE log (root TEXT NOT NULL);
CREATE TABLE datasets (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE files (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, modified_at REAL NOT NULL,
    read INTEGER NOT NULL, last_start INTEGER NOT NULL, last_id TEXT NOT NULL, newest TEXT NOT NULL
);
CREATE TABLE events (
    age TEXT NOT NULL, capped REAL NOT NULL, timestamp TEXT NOT NULL, update_id TEXT NOT NULL,
    sequence INTEGER NOT NULL, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, level INTEGER NOT NULL, dataset TEXT,
    file INTEGER NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL, PRIMARY KEY ({_PLACE})
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The place of an event: its id, the name of its file, and the byte range of its line."""

    id: str
    file: str
    start: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions on wanted events; None for no restriction.

    Args:
        level: the lowest level.
        datasets: full names of the wanted datasets.
    """

    type: str | None = None
    level: EventLevel | None = None
    datasets: frozenset[str] | None = None
    update_id: str | None = None

    @property
    def clauses(self) -> list[tuple[str, list[Any]]]:
        """The conditions as SQL clauses with their values."""
        found: list[tuple[str, list[Any]]] = []
        if self.type is not None:
            found.append(("type = ?", [self.type]))
        if self.level is not None:
            found.append(("level >= ?", [_RANKS[self.level]]))
        if self.datasets is not None:
            found.append((f"dataset IN ({', '.join('?' * len(self.datasets))})", sorted(self.datasets)))
        if self.update_id is not None:
            found.append(("update_id = ?", [self.update_id]))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indexed:
    """The indexed part of a log file.

    Args:
        size, modified_at: the size and time in the listing of the files.
        read: the position after the last complete line that is indexed.
        last_start, last_id: the position and id of the last event; the id is empty if there is none.
        newest: the newest timestamp; empty if there is no event.
    """

    number: int
    size: int = 0
    modified_at: float = 0.0
    read: int = 0
    last_start: int = 0
    last_id: str = ""
    newest: str = ""


class EventIndex:
    """An open index of one event log.

    Args:
        storage: the storage with the log.
        database: the index.
    """

    def __init__(self, storage: Storage, database: sqlite3.Connection) -> None:
        self._storage = storage
        self._database = database

    def refresh(self) -> None:
        """Index the complete lines written since the last refresh, and remove deleted files."""
        files = sorted(event_files(self._storage), key=lambda file: (file.modified_at, file.name))
        wanted = {file.name: (file.size, file.modified_at) for file in files}
        if self._listed() == wanted:
            return
        with self._writing():
            known = self._listed()  # another reader may have refreshed first
            for name in known.keys() - wanted.keys():
                self._forget(name)
            for file in files:
                if known.get(file.name) != wanted[file.name]:
                    self._refresh_file(file)

    def forget(self, names: frozenset[str]) -> None:
        """Remove log files from the index; the next `refresh` reads those that still exist as a whole."""
        with self._writing():
            for name in names:
                self._forget(name)

    def datasets(self) -> frozenset[str]:
        """Return the full names of all datasets that any event was ever about."""
        return frozenset(name for (name,) in self._database.execute("SELECT name FROM datasets"))

    def before(self, event_id: str | None, wanted: Conditions, limit: int | None) -> list[Entry] | None:
        """Return the last events before an event, newest first; None if the log does not have that event.

        Args:
            event_id: the id of the event; None for the end of the log.
            wanted: conditions on the events.
            limit: the maximum number of events; None for all.
        """
        clauses = wanted.clauses
        if event_id is not None:
            place = self._database.execute(f"SELECT {_PLACE} FROM events WHERE id = ?", (event_id,)).fetchone()
            if place is None:
                return None
            clauses.append((f"({_PLACE}) < (?, ?, ?, ?, ?, ?)", list(place)))
        where = f"WHERE {' AND '.join(clause for clause, _ in clauses)}" if clauses else ""
        order = ", ".join(f"{column} DESC" for column in _PLACE.split(", "))
        name = "(SELECT name FROM files WHERE number = file)"
        query = f"SELECT id, {name}, start, length FROM events {where} ORDER BY {order} LIMIT ?"
        values = [value for _, found in clauses for value in found]
        rows = self._database.execute(query, (*values, -1 if limit is None else limit))
        return [Entry(id=each, file=file, start=start, length=length) for each, file, start, length in rows]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:  # commits, or rolls back
            yield

    def _listed(self) -> Mapping[str, tuple[int, float]]:
        found = self._database.execute("SELECT name, size, modified_at FROM files")
        return {name: (size, modified_at) for name, size, modified_at in found}

    def _forget(self, name: str) -> None:
        found = self._indexed(name)
        if found is not None:
            self._database.execute("DELETE FROM events WHERE file = ?", (found.number,))
            self._database.execute("DELETE FROM files WHERE number = ?", (found.number,))

    def _indexed(self, name: str) -> _Indexed | None:
        names = _Indexed.__slots__
        row = self._database.execute(f"SELECT {', '.join(names)} FROM files WHERE name = ?", (name,)).fetchone()
        return None if row is None else _Indexed(**dict(zip(names, row, strict=True)))

    def _refresh_file(self, file: FileStatus) -> None:
        """Index a file up to its listed size: the places of events depend on the size and time of one listing."""
        found = self._indexed(file.name)
        if found is not None and (file.size < found.read or not self._is_same(file, found)):
            self._forget(file.name)  # it is another file with the same name
            found = None
        if found is None:
            insert = "INSERT INTO files VALUES (NULL, ?, 0, 0, 0, 0, '', '')"
            found = _Indexed(number=int(self._database.execute(insert, (file.name,)).lastrowid or 0))
        elif found.newest >= min(written_at(file.modified_at), written_at(found.modified_at)):
            self._move(found.number, file)
        found = self._add_lines(file, found)
        values = (found.read, found.last_start, found.last_id, found.newest)
        self._database.execute(
            "REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (found.number, file.name, file.size, file.modified_at, *values),
        )

    def _is_same(self, file: FileStatus, found: _Indexed) -> bool:
        """Whether the last indexed event is still at its indexed position."""
        if not found.last_id:
            return True
        line = self._storage.read_after(file_path(self._storage, file.name), found.last_start).partition(b"\n")[0]
        event = parse_event(line.decode(errors="replace"))
        return event is not None and event.id == found.last_id

    def _add_lines(self, file: FileStatus, found: _Indexed) -> _Indexed:
        """Index the complete lines after the indexed part, and return the file's new state."""
        content = self._storage.read_after(file_path(self._storage, file.name), found.read)[: file.size - found.read]
        complete, newline, _ = content.rpartition(b"\n")
        rows, start = [], found.read
        last_start, last_id, newest = found.last_start, found.last_id, found.newest
        for line in complete.split(b"\n"):
            event = parse_event(line.decode(errors="replace"))
            if event is not None:
                rows.append(
                    (
                        *place_of(event.timestamp, file.modified_at),
                        event.timestamp,
                        event.origin.update_id,
                        event.sequence,
                        event.id,
                        event.event_type.value,
                        _RANKS[event.level],
                        event.origin.dataset_name,
                        found.number,
                        start,
                        len(line),
                    )
                )
                last_start, last_id, newest = start, event.id, max(newest, event.timestamp)
            start += len(line) + 1
        names = {event_dataset for row in rows if (event_dataset := row[8]) is not None}
        self._database.executemany("INSERT OR IGNORE INTO datasets VALUES (?)", ((name,) for name in names))
        self._database.executemany(f"INSERT OR IGNORE INTO events VALUES ({', '.join('?' * 12)})", rows)
        read = found.read + len(complete) + len(newline)
        return replace(found, read=read, last_start=last_start, last_id=last_id, newest=newest)

    def _move(self, number: int, file: FileStatus) -> None:
        """Place the events that are not older than the file's former or present time by its present time."""
        query = "SELECT id, timestamp FROM events WHERE file = ? AND (capped < 9e999 OR timestamp >= ?)"
        for event_id, timestamp in self._database.execute(query, (number, written_at(file.modified_at))).fetchall():
            place = place_of(timestamp, file.modified_at)
            self._database.execute("UPDATE events SET age = ?, capped = ? WHERE id = ?", (*place, event_id))


@contextmanager
def open_index(storage: Storage, cache: Path | None) -> Iterator[EventIndex]:
    """Open the index of a log in a cache, or make a new one if there is no usable index.

    Args:
        storage: the storage with the log.
        cache: the user's cache; None for an index in memory.

    Raises:
        OSError, sqlite3.Error: the cache can't be written, or the index is damaged.
    """
    with closing(
        _made(":memory:", storage) if cache is None else _opened(storage, _folder(storage, cache))
    ) as database:
        yield EventIndex(storage, database)


def discard_index(storage: Storage, cache: Path) -> None:
    """Delete the index of a log; a reader that has it open can use it until it closes it."""
    for path in _indexes(_folder(storage, cache)):
        _delete(path)


def _folder(storage: Storage, cache: Path) -> Path:
    # A home directory may be shared by several machines, whose processes can't share a SQLite file.
    digest = hashlib.sha256(f"{socket.gethostname()} {storage.root}".encode()).hexdigest()
    return cache / "events" / digest[:16]


def _indexes(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.sqlite")) if folder.is_dir() else []


def _delete(path: Path) -> None:
    with suppress(OSError):
        for end in ("", "-wal", "-shm", "-journal"):
            path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


def _opened(storage: Storage, folder: Path) -> sqlite3.Connection:
    """Open the folder's first valid index of this log; there may be two if two readers made one at the same time."""
    make_private_folder(folder)
    opened: sqlite3.Connection | None = None
    for path in _indexes(folder):
        usable = None if opened is not None else _checked(path, storage)
        opened = opened or usable
        if usable is None:
            _delete(path)
    if opened is not None:
        return opened
    path = folder / f"{uuid.uuid4().hex}.sqlite"
    write_private_file(path, "")
    return _made(str(path), storage)


def _checked(path: Path, storage: Storage) -> sqlite3.Connection | None:
    """Open an index; None if it is damaged, unfinished, in another format or of another log."""
    database = _connected(str(path))
    try:
        found = [database.execute(f"PRAGMA {each}").fetchone()[0] for each in ("application_id", "user_version")]
        if found == [_APPLICATION, _FORMAT] and database.execute("SELECT root FROM log").fetchone() == (storage.root,):
            return database
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            database.close()
            raise
    database.close()
    return None


def _made(path: str, storage: Storage) -> sqlite3.Connection:
    database = _connected(path)
    database.executescript(_TABLES)
    database.execute("INSERT INTO log VALUES (?)", (storage.root,))
    database.execute("COMMIT")
    return database


def _connected(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    # A commit does not wait for the disk. After a power failure the index is an earlier, consistent one that catches
    # up.
    database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")
    return database


def is_busy(error: sqlite3.Error) -> bool:
    """Whether an index could not be used because another reader writes to it."""
    return error.sqlite_errorcode == sqlite3.SQLITE_BUSY
