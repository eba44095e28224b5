"""Where an XA transaction was prepared whose begin was not read: before the position at which a copy begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framework.sources.databases.mysql.log.places import FIRST_OFFSET, LogPlace
from framework.sources.databases.mysql.log.transactions import Commit, Events, Idle, NoTexts, TransactionReader
from framework.sources.databases.streams.change_rows import ChangeBuffer

_EARLIER = LogPlace("", 0)


def find_prepared(
    xid: str, before: LogPlace, files: Sequence[str], open_log: Callable[[LogPlace], Events]
) -> LogPlace | None:
    """Return where a transaction begins that is prepared at a place of the log; None if the log does not have it.

    Files are read from the last one back: most transactions are prepared for a short time.

    Args:
        xid: its name.
        before: the place.
        files: the files of the log, in their order.
        open_log: opens the log at a place.

    Raises:
        SourceError: the log can't be read.
    """
    end = before
    for file in reversed(files[: files.index(before.file) + 1] if before.file in files else ()):
        begin = LogPlace(file, FIRST_OFFSET, before.epoch)
        found = _prepared_at(xid, begin, end, open_log)
        if found != _EARLIER:
            return found
        end = begin
    return None


def _prepared_at(xid: str, begin: LogPlace, end: LogPlace, open_log: Callable[[LogPlace], Events]) -> LogPlace | None:
    """Return where it is prepared between two places; None if it was ended there, `_EARLIER` if it is not named."""
    if not begin < end:
        return _EARLIER
    events = open_log(begin)
    reader = TransactionReader(events, {}, ChangeBuffer(), NoTexts(), reopen=open_log, prepared={xid: _EARLIER})
    try:
        for step in reader.steps():
            if isinstance(step, Commit | Idle) and not step.place < end:
                break
    finally:
        events.close()
    return reader.prepared.get(xid)
