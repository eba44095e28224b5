"""Masks of values in recorded tests: the same value has the same mask, and type, length and punctuation stay."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

_PERSONAL = {
    "address", "birth", "birthday", "birthdate", "card", "dob", "email", "fax", "firstname", "forename", "iban", "ip",
    "lastname", "mail", "mobile", "passport", "password", "phone", "phonenumber", "postcode", "secret", "ssn", "street",
    "surname", "telephone", "token", "username", "zipcode",
}  # fmt: skip
_PERSONAL_PAIRS = ("first_name", "last_name", "full_name", "given_name", "family_name", "maiden_name", "user_name")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DAYS = 365


def is_personal(column: str) -> bool:
    """Return whether a column's name says that it is about a person.

    Examples:
        >>> [is_personal(name) for name in ("customer_email", "lastName", "product_name", "ipAddress", "shipment")]
        [True, True, False, True, False]
    """
    words = [word.lower() for word in _WORDS.findall(column)]
    joined = "_".join(words)
    return not _PERSONAL.isdisjoint(words) or any(pair in joined for pair in _PERSONAL_PAIRS)


# The numbers of digits with which a number may exceed its type: 127, 32767, 2147483647, 9223372036854775807.
_DIGITS_OF_LIMITS = (3, 5, 10, 19)
_ATTEMPTS = 64


class Masks:
    """Masks for the values of some columns; different values have different masks while their length allows it.

    Args:
        columns: the names of the columns, in lower case.
        salt: makes masks of two recordings differ, so that nobody finds a value by masking guesses.
    """

    def __init__(self, columns: Collection[str], salt: bytes) -> None:
        self.columns = frozenset(columns)
        self._salt = salt
        self._values: dict[Any, Any] = {}

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with masked columns."""
        return {name: self.value(each) if name.lower() in self.columns else each for name, each in row.items()}

    def value(self, value: Any) -> Any:
        """Return the mask of a value; NULL and booleans stay, and so does each character but letters and digits.

        Examples:
            >>> masks = Masks((), salt=b"")
            >>> masks.value("ada@example.com"), masks.value(-120), masks.value(None)
            ('xko@qonhrgw.qvc', -114, None)
        """
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        if value is None or isinstance(value, bool):
            return value
        found = self._candidate(value, 0)
        for attempt in range(1, _ATTEMPTS):
            if self._values.setdefault(found, value) == value:
                break
            found = self._candidate(value, attempt)
        return found

    def _candidate(self, value: Any, attempt: int) -> Any:
        return _mask(value, _Digest(f"{type(value).__name__}:{value}:{attempt}", self._salt))


class _Digest:
    """Numbers that depend on a text and the salt alone."""

    def __init__(self, text: str, salt: bytes) -> None:
        self._bytes = self._all(text.encode(), salt)

    @staticmethod
    def _all(text: bytes, salt: bytes) -> Iterator[int]:
        for block in count():
            yield from hashlib.blake2b(text, key=salt, salt=block.to_bytes(8, "big")).digest()

    def below(self, limit: int) -> int:
        """Return the next number from 0 below a limit."""
        return int.from_bytes(bytes(next(self._bytes) for _ in range(limit.bit_length() // 8 + 2)), "big") % limit


def _mask(value: Any, digest: _Digest) -> Any:
    if isinstance(value, str):
        return "".join(_character(each, digest) for each in value)
    if isinstance(value, bytes | bytearray):
        return bytes(digest.below(256) for _ in value)
    if isinstance(value, int):
        return _whole(abs(value), digest) * (-1 if value < 0 else 1)
    if isinstance(value, float | Decimal):
        return _decimal(value, digest)
    if isinstance(value, date):  # also a datetime: its time of day stays
        return value - timedelta(days=1 + digest.below(_DAYS))
    return value


def _decimal(value: float | Decimal, digest: _Digest) -> float | Decimal:
    whole, point, digits = str(value).partition(".")
    if not whole.removeprefix("-").isdigit() or (point and not digits.isdigit()):  # an exponent, infinity, NaN
        return value
    sign = "-" if whole.startswith("-") else ""
    masked = "".join(_character(each, digest) for each in digits)
    return type(value)(f"{sign}{_whole(abs(int(whole)), digest)}{point}{masked}")


def _whole(number: int, digest: _Digest) -> int:
    """Return a number with as many digits that every type with room for the given one has room for."""
    length = len(str(number))
    least = 10 ** (length - 1) if length > 1 else 0
    most = number if length in _DIGITS_OF_LIMITS else 10**length - 1
    return least + digest.below(most - least + 1)


def _character(character: str, digest: _Digest) -> str:
    if character.isdigit():
        return str(digest.below(10))
    if not character.isalpha():
        return character
    letter = chr(ord("a") + digest.below(26))
    return letter.upper() if character.isupper() else letter
