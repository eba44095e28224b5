"""GTID_TAGGED events of MySQL ≥ 8.4: fields with numbers of variable length, each with its own number.

https://dev.mysql.com/doc/dev/mysql-server/latest/PageLibsMysqlSerialization.html
"""

from __future__ import annotations

from framework.sources.databases.mysql.log.events import HEADER_SIZE, Event, Gtid, uuid_text

_UUID_BYTES = 16
_FLAGS, _UUID, _NUMBER, _TAG, _LAST, _SEQUENCE, _IMMEDIATE = range(7)


def read_tagged_gtid(event: Event) -> Gtid:
    """Decode a GTID_TAGGED event.

    Raises:
        ValueError: it does not have the fields that this reader knows.
    """
    data = event.data
    _, at = read_number(data, HEADER_SIZE)  # version of the format
    _, at = read_number(data, at)  # size
    _, at = read_number(data, at)  # last field that must be understood
    uuid, tag, number, micros = b"", "", 0, event.seconds * 1_000_000
    while at < len(data):
        field, at = read_number(data, at)
        if field == _UUID:
            parts = []
            for _ in range(_UUID_BYTES):
                part, at = read_number(data, at)
                parts.append(part)
            uuid = bytes(parts)
        elif field == _TAG:
            size, at = read_number(data, at)
            tag, at = data[at : at + size].decode(), at + size
        elif field in (_NUMBER, _IMMEDIATE):
            value, at = read_signed(data, at) if field == _NUMBER else read_number(data, at)
            number, micros = (value, micros) if field == _NUMBER else (number, value)
        elif field in (_FLAGS, _LAST, _SEQUENCE):
            _, at = read_number(data, at)
        else:
            break  # later fields describe the commit, not the transaction
    if not uuid or not number:
        msg = "a tagged GTID has no source or no number"
        raise ValueError(msg)
    return Gtid(":".join(part for part in (uuid_text(uuid), tag, str(number)) if part), micros)


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and the index after it; the low ones of the first byte count the others."""
    first = data[at]
    extra = 0
    while extra < 8 and first >> extra & 1:
        extra += 1
    value = (
        int.from_bytes(data[at : at + extra + 1], "little") >> extra + 1
        if extra < 8
        else int.from_bytes(data[at + 1 : at + 9], "little")
    )
    return value, at + extra + 1


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    """Return a number whose lowest bit is its sign, and the index after it."""
    value, at = read_number(data, at)
    return (-(value >> 1) - 1 if value & 1 else value >> 1), at
