"""Decoders of rows: code that is generated for a table, and for which of its columns are NULL.

A row is decoded straight into the JSON of its payload. Adjacent columns of a fixed size, and the length of the next
column of any size, are read by one call of `struct`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from framework.sources.databases.mysql.log.log_values import FieldCode, field_code
from framework.sources.databases.mysql.log.table_map import LogColumn, LoggedTable, TextDecoder

Payload = Callable[[bytes, int], tuple[str, int]]
"""(data, index after the bitmap of NULLs) -> payload, index after the row."""
Key = Callable[[bytes, int], tuple[tuple[bytes, ...] | None, int]]
"""(data, index after the bitmap of NULLs) -> the bytes of the key, None if part of it is NULL; index after the row."""

_MOST_PATTERNS = 512
"""Most decoders of a table; with more patterns of NULLs, all are made again when they are needed."""


class KeyFaultError(Exception):
    """A row lacks a value of its key."""


class UnreadableColumnError(Exception):
    """A column has a type that this reader does not know, so that its rows can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a decoder makes of the columns.

    Args:
        key: the columns of the key; () if there is none.
        needs_key: whether a row must have a value of each column of the key.
        text_columns: the columns that are read as the database's text.
        types: the types of columns in the catalog, where the log does not have them.
    """

    key: tuple[str, ...] = ()
    needs_key: bool = False
    text_columns: Collection[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)


class RowDecoder:
    """Decodes rows of a table.

    Args:
        table: the table as the log describes it.
        selection: what to make of the columns.
        texts: decodes texts.

    Raises:
        UnreadableColumnError: the log has a column of an unknown type.
    """

    def __init__(self, table: LoggedTable, selection: Selection, texts: TextDecoder) -> None:
        self.columns = table.columns
        self.bitmap_size = (len(table.columns) + 7) // 8
        self._codes = [_code_of(column, selection, texts) for column in table.columns]
        names = [column.name for column in table.columns]
        self.has_key = bool(selection.key) and {*selection.key} <= {*names}
        self._key = frozenset(names.index(name) for name in selection.key) if self.has_key else frozenset()
        self._needs_key = selection.needs_key
        self.payloads: dict[bytes, Payload] = _Patterns(self._payload_code)
        self.key_payloads: dict[bytes, Payload] = _Patterns(self._key_payload_code)
        self.keys: dict[bytes, Key] = _Patterns(self._key_code)

    def _payload_code(self, nulls: bytes) -> Payload:
        return self._writer(nulls).payload(dict(enumerate(column.name for column in self.columns)))

    def _key_payload_code(self, nulls: bytes) -> Payload:
        return self._writer(nulls).payload({index: self.columns[index].name for index in sorted(self._key)})

    def _writer(self, nulls: bytes) -> _Writer:
        writer = _Writer(self._codes, nulls)
        if self._needs_key and not (self.has_key and writer.has_all(self._key)):
            raise KeyFaultError
        return writer

    def _key_code(self, nulls: bytes) -> Key:
        return _Writer(self._codes, nulls).key(self._key)


class _Patterns(dict[bytes, Any]):
    """Decoders by the bitmap of the columns that are NULL, made when they are needed."""

    def __init__(self, make: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, nulls: bytes) -> Any:
        if len(self) >= _MOST_PATTERNS:
            self.clear()
        made = self[nulls] = self._make(nulls)
        return made


def _code_of(column: LogColumn, selection: Selection, texts: TextDecoder) -> FieldCode:
    code = field_code(
        column,
        as_text=column.name in selection.text_columns,
        type_name=selection.types.get(column.name, ""),
        texts=texts,
    )
    if code is None:
        msg = f"the column {column.name} has the unknown type {column.kind}"
        raise UnreadableColumnError(msg)
    return code


class _Writer:
    """Writes the code for one pattern of NULLs."""

    def __init__(self, codes: Sequence[FieldCode], nulls: bytes) -> None:
        self._codes = codes
        self._present = [index for index in range(len(codes)) if not nulls[index >> 3] >> (index & 7) & 1]
        self._names: dict[str, Any] = {"number": int.from_bytes}
        self._lines: list[str] = []
        self._formats = ""
        self._targets: list[str] = []
        self._structs = 0

    def has_all(self, columns: Collection[int]) -> bool:
        """Whether none of the columns is NULL."""
        return {*columns} <= {*self._present}

    def payload(self, names: Mapping[int, str]) -> Payload:
        """Return the decoder of payloads with the columns of these names."""
        present = frozenset(self._present)
        pending: list[tuple[int, list[str]]] = []
        for index in self._present:
            variables = self._read(index)
            pending.append((index, variables))
            if self._codes[index].is_variable:
                self._flush()
                self._take_bytes(index, variables)
                pending = self._evaluate(pending, names)
        self._flush()
        self._evaluate(pending, names)
        parts = [
            _literal(json.dumps(name, ensure_ascii=False) + ":") + (f"{{f{index}}}" if index in present else "null")
            for index, name in names.items()
        ]
        decoder: Payload = self._compile("f" + _quoted("{{" + ",".join(parts) + "}}") + ", at")
        return decoder

    def key(self, key: Collection[int]) -> Key:
        """Return the function that finds the key and the end of a row."""
        if not {*key} <= {*self._present}:
            key, result = (), "None"
        else:
            result = "(" + "".join(f"k{index}, " for index in sorted(key)) + ")"
        fixed = 0
        for index in self._present:
            code = self._codes[index]
            size = Struct(f"<{code.formats}").size
            if code.is_variable:
                self._lines.append(f"end = at + {fixed + size} + {_length_at(code.formats, fixed)}")
                if index in key:
                    self._lines.append(f"k{index} = data[at + {fixed + size}:end]")
                self._lines.append("at = end")
                fixed = 0
            else:
                if index in key:
                    self._lines.append(f"k{index} = data[at + {fixed}:at + {fixed + size}]")
                fixed += size
        finder: Key = self._compile(f"{result}, at + {fixed}")
        return finder

    def _read(self, index: int) -> list[str]:
        """Add the fixed part of a column to the next call of `struct`; return its variables."""
        code = self._codes[index]
        count = len(Struct(f"<{code.formats}").unpack(bytes(Struct(f"<{code.formats}").size)))
        variables = [f"v{index}_{number}" for number in range(count)]
        self._formats += code.formats
        self._targets += variables
        return variables

    def _flush(self) -> None:
        if not self._formats:
            return
        reader = Struct(f"<{self._formats}")
        name = f"s{self._structs}"
        self._structs += 1
        self._names[name] = reader.unpack_from
        self._lines.append(f"{', '.join(self._targets)}, = {name}(data, at)")
        self._lines.append(f"at += {reader.size}")
        self._formats, self._targets = "", []

    def _take_bytes(self, index: int, variables: list[str]) -> None:
        """Take the bytes of a column of any size into its first variable."""
        length = variables[0] if len(variables) == 1 else f"({variables[0]} | {variables[1]} << 16)"
        self._lines.append(f"end = at + {length}")
        self._lines.append(f"v{index}_0 = data[at:end]")
        self._lines.append("at = end")

    def _evaluate(
        self, pending: Sequence[tuple[int, list[str]]], names: Collection[int]
    ) -> list[tuple[int, list[str]]]:
        for index, variables in pending:
            if index not in names:
                continue
            code = self._codes[index]
            expression = code.expression.replace("$i", str(index))
            for number, variable in enumerate(variables):
                expression = expression.replace(f"${number}", variable)
            self._names |= {name.replace("$i", str(index)): value for name, value in code.names.items()}
            self._lines.append(f"f{index} = {expression}")
        return []

    def _compile(self, result: str) -> Any:
        body = "\n    ".join([*self._lines, f"return {result}"])
        # The code has numbers of columns only, and their names as literals.
        exec(f"def decode(data, at):\n    {body}\n", self._names)  # noqa: S102 - made here from the types of columns
        return self._names["decode"]


def _length_at(formats: str, offset: int) -> str:
    """Return the expression of a length that begins so many bytes after the index."""
    size = Struct(f"<{formats}").size
    return " | ".join(f"data[at + {offset + byte}] << {8 * byte}" for byte in range(size)).join("()")


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _quoted(template: str) -> str:
    """Return the literal of a template of an f-string; the placeholders have no character that is escaped."""
    return repr(template)
