"""The new events of one log, read from byte offsets: an idle log costs one system call."""

from __future__ import annotations

from collections.abc import Iterable

from framework.foundation.files.storage_port import FileStatus, Storage
from framework.record.events import Event, parse_event
from framework.record.log import EVENTS_FOLDER
from framework.record.reader import event_files, file_path

_LISTED_EVERY = 30
"""Every so many polls all files are listed, however the folder looks: another machine may write to it."""
_MOST_SEEN = 20_000
_LONGEST_LINE = 8_000_000


class _Position:
    """The size of a file when it was listed, and how much of it is read."""

    def __init__(self, *, size: int, read: int) -> None:
        self.size = size
        self.read = read


class LogTail:
    """Yields the events that are written to a log after it was made.

    Files only grow. A new file changes the time of the folder. Between listings only the files that grew lately are
    looked at, so the number of old updates does not matter.

    Args:
        storage: the storage with the log.
        from_start: whether the first poll returns the events that are already there.
    """

    def __init__(self, storage: Storage, *, from_start: bool = False) -> None:
        self._storage = storage
        self._folder = storage.path(EVENTS_FOLDER)
        self._positions: dict[str, _Position] = {}
        self._live: list[str] = []
        self._token = ""
        self._polls = 0
        self._seen: dict[str, None] = {}
        if not from_start:
            self._token = storage.folder_token(self._folder)
            files = event_files(storage)
            self._positions = {file.name: _Position(size=file.size, read=file.size) for file in files}
            self._live = _newest(files)

    def poll(self) -> list[Event]:
        """Return the new events, in the order of their times."""
        token = self._storage.folder_token(self._folder)
        if token != self._token or self._polls % _LISTED_EVERY == 0:
            self._list()
            self._token = token
        self._polls += 1
        fresh = [event for name in self._live for event in self._read(name) if event.id not in self._seen]
        self._seen.update(dict.fromkeys(event.id for event in fresh))
        if len(self._seen) > 2 * _MOST_SEEN:
            self._seen = dict.fromkeys([*self._seen][-_MOST_SEEN:])
        return sorted(fresh, key=lambda event: (event.timestamp, event.origin.update_id, event.sequence))

    def _list(self) -> None:
        files = {file.name: file for file in event_files(self._storage)}
        self._positions = {name: place for name, place in self._positions.items() if name in files}
        grown = [
            name
            for name, file in files.items()
            if name not in self._positions or self._positions[name].size < file.size
        ]
        for name in grown:
            self._positions.setdefault(name, _Position(size=0, read=0)).size = files[name].size
        self._live = list(dict.fromkeys([*grown, *_newest(files.values())]))

    def _read(self, name: str) -> list[Event]:
        place = self._positions.setdefault(name, _Position(size=0, read=0))
        content = self._storage.read_after(file_path(self._storage, name), place.read)
        if not content:
            return []
        complete, newline, rest = content.rpartition(b"\n")
        if len(rest) > _LONGEST_LINE:
            complete, newline = content, b""  # it is no event, and would be read again with each look
        place.read += len(complete) + len(newline)
        place.size = max(place.size, place.read)
        events = (parse_event(line.decode(errors="replace")) for line in complete.split(b"\n"))
        return [event for event in events if event is not None]


def _newest(files: Iterable[FileStatus]) -> list[str]:
    """Return the names of the files that were written last: updates run one after the other, an update in parts."""
    return [file.name for file in sorted(files, key=lambda file: (file.modified_at, file.name))[-2:]]
