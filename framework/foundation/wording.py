"""Texts for counts, durations and exceptions, shared by progress, summaries and tables."""

from __future__ import annotations

import re

from framework.foundation.secrets.known_secrets import hide_known

_LONGEST_MESSAGE = 500
_FILES_NAME = re.compile(r"`?__sluice_files_\d+`?")
_RECORD_COLUMN = re.compile(r"`?__sluice_record`?")


def rows_text(written: int | None, upserted: int, deleted: int) -> str:
    """Return the number of rows that a flow wrote, or upserted and deleted; empty if they were not counted.

    Examples:
        >>> rows_text(1204, 0, 0), rows_text(None, 27004, 3), rows_text(None, 0, 0)
        ('1,204', '27,004 upserted, 3 deleted', '')
    """
    if upserted or deleted:
        parts = [f"{upserted:,} upserted"] if upserted else []
        return ", ".join([*parts, *([f"{deleted:,} deleted"] if deleted else [])])
    return "" if written is None else f"{written:,}"


def seconds_text(seconds: float | None) -> str:
    """Return a duration in readable units; empty for None.

    Examples:
        >>> seconds_text(4.13), seconds_text(83.0), seconds_text(7265.0)
        ('4.1 s', '1 min 23 s', '2 h 1 min')
    """
    if seconds is None:
        return ""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def quality_text(failed: int, dropped: int) -> str:
    """Return the numbers of rows that violated expectations and that were dropped; empty if both are 0.

    Examples:
        >>> quality_text(31, 20), quality_text(31, 0), quality_text(0, 0)
        ('31 failed, 20 dropped', '31 failed', '')
    """
    if not failed and not dropped:
        return ""
    return f"{failed:,} failed" + (f", {dropped:,} dropped" if dropped else "")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in singular or plural.

    Examples:
        >>> counted(1, "flow"), counted(3, "flow")
        ('1 flow', '3 flows')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def bytes_text(number: int) -> str:
    """Return a size as text.

    Examples:
        >>> bytes_text(999), bytes_text(1_234), bytes_text(2_345_678), bytes_text(5_000_000_000)
        ('999 bytes', '1.2 KB', '2.3 MB', '5.0 GB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"


def without_internal_names(text: str) -> str:
    """Return Spark's text about a Sluice query, with the record of a file in place of its internal column.

    In the same way, internal names are replaced by the SQL function that reads the files.

    Examples:
        >>> without_internal_names("In `from_json(`__sluice_record`)`"), without_internal_names("`__sluice_files_3`.id")
        ('In `from_json(the record)`', 'read_files.id')
    """
    return _FILES_NAME.sub("read_files", _RECORD_COLUMN.sub("the record", text))


def exception_text(error: BaseException) -> str:
    r"""Return type and message of an exception in one line; only the type if the message is empty or can't be computed.

    Examples:
        >>> exception_text(KeyError("k")), exception_text(ValueError()), exception_text(OSError("a\n  b"))
        ("KeyError: 'k'", 'ValueError', 'OSError: a b')
    """
    kind = type(error).__name__
    try:
        message = one_line(str(error))
    except Exception:  # noqa: BLE001 - user classes may have a `__str__` that raises
        return kind
    return f"{kind}: {message}" if message else kind


def printable(text: str) -> str:
    r"""Return a text with escaped control characters, so that it can't break a line or control a terminal.

    Examples:
        >>> printable("a\nb"), printable("\x1b[2J")
        ('a\\nb', '\\x1b[2J')
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def printable_lines(text: str) -> str:
    r"""Return a multi-line text with all other control characters escaped; tabs are kept.

    Examples:
        >>> printable_lines("a\r\n\tb\x1b[2J")
        'a\n\tb\\x1b[2J'
    """
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)


def one_line(text: str) -> str:
    r"""Return a text in one line without control characters and known secrets, truncated to 500 characters.

    Examples:
        >>> one_line("first\n   second \x1b[2J")
        'first second \\x1b[2J'
    """
    # Secrets first: a partial secret, or one with joined lines, would not be found.
    joined = printable(" ".join(hide_known(text).split()))
    return joined if len(joined) <= _LONGEST_MESSAGE else f"{joined[:_LONGEST_MESSAGE]} …"
