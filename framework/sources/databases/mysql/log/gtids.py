"""Sets of the identifiers of transactions: of MySQL (`uuid[:tag]:1-5:7`) and of MariaDB (`domain-server-sequence`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Self

from framework.foundation.errors import SourceError

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_MARIA = re.compile(r"(\d+)-(\d+)-(\d+)")
_pack_count = Struct("<Q").pack
_pack_interval = Struct("<QQ").pack
Interval = tuple[int, int]
"""First and last number."""


def _invalid(text: str) -> SourceError:
    return SourceError("DATABASE_POSITION_INVALID", problem=f"`{text}` is not a set of transactions")


def _merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


class MySqlGtids:
    """An immutable set of the transactions of MySQL.

    Args:
        intervals: the intervals of numbers by source: a UUID, or a UUID and a tag with a colon between them.

    Examples:
        >>> ours = MySqlGtids.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:5")
        >>> str(ours.add("3e11fa47-71ca-11e1-9e33-c80aa9429562:4"))
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5'
    """

    def __init__(self, intervals: Mapping[str, Iterable[Interval]] | None = None) -> None:
        merged = {source: _merged(each) for source, each in (intervals or {}).items()}
        self._intervals = {source: merged[source] for source in sorted(merged) if merged[source]}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the set of a text, as `@@gtid_executed` has it.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        intervals: dict[str, list[Interval]] = {}
        for part in re.sub(r"\s", "", text).lower().split(","):
            if part:
                uuid, *members = part.split(":")
                if not _UUID.fullmatch(uuid) or not members:
                    raise _invalid(text)
                source = uuid
                for member in members:
                    source = _read_member(text, uuid, source, member, intervals)
        return cls(intervals)

    def contains(self, other: MySqlGtids) -> bool:
        """Whether every transaction of the other set is in this one."""
        return all(
            any(low <= first and last <= high for low, high in self._intervals.get(source, ()))
            for source, intervals in other._intervals.items()
            for first, last in intervals
        )

    def has(self, gtid: str) -> bool:
        """Whether a transaction is in the set."""
        source, _, number = gtid.rpartition(":")
        return any(first <= int(number) <= last for first, last in self._intervals.get(source, ()))

    def add(self, text: str) -> MySqlGtids:
        """Return the set with the transactions of a text."""
        return self.union(MySqlGtids.parse(text))

    def union(self, other: MySqlGtids) -> MySqlGtids:
        """Return the transactions of both sets."""
        sources = {*self._intervals, *other._intervals}
        return MySqlGtids(
            {source: (*self._intervals.get(source, ()), *other._intervals.get(source, ())) for source in sources}
        )

    def without(self, gtid: str) -> MySqlGtids:
        """Return the set without a transaction."""
        source, _, number = gtid.rpartition(":")
        left = []
        for first, last in self._intervals.get(source, ()):
            ends = [(first, last)] if not first <= int(number) <= last else []
            ends = ends or [(first, int(number) - 1), (int(number) + 1, last)]
            left += [(low, high) for low, high in ends if low <= high]
        return MySqlGtids({**self._intervals, source: left})

    def encode(self) -> bytes:
        """Return the set as COM_BINLOG_DUMP_GTID takes it: ends of intervals are exclusive.

        With tags, the number of sources is between two marks of the format, and each source has its tag.
        """
        tagged = any(":" in source for source in self._intervals)
        count = len(self._intervals)
        parts = [_pack_count(1 << 56 | count << 8 | 1 if tagged else count)]
        for source, intervals in self._intervals.items():
            uuid, _, tag = source.partition(":")
            parts.append(bytes.fromhex(uuid.replace("-", "")))
            if tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode())
            parts.append(_pack_count(len(intervals)))
            parts += [_pack_interval(first, last + 1) for first, last in intervals]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(
            source + "".join(f":{first}" if first == last else f":{first}-{last}" for first, last in intervals)
            for source, intervals in self._intervals.items()
        )

    def __repr__(self) -> str:
        return f"MySqlGtids.parse({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MySqlGtids) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return hash(str(self))


def _read_member(text: str, uuid: str, source: str, member: str, intervals: dict[str, list[Interval]]) -> str:
    """Add an interval, or begin the intervals of a tag; return the source of the next interval."""
    if _TAG.fullmatch(member):
        return f"{uuid}:{member}"
    match = _INTERVAL.fullmatch(member)
    if match is None:
        raise _invalid(text)
    first = int(match[1])
    last = int(match[2] or first)
    if not 0 < first <= last:
        raise _invalid(text)
    intervals.setdefault(source, []).append((first, last))
    return source


class MariaGtids:
    """An immutable position of MariaDB: the last transaction of each domain and server.

    Args:
        last: the sequence number and the server of the last transaction of each domain.

    Examples:
        >>> str(MariaGtids.parse("0-1-5").add("0-2-6"))
        '0-2-6'
        >>> MariaGtids.parse("0-2-6").contains(MariaGtids.parse("0-1-5"))
        True
    """

    def __init__(self, last: Mapping[int, tuple[int, int]] | None = None) -> None:
        self._last = {domain: last[domain] for domain in sorted(last)} if last else {}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position of a text, as `@@gtid_binlog_pos` has it.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        last: dict[int, tuple[int, int]] = {}
        for part in re.sub(r"\s", "", text).split(","):
            if part:
                match = _MARIA.fullmatch(part)
                if match is None:
                    raise _invalid(text)
                domain, server, sequence = (int(group) for group in match.groups())
                last[domain] = max(last.get(domain, (0, 0)), (sequence, server))
        return cls(last)

    def contains(self, other: MariaGtids) -> bool:
        """Whether this position is not before the other in any domain; sequence numbers grow in a domain."""
        return all(self._last.get(domain, (0, 0))[0] >= each[0] for domain, each in other._last.items())

    def add(self, text: str) -> MariaGtids:
        """Return the position after the transactions of a text, which follow in the log."""
        added = MariaGtids.parse(text)
        return MariaGtids({**self._last, **added._last})  # noqa: SLF001 - of the same class

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{sequence}" for domain, (sequence, server) in self._last.items())

    def __repr__(self) -> str:
        return f"MariaGtids.parse({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MariaGtids) and self._last == other._last

    def __hash__(self) -> int:
        return hash(str(self))


def maria_state(*texts: str) -> dict[tuple[int, int], int]:
    """Return the last sequence number of each domain and server, of texts such as `@@gtid_binlog_state` has.

    Examples:
        >>> maria_state("0-1-5,0-2-6", "0-1-7")
        {(0, 1): 7, (0, 2): 6}

    Raises:
        SourceError: DATABASE_POSITION_INVALID.
    """
    found: dict[tuple[int, int], int] = {}
    for part in ",".join(texts).split(","):
        if part.strip():
            match = _MARIA.fullmatch(part.strip())
            if match is None:
                raise _invalid(part)
            domain, server, sequence = (int(group) for group in match.groups())
            found[domain, server] = max(sequence, found.get((domain, server), 0))
    return found


def state_text(state: Mapping[tuple[int, int], int]) -> str:
    """Return the text of a state."""
    return ",".join(f"{domain}-{server}-{sequence}" for (domain, server), sequence in sorted(state.items()))
