"""Places in a log whose files have more bytes than the 32 bits of its events can say, and events of many packets."""

from __future__ import annotations

from typing import NoReturn

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.history import WatchedStream
from framework.sources.databases.mysql.log.binlog_connection import LogRefusedError, LogStart
from framework.sources.databases.mysql.log.events import EventType
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.log.transactions import Commit, Idle, TransactionReader
from framework.sources.databases.streams.change_rows import ChangeBuffer
from tests.support.written_log import WrittenFile, WrittenLog, encode_event

_GIB = 1 << 30


def _large() -> WrittenLog:
    """A file with transactions of several GiB, some of which end at a multiple of 4 GiB, and the file after it."""
    first, second = WrittenFile("binlog.000001", seconds=11), WrittenFile("binlog.000002", seconds=22)
    first.transact(1)
    first.transact(2, ends_at=4 * _GIB + 1000)
    first.transact(3)
    first.transact(4, ends_at=8 * _GIB)
    first.transact(5)
    first.add(EventType.ROTATE, (4).to_bytes(8, "little") + b"binlog.000002")
    for number in (6, 7):
        second.transact(number)
    return WrittenLog([first, second])


def _stream(log: WrittenLog, place: LogPlace) -> WatchedStream:
    return WatchedStream(Connection(name="bank", uri="mysql://h/d"), log.connect, LogStart(server_id=1, place=place))


def _commits(log: WrittenLog, place: LogPlace) -> list[Commit]:
    """Return the transactions after a place, up to the end of the log."""
    stream = _stream(log, place)
    reader = TransactionReader(stream, {}, ChangeBuffer(), _NoTexts(), reopen=lambda _: pytest.fail("no XA here"))
    found = []
    *_, last = log.files.values()
    end = LogPlace(last.name, last.end)
    for step in reader.steps():
        assert not step.place < place  # type: ignore[union-attr]
        if isinstance(step, Commit):
            found.append(step)
        if isinstance(step, Commit | Idle) and step.place == end:
            break
    stream.close()
    return found


class _NoTexts:
    def decoder(self, collation: int) -> NoReturn:
        pytest.fail(f"no table of the collation {collation} is copied")


def _read_all(stream: WatchedStream) -> None:
    while stream.read() is not None:
        pass


def test_places_grow_beyond_the_bits_of_an_event() -> None:
    """Begins and ends are those of the file, also of an event whose end has no low bits."""
    log = _large()
    commits = _commits(log, LogPlace("binlog.000001", 4))
    ends = [commit.place.offset for commit in commits]
    assert [commit.gtid for commit in commits] == [f"0-1-{number}" for number in range(1, 8)]
    assert (ends[1], ends[3], commits[2].begin.offset) == (4 * _GIB + 1000, 8 * _GIB, 4 * _GIB + 1000)
    orders = [commit.place.order for commit in commits]
    assert orders == sorted({*orders})


def test_a_reading_goes_on_from_each_place_of_a_large_file() -> None:
    """No transaction comes twice, none is lost, and the file is recognized; also in the file that follows."""
    log = _large()
    commits = _commits(log, LogPlace("binlog.000001", 4))
    for number, commit in enumerate(commits):
        if number < len(commits) - 1:
            assert _commits(log, commit.place) == commits[number + 1 :]
        stream = _stream(log, commit.place)
        while not stream.begun:
            stream.read()
        assert stream.begun == (11 if commit.place.file == "binlog.000001" else 22)
        stream.close()


def _compressed(*, spoilt: bool = False) -> WrittenLog:
    """A transaction of MySQL whose payload has three packets; spoilt in its last one."""
    rows = [encode_event(EventType.ROWS_QUERY, bytes([number]) * 5_000_000, end=0)[:-4] for number in range(8)]
    inner = b"".join(_resized(each) for each in [*rows, encode_event(EventType.XID, bytes(8), end=0)[:-4]])
    size = len(inner).to_bytes(8, "little")
    fields = b"\x01\x09\xfe" + size + b"\x02\x03\xfc\xff\x00" + b"\x03\x09\xfe" + size + b"\0"
    file = WrittenFile("binlog.000001")
    file.add(EventType.TRANSACTION_PAYLOAD, fields + inner)
    if spoilt:
        start, data = file.events.pop()
        file.events.append((start, data[:-1000] + bytes([data[-1000] ^ 1]) + data[-999:]))
    file.transact(2)
    return WrittenLog([file])


def _resized(event: bytes) -> bytes:
    """Return an event of a payload, which has no checksum, with the size that it has without it."""
    return event[:9] + len(event).to_bytes(4, "little") + event[13:]


def test_a_place_within_an_event_of_a_large_file_is_refused() -> None:
    """As the server refuses one that it can be asked for."""
    stream = _stream(_large(), LogPlace("binlog.000001", 4 * _GIB + 990))
    with pytest.raises(LogRefusedError, match="within an event"):
        _read_all(stream)
    stream.close()


def test_a_compressed_transaction_of_many_packets_is_read_as_a_stream() -> None:
    """Its events are read part by part, and what a caller leaves of them does not disturb the next event."""
    log = _compressed()
    assert [commit.gtid for commit in _commits(log, LogPlace("binlog.000001", 4))] == ["", "0-1-2"]
    stream = _stream(log, LogPlace("binlog.000001", 4))
    kinds = []
    while (event := stream.read()) is not None:
        kinds.append(event.kind)
        for _ in zip(range(1), event.rest, strict=False):
            assert len(event.data) < 1 << 24
    stream.close()
    assert kinds[2:] == [EventType.TRANSACTION_PAYLOAD, EventType.MARIA_GTID, EventType.XID]


def test_a_compressed_transaction_counts_when_its_checksum_was_read() -> None:
    """The checksum is at the end of the last packet: the commit before it is not delivered."""
    log = _compressed(spoilt=True)
    with pytest.raises(SourceError, match="the checksum of an event before"):
        _commits(log, LogPlace("binlog.000001", 4))
