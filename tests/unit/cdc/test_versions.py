"""Versions of snapshots: valid values, their order, and their serialization."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from framework.cdc.model.snapshot_versions import SnapshotVersion, version_at

NOW = datetime(2026, 1, 31, 12, 30, 0, 250_000, tzinfo=UTC)
PAIRS = [
    (9, 10),
    ("a'\\", "b"),
    (date(1969, 12, 31), date(2026, 1, 1)),
    (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), NOW),
    (datetime(2026, 1, 1, 0, 0, 0, 1), datetime(2026, 7, 1)),  # noqa: DTZ001 - one without a zone goes back without
    (NOW, NOW.astimezone(timezone(timedelta(hours=-3))) + timedelta(microseconds=1)),
]


@pytest.mark.parametrize(("earlier", "later"), PAIRS)
def test_a_version_goes_through_a_file_and_keeps_its_order(earlier: object, later: object) -> None:
    """A function receives the value that it returned, and the later of two versions orders after the earlier."""
    first, second = SnapshotVersion.of(earlier), SnapshotVersion.of(later)
    assert first is not None
    assert second is not None
    assert (second.follows(first), first.follows(second), first.follows(first)) == (True, False, False)
    for version, value in ((first, earlier), (second, later)):
        assert SnapshotVersion.from_json(version.to_json()) == version
        assert version.to_python() == value


@pytest.mark.parametrize("value", [True, 1.5, Decimal(1), b"1", 2**63, (1, 2)])
def test_what_has_no_sure_order_is_no_version(value: object) -> None:
    """Booleans, fractions, bytes, huge numbers and tuples are rejected."""
    assert SnapshotVersion.of(value) is None


def test_versions_of_two_types_are_told_apart() -> None:
    """A date is no timestamp and a text no number."""
    versions = [SnapshotVersion.of(value) for value in (1, "1", date(2026, 1, 1), NOW)]
    assert all(a is b or not a.is_comparable(b) for a in versions if a for b in versions if b)


def test_a_snapshot_of_the_moment_comes_after_the_last_though_the_clock_was_set_back() -> None:
    """The version is the time, or the last version's next microsecond."""
    first = version_at(NOW, after=None)
    assert first.to_python() == NOW
    assert version_at(NOW + timedelta(seconds=1), after=first).to_python() == NOW + timedelta(seconds=1)
    assert version_at(NOW - timedelta(days=1), after=first).to_python() == NOW + timedelta(microseconds=1)
