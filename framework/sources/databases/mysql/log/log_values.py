"""Values of the log as JSON: for each type, the parts of the generated code that turns bytes into a fragment.

Spark's `from_json` turns a fragment into exactly the value that a snapshot has.
"""

from __future__ import annotations

import datetime as dt
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring as encode_text
from typing import Any

from framework.sources.databases.mysql.log.decimals import decimal_reader, decimal_size, decimal_text
from framework.sources.databases.mysql.log.json_binary import json_text
from framework.sources.databases.mysql.log.maria_columns import decompress_column, inet4_text, inet6_text, uuid_text
from framework.sources.databases.mysql.log.table_map import FieldType, LogColumn, TextDecoder

_MOST_DIGITS = 38
_MOST_KEPT = 8192
_SECONDS_PER_DAY = 86_400
_EPOCH = dt.date(1970, 1, 1).toordinal()
_ONE_BYTE_LENGTH = 255


class ValueFaultError(Exception):
    """A value that the Spark type of its column can't hold.

    Args:
        column: the name of the column.
        type_name: its type.
        value: as the database writes it.
    """

    def __init__(self, column: LogColumn, value: str) -> None:
        super().__init__(f"{column.name}: {value}")
        self.column = column.name
        self.type_name = column.type_name
        self.value = value


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldCode:
    """The code for a column.

    Args:
        formats: the fixed part in codes of `struct`, in little-endian order; for a value of any length, its length.
        expression: of its variables `$0` and `$1`, the fixed parts in their order; for a value of any length, of `$0`,
            its bytes. The result has a fragment of JSON as its text.
        is_variable: whether bytes of any length follow.
        names: objects that the expression needs, whose names have `$i` for the number of the column.
    """

    formats: str
    expression: str
    is_variable: bool = False
    names: Mapping[str, Any] = field(default_factory=dict)


def field_code(column: LogColumn, *, as_text: bool, type_name: str, texts: TextDecoder) -> FieldCode | None:
    """Return the code for a column; None if values of its type can't be read.

    Args:
        column: the column.
        as_text: whether it is read as the database's text of the value.
        type_name: its type in the catalog, where the log does not have it; empty if unknown.
        texts: decodes texts.
    """
    make = _MAKERS.get(column.kind)
    if make is None:
        return None
    return make(_Wanted(column, as_text, type_name.lower(), texts))


@dataclass(frozen=True, slots=True)
class _Wanted:
    column: LogColumn
    as_text: bool
    type_name: str
    texts: TextDecoder

    def quoted(self, expression: str) -> str:
        """Return the expression of a number as a text, if text is wanted."""
        return f"'\"' + str({expression}) + '\"'" if self.as_text else expression


class _Kept(dict[int, str]):
    """Fragments by their packed values; the oldest are forgotten together when there are too many."""

    def __init__(self, make: Callable[[int], str], most: int = _MOST_KEPT) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, packed: int) -> str:
        if len(self) >= self._most:
            self.clear()
        made = self[packed] = self._make(packed)
        return made


def _integer(wanted: _Wanted) -> FieldCode:
    unsigned = wanted.column.is_unsigned
    if wanted.column.kind == FieldType.INT24:
        return FieldCode(formats="HB" if unsigned else "Hb", expression=wanted.quoted("($0 | $1 << 16)"))
    code = {FieldType.TINY: "b", FieldType.SHORT: "h", FieldType.LONG: "i", FieldType.LONGLONG: "q"}
    letter = code[FieldType(wanted.column.kind)]
    return FieldCode(formats=letter.upper() if unsigned else letter, expression=wanted.quoted("$0"))


def _year(wanted: _Wanted) -> FieldCode:
    if wanted.as_text:
        return FieldCode(formats="B", expression="f'\"{$0 + 1900 if $0 else 0:04d}\"'")
    return FieldCode(formats="B", expression="($0 + 1900 if $0 else 0)")


def _float(wanted: _Wanted) -> FieldCode:
    return FieldCode(formats="f" if wanted.column.kind == FieldType.FLOAT else "d", expression=wanted.quoted("$0"))


