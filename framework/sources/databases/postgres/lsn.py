"""Positions in the log of PostgreSQL (LSN): integers here, `high/low` hexadecimal text in SQL."""

from __future__ import annotations


def parse_lsn(text: str) -> int:
    """Return the position that PostgreSQL writes as this text.

    Examples:
        >>> parse_lsn("1/0000002A")
        4294967338
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Return the text of a position, as PostgreSQL writes it.

    Examples:
        >>> format_lsn(4294967338)
        '1/2A'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
