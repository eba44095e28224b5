"""Texts of all character sets, decoded as the server converts them to Unicode."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from framework.foundation.errors import SourceError

Query = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]
"""Runs a query with values, and returns its rows."""

_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_WIDE: Mapping[str, str] = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
_CODECS: Mapping[str, str] = {
    "big5": "big5",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "euc_kr",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
}
_ASCII = frozenset(map(chr, range(128)))
_COLLATIONS = "SELECT id, character_set_name FROM information_schema.collations WHERE id IS NOT NULL"
_SINGLE = "SELECT maxlen FROM information_schema.character_sets WHERE character_set_name = %s"
_MOST_KEPT = 10_000
_LAST_OF_PLANE = "\uffff"


class ServerTexts:
    """A `TextDecoder` that asks the server for what it can't decode itself.

    Args:
        query: runs a query on a session of its own, whose texts are utf8mb4.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._sets: dict[int, str] = {}
        self._decoders: dict[str, Callable[[bytes], str]] = {}

    def decoder(self, collation: int) -> Callable[[bytes], str]:
        """Return the function that decodes the bytes of a collation's character set, as the server converts them.

        Raises:
            SourceError: MYSQL_LOG_UNREADABLE, the server has no such collation any more.
        """
        if not self._sets:
            self._sets = {int(number): str(name) for number, name in self._query(_COLLATIONS, ())}
        name = self._sets.get(collation)
        if name is None:
            cause = f"the log has texts of the collation {collation}, which the server does not have"
            raise SourceError("MYSQL_LOG_UNREADABLE", cause=cause)
        if name not in self._decoders:
            self._decoders[name] = self._make(name)
        return self._decoders[name]

    def _make(self, name: str) -> Callable[[bytes], str]:
        if name in _UTF8:
            return bytes.decode
        if name in _WIDE:
            return self._wide(name)
        size = self._query(_SINGLE, (name,))
        if size and int(size[0][0]) == 1:
            return self._single(name)
        return self._agreed(name) if name in _CODECS else self._asked(name)

    def _wide(self, name: str) -> Callable[[bytes], str]:
        decode, ask, is_ucs2 = codecs.getdecoder(_WIDE[name]), self._asked(name), name == "ucs2"

        def text(data: bytes) -> str:
            try:
                found: str = decode(data)[0]
            except UnicodeDecodeError:
                return ask(data)
            return ask(data) if is_ucs2 and found and max(found) > _LAST_OF_PLANE else found

        return text

    def _single(self, name: str) -> Callable[[bytes], str]:
        """Return the decoder of a set with one byte for each character, by the server's own table."""
        (row,) = self._query("SELECT " + ", ".join(_converted(name, f"{byte:02x}") for byte in range(256)), ())
        table = "".join(map(str, row))
        decode = codecs.charmap_decode
        if len(table) != len(row):
            return self._asked(name)
        return lambda data: decode(data, "strict", table)[0]

    def _agreed(self, name: str) -> Callable[[bytes], str]:
        """Return the decoder of a set with several bytes, by Python's codec, for characters that the server has alike.

        The server is asked once for the characters that differ in their last byte.
        """
        codec, ask = codecs.lookup(_CODECS[name]), self._asked(name)
        agreed, differing = set(_ASCII), set[str]()

        def text(data: bytes) -> str:
            if data.isascii():
                return data.decode()
            try:
                found = codec.decode(data)[0]
                is_same = codec.encode(found)[0] == data
            except UnicodeError:
                return ask(data)
            if is_same and not agreed.issuperset(found):
                for letter in {*found} - agreed - differing:
                    same, other = self._compared(name, codec, codec.encode(letter)[0][:-1])
                    agreed.update(same)
                    differing.update(other)
            return found if is_same and agreed.issuperset(found) else ask(data)

        return text

    def _compared(self, name: str, codec: codecs.CodecInfo, begin: bytes) -> tuple[set[str], set[str]]:
        """Return the characters of the codec that begin with some bytes: those of the server, and the others."""
        found = {}
        for last in range(256):
            with suppress(UnicodeError):
                letter = codec.decode(begin + bytes([last]))[0]
                if len(letter) == 1 and codec.encode(letter)[0] == begin + bytes([last]):
                    found[letter] = begin + bytes([last])
        (row,) = self._query("SELECT " + ", ".join(_converted(name, data.hex()) for data in found.values()), ())
        same = {letter for letter, shown in zip(found, row, strict=True) if letter == shown}
        return same, {*found} - same

    def _asked(self, name: str) -> Callable[[bytes], str]:
        kept: dict[bytes, str] = {}

        def text(data: bytes) -> str:
            if data.isascii() and name not in _WIDE:
                return data.decode()
            found = kept.get(data)
            if found is None:
                if len(kept) >= _MOST_KEPT:
                    kept.clear()
                found = kept[data] = self._ask(name, data)
            return found

        return text

    def _ask(self, name: str, data: bytes) -> str:
        if not data:
            return ""
        found = self._query(f"SELECT {_converted(name, data.hex())}", ())[0][0]
        if found is None:
            # MySQL has no Unicode text for half of a surrogate pair.
            raise UnicodeDecodeError(name, data, 0, len(data), "the server has no text for it")
        return str(found)


def _converted(name: str, digits: str) -> str:
    """Return the expression of the text of hexadecimal digits in a character set that the server has named."""
    return f"CONVERT(CAST(0x{digits} AS CHAR CHARACTER SET {name}) USING utf8mb4)"
