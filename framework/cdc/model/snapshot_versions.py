"""The versions of snapshots: their types, order and serialization."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql.types import DateType, LongType, StringType, TimestampType

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_INT = 2**63
_TYPES: dict[str, DataType] = {
    "int": LongType(),
    "str": StringType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotVersion:
    """A version that converts to JSON and SQL without loss.

    Args:
        kind: `int`, `str`, `date` or `timestamp`.
        value: the number or text; for a date its ISO text, for a timestamp the microseconds since 1970.
        aware: whether the Python value of a timestamp has a time zone.
    """

    kind: str
    value: int | str
    aware: bool = True

    @classmethod
    def of(cls, value: object) -> SnapshotVersion | None:
        """Return the version for a Python value; None if values of its type are not valid versions.

        Examples:
            >>> SnapshotVersion.of(date(2026, 1, 31)).value
            '2026-01-31'
            >>> SnapshotVersion.of(1.5) is None
            True
        """
        if isinstance(value, datetime):
            instant = value if value.tzinfo is not None else value.astimezone()
            return cls(kind="timestamp", value=(instant - _EPOCH) // _MICROSECOND, aware=value.tzinfo is not None)
        if isinstance(value, date):
            return cls(kind="date", value=value.isoformat())
        if isinstance(value, str):
            return cls(kind="str", value=value)
        if isinstance(value, int) and not isinstance(value, bool) and -_LONGEST_INT <= value < _LONGEST_INT:
            return cls(kind="int", value=value)
        return None

    @classmethod
    def from_json(cls, text: str) -> SnapshotVersion:
        """Return the version from the result of `to_json`."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Return the version as JSON."""
        return json.dumps(asdict(self))

    @property
    def data_type(self) -> DataType:
        """Return the sequence type of such versions."""
        return _TYPES[self.kind]

    @property
    def sql(self) -> str:
        """The version as an SQL literal that does not depend on the session's settings."""
        if self.kind == "timestamp":
            return f"timestamp_micros({self.value})"
        if self.kind == "date":
            return f"DATE'{self.value}'"
        if self.kind == "str":
            return f"CAST(X'{str(self.value).encode().hex()}' AS STRING)"
        return f"CAST('{self.value}' AS BIGINT)"

    def to_python(self) -> object:
        """Return the value that the user's function returned."""
        if self.kind == "date":
            return date.fromisoformat(str(self.value))
        if self.kind == "timestamp":
            instant = _EPOCH + int(self.value) * _MICROSECOND
            return instant if self.aware else instant.astimezone().replace(tzinfo=None)
        return self.value

    def is_comparable(self, other: SnapshotVersion) -> bool:
        """Return whether both versions have the same type."""
        return self.kind == other.kind

    def follows(self, other: SnapshotVersion) -> bool:
        """Return whether the version is greater than another of the same type; strings are ordered as in Spark."""
        assert self.is_comparable(other), (self, other)
        return self.value > other.value  # type: ignore[operator]  # one kind has one type


def version_at(now: datetime, *, after: SnapshotVersion | None) -> SnapshotVersion:
    """Return the version of a snapshot taken now; greater than `after`, even if the clock was set back."""
    version = SnapshotVersion(kind="timestamp", value=(now - _EPOCH) // _MICROSECOND)
    if after is None or version.follows(after):
        return version
    return SnapshotVersion(kind="timestamp", value=int(after.value) + 1)