def _decimal(wanted: _Wanted) -> FieldCode:
    precision, scale = wanted.column.size >> 8, wanted.column.size & 255
    size = decimal_size(precision, scale)
    if precision > _MOST_DIGITS or wanted.as_text:
        return FieldCode(
            formats=f"{size}s",
            expression=f"'\"' + decimal_text($0, {precision}, {scale}) + '\"'",
            names={"decimal_text": decimal_text},
        )
    reader = decimal_reader(precision, scale)
    return FieldCode(formats=f"{size}s", expression="decimal$i(number($0, 'big'))", names={"decimal$i": reader})


def _date_text(year: int, month: int, day: int) -> str:
    return f"{year:04d}-{month:02d}-{day:02d}"


def _day(wanted: _Wanted, year: int, month: int, day: int) -> str:
    """Return the text of a date that exists, or of any if text is wanted."""
    text = _date_text(year, month, day)
    if not wanted.as_text:
        try:
            dt.date(year, month, day)
        except ValueError:
            raise ValueFaultError(wanted.column, text) from None
    return text


def _date(wanted: _Wanted) -> FieldCode:
    def make(packed: int) -> str:
        return f'"{_day(wanted, packed >> 9, packed >> 5 & 15, packed & 31)}"'

    return FieldCode(formats="HB", expression="date$i[$0 | $1 << 16]", names={"date$i": _Kept(make)})


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _packed_clock(packed: int) -> str:
    return f"{packed >> 12:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"


def _fraction(digits: int, *, as_text: bool) -> tuple[int, int, str]:
    """Return the bytes of a fraction, the factor to the shown digits, and their format."""
    size = (digits + 1) // 2
    if as_text:
        return size, 10 if digits % 2 else 1, f"0{digits}d"
    return size, 10 ** (6 - 2 * size), "06d"


def _with_fraction(moment: str, packed: str, digits: int, *, as_text: bool, suffix: str) -> str:
    """Return the expression of a moment with its fraction, whose bytes are the low ones of `packed`."""
    size, factor, form = _fraction(digits, as_text=as_text)
    if not size:
        ending = suffix if as_text else f".000000{suffix}"
        return f"f'\"{moment}{ending}\"'"
    part = f"{packed} & {(1 << 8 * size) - 1}"
    value = f"({part}) // {factor}" if as_text else f"({part}) * {factor}"
    return f"f'\"{moment}.{{{value}:{form}}}{suffix}\"'"


def _datetime(wanted: _Wanted) -> FieldCode:
    digits = wanted.column.size
    size = (digits + 1) // 2
    gap = " " if wanted.as_text else "T"

    def make(packed: int) -> str:
        months = packed >> 5
        return _day(wanted, months // 13, months % 13, packed & 31) + gap

    low = 8 * size
    # 40 bits: the sign, 17 bits of year and month, 5 of the day, 17 of the time.
    moment = f"{{day$i[(p$i >> {low + 17}) - {1 << 22}]}}{{clock[p$i >> {low} & 131071]}}"
    text = _with_fraction(moment, "p$i", digits, as_text=wanted.as_text, suffix="")
    return FieldCode(
        formats=f"{5 + size}s",
        expression=f"(p$i := number($0, 'big')) and {text}",
        names={"day$i": _Kept(make), "clock": _CLOCKS},
    )


_CLOCKS = _Kept(_packed_clock, _SECONDS_PER_DAY)
_SECONDS = _Kept(_clock, _SECONDS_PER_DAY)


def _timestamp(wanted: _Wanted) -> FieldCode:
    digits = wanted.column.size
    size = (digits + 1) // 2
    gap, suffix = (" ", "") if wanted.as_text else ("T", "Z")

    def make(day: int) -> str:
        return dt.date.fromordinal(_EPOCH + day).isoformat() + gap

    low = 8 * size
    zero = _Zero(wanted.column, digits, as_text=wanted.as_text)
    moment = f"{{day$i[(p$i >> {low}) // {_SECONDS_PER_DAY}]}}{{seconds[(p$i >> {low}) % {_SECONDS_PER_DAY}]}}"
    text = _with_fraction(moment, "p$i", digits, as_text=wanted.as_text, suffix=suffix)
    return FieldCode(
        formats=f"{4 + size}s",
        expression=f"{text} if (p$i := number($0, 'big')) >> {low} else zero$i()",
        names={"day$i": _Kept(make), "seconds": _SECONDS, "zero$i": zero.fragment},
    )


class _Zero:
    """The timestamp 0, which is the date without year, month and day."""

    def __init__(self, column: LogColumn, digits: int, *, as_text: bool) -> None:
        self._column, self._as_text = column, as_text
        self._text = "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")

    def fragment(self) -> str:
        if not self._as_text:
            raise ValueFaultError(self._column, self._text)
        return f'"{self._text}"'


