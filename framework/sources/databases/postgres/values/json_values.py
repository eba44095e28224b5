"""Values of the log as JSON: functions that turn PostgreSQL's text of a value into a fragment of the payload.

Each is called once per value of the change log, so it is chosen once per column, and is C code where possible. Spark's
`from_json` turns the fragment into exactly the value that the snapshot has.
"""

from __future__ import annotations

import json.encoder
from binascii import b2a_base64
from collections.abc import Callable
from typing import NoReturn

from framework.sources.databases.postgres.values.arrays import ArrayShapeError, parse_array

Fragment = Callable[[str], str]
Failure = Callable[[str], NoReturn]
"""Raises the error for a value that the column's Spark type can't hold."""

# Texts of floating-point numbers that are not JSON, or that JSON readers parse as an integer without a sign.
_FLOATS = {"NaN": '"NaN"', "Infinity": '"Infinity"', "-Infinity": '"-Infinity"', "-0": "-0.0"}
_BOOLEANS = {"t": "true", "f": "false"}
_DATE_LENGTH = len("2024-01-31")
# The padding to microseconds for a timestamp of this length; the server omits trailing zeros of the fraction.
_SECONDS_LENGTH = len("2024-01-31 23:59:59")
_MICROS_REST = {
    _SECONDS_LENGTH: ".000000",
    **{_SECONDS_LENGTH + 1 + digits: "0" * (6 - digits) for digits in range(1, 7)},
}

encode_text: Fragment = json.encoder.encode_basestring  # in C, if the interpreter has it


def number_fragment(_: Failure) -> Fragment:
    """Return a function that keeps integers: their text is JSON."""
    return str


def text_fragment(_: Failure) -> Fragment:
    """Return a function that encodes a text as a JSON string."""
    return encode_text


def float_fragment(_: Failure) -> Fragment:
    """Return a function that encodes floating-point numbers: JSON, except NaN and the infinities."""
    special = _FLOATS.get
    return lambda text: special(text, text)


def boolean_fragment(_: Failure) -> Fragment:
    """Return a function that encodes `t` and `f` as true and false."""
    return _BOOLEANS.__getitem__


def decimal_fragment(fail: Failure) -> Fragment:
    """Return a function that encodes a number with all its digits; NaN and the infinities fail."""
    return lambda text: text if text[-1] not in "Ny" else fail(text)


def binary_fragment(_: Failure) -> Fragment:
    """Return a function that encodes hexadecimal digits as base64."""
    return lambda text: f'"{b2a_base64(bytes.fromhex(text[2:]), newline=False).decode("ascii")}"'


def date_fragment(fail: Failure) -> Fragment:
    """Return a function that encodes a date; only dates in the years 1 to 9999 have ten characters, all others fail."""
    return lambda text: f'"{text}"' if len(text) == _DATE_LENGTH else fail(text)


def timestamp_fragment(fail: Failure) -> Fragment:
    """Return a function that encodes a timestamp without zone, with T and microseconds."""
    rest = _MICROS_REST

    def fragment(text: str) -> str:
        if text[10:11] != " " or text[-1] == "C":
            fail(text)
        return f'"{text[:10]}T{text[11:]}{rest[len(text)]}"'

    return fragment


def instant_fragment(fail: Failure) -> Fragment:
    """Return a function that encodes a timestamp with zone, printed in UTC, with T, microseconds and Z."""
    rest = _MICROS_REST

    def fragment(text: str) -> str:
        if text[10:11] != " " or text[-1] == "C":
            fail(text)
        return f'"{text[:10]}T{text[11:-3]}{rest[len(text) - 3]}Z"'

    return fragment


def array_fragment(element: Fragment, fail: Failure) -> Fragment:
    """Return a function that encodes a one-dimensional array as a JSON array of the fragments of its elements."""

    def fragment(text: str) -> str:
        try:
            elements = parse_array(text)
        except ArrayShapeError:
            fail(text)
        return f"[{','.join(['null' if each is None else element(each) for each in elements])}]"

    return fragment


def is_in_range(text: str) -> bool:
    """Return whether the text of a timestamp is in the years 1 to 9999.

    A later year shifts the space after the date, a year BC ends with `BC`, and an infinity has no space.
    """
    return text[10:11] == " " and text[-1] != "C"
