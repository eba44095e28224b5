"""The open rows of a flow in the quarantine, which wait for a fix, as one line for operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from framework.foundation.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRows:
    """The open rows of one flow in the quarantine.

    Args:
        flow: the flow's full name.
        rows: the number of rows.
        since: the time when the first of these rows was quarantined.
    """

    flow: str
    rows: int
    since: datetime

    def __str__(self) -> str:
        """The line, with the command that shows the rows.

        Examples:
            >>> str(WaitingRows(flow="main.s.orders", rows=2, since=datetime(2026, 1, 31, 9, 30)))
            '2 rows of main.s.orders in quarantine since 2026-01-31 09:30:00: sluice quarantine show main.s.orders'
        """
        since = self.since.isoformat(sep=" ", timespec="seconds")
        rows = counted(self.rows, "row")
        return f"{rows} of {self.flow} in quarantine since {since}: sluice quarantine show {self.flow}"