def _time(wanted: _Wanted) -> FieldCode:
    digits = wanted.column.size
    size = (digits + 1) // 2
    zero = 0x800000 << 8 * size
    low, mask, factor = 8 * size, (1 << 8 * size) - 1, 10 if digits % 2 else 1

    def text(packed: int) -> str:
        packed -= zero
        sign = ""
        if packed < 0:
            sign, packed = "-", -packed
        whole = packed >> low
        clock = f'"{sign}{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}'
        return clock + (f'.{(packed & mask) // factor:0{digits}d}"' if size else '"')

    return FieldCode(formats=f"{3 + size}s", expression="time$i(number($0, 'big'))", names={"time$i": text})


def _old_timestamp(wanted: _Wanted) -> FieldCode:
    def text(seconds: int) -> str:
        if not seconds:
            return _Zero(wanted.column, 0, as_text=wanted.as_text).fragment()
        day = dt.date.fromordinal(_EPOCH + seconds // _SECONDS_PER_DAY).isoformat()
        clock = _clock(seconds % _SECONDS_PER_DAY)
        return f'"{day} {clock}"' if wanted.as_text else f'"{day}T{clock}.000000Z"'

    return FieldCode(formats="I", expression="time$i($0)", names={"time$i": text})


def _old_datetime(wanted: _Wanted) -> FieldCode:
    def text(packed: int) -> str:
        date, time = divmod(packed, 1_000_000)
        day = _day(wanted, date // 10_000, date // 100 % 100, date % 100)
        clock = f"{time // 10_000:02d}:{time // 100 % 100:02d}:{time % 100:02d}"
        return f'"{day} {clock}"' if wanted.as_text else f'"{day}T{clock}.000000"'

    return FieldCode(formats="Q", expression="time$i($0)", names={"time$i": text})


def _old_time(_: _Wanted) -> FieldCode:
    def text(low: int, high: int) -> str:
        packed = low | high << 16
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        return f'"{sign}{packed // 10_000:02d}:{packed // 100 % 100:02d}:{packed % 100:02d}"'

    return FieldCode(formats="Hb", expression="time$i($0, $1)", names={"time$i": text})


def _base64(data: bytes) -> str:
    return f'"{b2a_base64(data, newline=False).decode("ascii")}"'


def _bit(wanted: _Wanted) -> FieldCode:
    bits = wanted.column.size
    size = (bits + 7) // 8
    if bits == 1:
        return FieldCode(formats="B", expression=wanted.quoted("('true' if $0 else 'false')"))
    return FieldCode(formats=f"{size}s", expression="base64($0)", names={"base64": _base64})


def _enum(wanted: _Wanted) -> FieldCode:
    texts = [encode_text(label) for label in ("", *wanted.column.labels)]

    def make(number: int) -> str:
        # The server shows a number without a label as the empty text.
        return texts[number] if number < len(texts) else '""'

    return FieldCode(
        formats="B" if wanted.column.size == 1 else "H", expression="label$i[$0]", names={"label$i": _Kept(make)}
    )


def _set(wanted: _Wanted) -> FieldCode:
    labels = wanted.column.labels

    def make(bits: int) -> str:
        return encode_text(",".join(label for index, label in enumerate(labels) if bits >> index & 1))

    return FieldCode(
        formats=f"{wanted.column.size}s",
        expression="label$i[number($0, 'little')]",
        names={"label$i": _Kept(make)},
    )


_MARIA_TYPES = {"uuid": uuid_text, "inet6": inet6_text, "inet4": inet4_text}


def _string(wanted: _Wanted) -> FieldCode:
    size = wanted.column.size
    length = "H" if size > _ONE_BYTE_LENGTH else "B"
    if not wanted.column.is_binary:
        return _text(wanted, length)
    special = _MARIA_TYPES.get(wanted.type_name)
    if special is not None:
        return FieldCode(
            formats=length,
            expression=f"text$i($0.ljust({size}, zeros))",
            is_variable=True,
            names={"text$i": lambda data: f'"{special(data)}"', "zeros": b"\0"},
        )
    # The log leaves out the zero bytes at the end.
    return FieldCode(
        formats=length,
        expression=f"base64($0.ljust({size}, zeros))",
        is_variable=True,
        names={"base64": _base64, "zeros": b"\0"},
    )


def _text(wanted: _Wanted, length: str) -> FieldCode:
    decode = wanted.texts.decoder(wanted.column.collation)
    if decode is bytes.decode:
        return FieldCode(
            formats=length, expression="quote($0.decode())", is_variable=True, names={"quote": encode_text}
        )
    return FieldCode(
        formats=length,
        expression="quote(decode$i($0))",
        is_variable=True,
        names={"quote": encode_text, "decode$i": decode},
    )


def _varchar(wanted: _Wanted) -> FieldCode:
    length = "H" if wanted.column.size > _ONE_BYTE_LENGTH else "B"
    if wanted.column.is_binary:
        return FieldCode(formats=length, expression="base64($0)", is_variable=True, names={"base64": _base64})
    return _text(wanted, length)


_LENGTHS = {1: "B", 2: "H", 3: "HB", 4: "I"}


def _blob(wanted: _Wanted) -> FieldCode:
    length = _LENGTHS[wanted.column.size]
    if wanted.column.kind == FieldType.JSON:
        names = {"json_text": json_text, "quote": encode_text}
        return FieldCode(formats=length, expression="quote(json_text($0))", is_variable=True, names=names)
    is_text = wanted.column.kind in (FieldType.BLOB, FieldType.TINY_BLOB, FieldType.MEDIUM_BLOB, FieldType.LONG_BLOB)
    if is_text and not wanted.column.is_binary:
        return _text(wanted, length)
    return FieldCode(formats=length, expression="base64($0)", is_variable=True, names={"base64": _base64})


def _compressed(wanted: _Wanted) -> FieldCode:
    if wanted.column.kind == FieldType.MARIA_BLOB_COMPRESSED:
        length = _LENGTHS[wanted.column.size]
    else:
        length = "H" if wanted.column.size > _ONE_BYTE_LENGTH else "B"
    decode = wanted.texts.decoder(wanted.column.collation)

    def text(data: bytes) -> str:
        whole = decompress_column(data)
        return _base64(whole) if wanted.column.is_binary else encode_text(decode(whole))

    return FieldCode(formats=length, expression="text$i($0)", is_variable=True, names={"text$i": text})


_MAKERS: Mapping[int, Callable[[_Wanted], FieldCode]] = {
    **dict.fromkeys((FieldType.TINY, FieldType.SHORT, FieldType.INT24, FieldType.LONG, FieldType.LONGLONG), _integer),
    **dict.fromkeys((FieldType.FLOAT, FieldType.DOUBLE), _float),
    FieldType.NEWDECIMAL: _decimal,
    FieldType.YEAR: _year,
    FieldType.DATE: _date,
    FieldType.DATETIME2: _datetime,
    FieldType.TIMESTAMP2: _timestamp,
    FieldType.TIME2: _time,
    FieldType.TIMESTAMP: _old_timestamp,
    FieldType.DATETIME: _old_datetime,
    FieldType.TIME: _old_time,
    FieldType.BIT: _bit,
    FieldType.ENUM: _enum,
    FieldType.SET: _set,
    FieldType.STRING: _string,
    **dict.fromkeys((FieldType.VARCHAR, FieldType.VAR_STRING), _varchar),
    **dict.fromkeys(
        (
            FieldType.BLOB,
            FieldType.TINY_BLOB,
            FieldType.MEDIUM_BLOB,
            FieldType.LONG_BLOB,
            FieldType.JSON,
            FieldType.GEOMETRY,
            FieldType.VECTOR,
        ),
        _blob,
    ),
    **dict.fromkeys((FieldType.MARIA_BLOB_COMPRESSED, FieldType.MARIA_VARCHAR_COMPRESSED), _compressed),
}
