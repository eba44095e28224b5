"""Tables with change tracking, with the versions from which their changes are kept."""

from __future__ import annotations

from dataclasses import dataclass

from framework.sources.databases.sqlserver.session import Session

_TRACKED = "SELECT object_id, begin_version, min_valid_version FROM sys.change_tracking_tables"


@dataclass(frozen=True, slots=True)
class TrackedTable:
    """A table with change tracking.

    Args:
        begin: the version at which it was enabled.
        oldest: the version from which all changes are kept.
    """

    begin: int
    oldest: int


def read_tracked(session: Session) -> dict[int, TrackedTable]:
    """Return the tables with change tracking, by object id.

    Raises:
        SourceError: the database can't be read.
    """
    return {number: TrackedTable(int(begin), int(oldest)) for number, begin, oldest in session.rows(_TRACKED)}
