"""Values that only MariaDB has: compressed columns, UUID, INET6 and INET4."""

from __future__ import annotations

import zlib
from itertools import takewhile

_STORED, _ZLIB = 0, 8


def decompress_column(data: bytes) -> bytes:
    """Return the value of a column with the attribute COMPRESSED.

    Raises:
        ValueError: it is compressed by another method.
    """
    if not data:
        return b""
    method, header = data[0] >> 4, data[0]
    if method == _STORED:
        return data[1:]
    if method != _ZLIB:
        msg = f"a column is compressed by the method {method}"
        raise ValueError(msg)
    # The low bits: whether the stream has no header of zlib, and the bytes of the length that follows.
    size = header & 7
    return zlib.decompress(data[1 + size :], -zlib.MAX_WBITS if header & 8 else zlib.MAX_WBITS)


def uuid_text(data: bytes) -> str:
    """Return a UUID, whose parts the log has in the order in which they are compared."""
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def inet6_text(data: bytes) -> str:
    """Return an address of IPv6 as the server writes it: with the parts of an embedded address of IPv4."""
    if not any(data[:10]) and (data[10:12] == b"\xff\xff" or (not any(data[10:12]) and any(data[12:14]))):
        return f"::{'ffff:' if data[10] else ''}{inet4_text(data[12:])}"
    parts = [f"{data[at] << 8 | data[at + 1]:x}" for at in range(0, len(data), 2)]
    # The first of the longest runs of zeros is left out, also one of a single zero.
    runs = [len(list(takewhile(lambda part: part == "0", parts[at:]))) for at in range(len(parts))]
    longest = max(runs)
    if not longest:
        return ":".join(parts)
    first = runs.index(longest)
    return f"{':'.join(parts[:first])}::{':'.join(parts[first + longest :])}"


def inet4_text(data: bytes) -> str:
    """Return an address of IPv4."""
    return ".".join(map(str, data))
