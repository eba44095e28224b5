"""Values of the log as two readers give them, brought to one form: ours as JSON, and the judge's as plain texts."""

from __future__ import annotations

import base64
import codecs
import datetime as dt
import ipaddress
import json
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a date with a time has no zone
_MICROSECOND = dt.timedelta(microseconds=1)
_GREGORIAN = (dt.datetime(1582, 10, 15) - _EPOCH) // _MICROSECOND  # noqa: DTZ001 - likewise
_CODECS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf32": "utf-32-be"}
_CODECS |= {"greek": "iso8859_7", "sjis": "shift_jis", "euckr": "euc_kr"}
# The code page of Windows; what that leaves free is a control character.
_LATIN1 = "".join(
    bytes([byte]).decode("latin-1" if byte in b"\x81\x8d\x8f\x90\x9d" else "cp1252") for byte in range(256)
)
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_SPATIAL = ("geometry", "point")
_OPAQUE = re.compile(r"(-?\d+:|\d{4}-\d\d-\d\d )[\d:]+\.\d{6}|base64:type\d+:.*")

Value = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Both:
    """How the values of a column are compared.

    Args:
        ours: of a value of our payload, as text.
        theirs: of a text of the judge.
    """

    ours: Value
    theirs: Value


@dataclass(frozen=True, slots=True)
class Difference:
    """A known difference, in which our value is right.

    Args:
        kinds: the first words of the types.
        is_it: whether two values differ for this reason.
        reason: why, and how it is known that ours is right.
    """

    kinds: tuple[str, ...]
    is_it: Callable[[object, object], bool]
    reason: str


def kind_of(ddl: str) -> str:
    """Return the first word of a type."""
    return re.match(r"\w+", ddl)[0]  # type: ignore[index]


def both_of(ddl: str, *, is_mariadb: bool) -> Both:
    """Return how the values of a type are compared."""
    kind = kind_of(ddl)
    if kind in _BITS:
        most = 1 << _BITS[kind]
        is_unsigned = "unsigned" in ddl or "zerofill" in ddl
        return Both(int, lambda text: int(text) % most if is_unsigned else int(text))
    if kind in _TEXTS or (kind == "json" and is_mariadb):
        return Both(str, lambda text: _decoded(bytes.fromhex(text[1:]), ddl))
    if kind in ("enum", "set"):
        labels = [label.replace("''", "'") for label in re.findall(r"'((?:[^']|'')*)'", ddl)]
        return Both(str, _labels(labels) if kind == "set" else lambda text: ["", *labels][int(text)])
    if kind == "bit":
        return Both(_bits, int)
    if kind in _KINDS:
        return _KINDS[kind]
    assert kind in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector", *_SPATIAL), ddl
    size = int(re.search(r"\d+", ddl)[0]) if kind == "binary" else 0  # type: ignore[index]
    return Both(base64.b64decode, lambda text: bytes.fromhex(text[1:]).ljust(size, b"\0"))


def _labels(labels: list[str]) -> Value:
    return lambda text: ",".join(label for index, label in enumerate(labels) if int(text) >> index & 1)


def _bits(text: str) -> int:
    # A column of one bit is a boolean.
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int.from_bytes(base64.b64decode(text))


def _decoded(data: bytes, ddl: str) -> str:
    found = re.search(r"character set (\w+)", ddl)
    name = found[1] if found else "utf8mb4"
    if name == "latin1":
        return codecs.charmap_decode(data, "strict", _LATIN1)[0]
    return data.decode(_CODECS.get(name, name), "replace")


def _micros(text: str) -> int:
    return (dt.datetime.fromisoformat(text.removesuffix("Z")) - _EPOCH) // _MICROSECOND


def _time(text: str) -> int:
    hours, minutes, seconds = text.removeprefix("-").split(":")
    micros = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)
    return -micros if text.startswith("-") else micros


def _padded(text: str, size: int) -> bytes:
    return bytes.fromhex(text[1:]).ljust(size, b"\0")


def _document(text: str) -> object:
    return json.loads(text)


_KINDS: Mapping[str, Both] = {
    "year": Both(int, int),
    "float": Both(lambda text: struct.pack("<f", float(text)), lambda text: struct.pack("<f", float(text))),
    "double": Both(lambda text: struct.pack("<d", float(text)), lambda text: struct.pack("<d", float(text))),
    "decimal": Both(str, str),
    "date": Both(_micros, int),
    "datetime": Both(_micros, int),
    "timestamp": Both(_micros, int),
    "time": Both(_time, int),
    "json": Both(_document, lambda text: _document(text[1:])),
    "uuid": Both(uuid.UUID, lambda text: uuid.UUID(bytes=_padded(text, 16))),
    "inet6": Both(ipaddress.IPv6Address, lambda text: ipaddress.IPv6Address(_padded(text, 16))),
    "inet4": Both(ipaddress.IPv4Address, lambda text: ipaddress.IPv4Address(_padded(text, 4))),
}


def _is_julian(ours: object, theirs: object) -> bool:
    if not (isinstance(ours, int) and isinstance(theirs, int)) or ours >= _GREGORIAN:
        return False
    days, rest = divmod(theirs - ours, 86_400_000_000)
    return rest == 0 and -2 <= days <= 10


def _is_opaque(ours: object, theirs: object) -> bool:
    """Whether documents differ in texts of opaque values alone."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [*ours] == [*theirs] and all(_is_opaque(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_is_opaque, ours, theirs))
    is_text = isinstance(ours, str) and isinstance(theirs, str)
    return ours == theirs or (is_text and _OPAQUE.fullmatch(str(ours)) is not None)


DIFFERENCES = (
    Difference(
        ("json",),
        _is_opaque,
        "Times and bytes in a document: the library has a form of its own, and ours is the server's.",
    ),
    Difference(("year",), lambda ours, theirs: (ours, theirs) == (0, 1900), "The year 0: the server shows 0000."),
    Difference(
        ("time",),
        lambda ours, theirs: isinstance(ours, int) and ours < 0 and theirs != ours,
        "The library reads times below zero as if they had no sign; the server shows ours.",
    ),
    Difference(
        ("varchar",),
        lambda ours, theirs: "\ufffd" in str(theirs) and str(theirs).replace("\ufffd", "?") == ours,
        "A byte without a letter, which the server shows as a question mark.",
    ),
    Difference(
        ("varchar",),
        lambda ours, theirs: str(theirs).replace("\uff3c", "\\") == ours,
        "The wide backslash of Shift JIS, which the server shows as a plain one.",
    ),
    Difference(
        ("date", "datetime"),
        _is_julian,
        "The library counts days before 1582 by the Julian calendar, the server does not.",
    ),
)
"""All differences; `test_mysql_binlog_values` compares our values with what the server shows."""
