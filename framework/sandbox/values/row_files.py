"""Files with rows of a test: CSV with a header, JSON arrays, and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.wording import counted
from framework.sandbox.values.text_tables import TextCell

FileRows = tuple[tuple[str, ...] | None, list[tuple[int, Any]]]
"""The header of a file, if it has one, and its rows, each with the number of its line."""


def read_rows(path: Path) -> FileRows:
    """Return the rows of a file: those of CSV as lists of cells, those of JSON as dicts.

    A file with the ending `.csv` or `.tsv` has a header; its blank cells are NULL. A file with the ending `.json`,
    `.jsonl` or `.ndjson` has an array of objects, one object, or one object a line.

    Raises:
        UserError: TEST_ROW_FILE_NOT_FOUND, TEST_ROW_FILE_INVALID.
    """
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise UserError("TEST_ROW_FILE_INVALID", path=path, cause=f"its name ends with {path.suffix!r}.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return read(file.read())
    except FileNotFoundError:
        raise UserError("TEST_ROW_FILE_NOT_FOUND", path=path) from None
    except (OSError, ValueError, csv.Error) as error:
        raise UserError("TEST_ROW_FILE_INVALID", path=path, cause=f"{error}.") from None


def _csv(text: str, delimiter: str = ",") -> FileRows:
    """Return the header of a CSV file and its rows with their lines; a blank cell is NULL."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header = next(reader, None)
    if header is None:
        msg = "it has no header"
        raise ValueError(msg)
    rows = []
    for row in reader:
        if row and len(row) != len(header):
            msg = f"line {reader.line_num} has {counted(len(row), 'cell')}, the header has {len(header)}"
            raise ValueError(msg)
        if row:
            rows.append((reader.line_num, [TextCell(cell) if cell else None for cell in row]))
    return tuple(header), rows


def _json(text: str) -> FileRows:
    """Return the objects of a JSON file: of an array, of one object, or of one object a line."""
    try:
        found = json.loads(text)
    except ValueError:
        return None, list(_json_lines(text))
    rows = found if isinstance(found, list) else [found]
    if not all(isinstance(row, dict) for row in rows):
        msg = "it does not have objects only"
        raise ValueError(msg)
    return None, [(number, row) for number, row in enumerate(rows, start=1)]


def _json_lines(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                msg = f"line {number} is no JSON object"
                raise ValueError(msg)
            yield number, row


_READERS: Mapping[str, Callable[[str], FileRows]] = {
    ".csv": _csv,
    ".tsv": lambda text: _csv(text, "\t"),
    ".json": _json,
    ".jsonl": _json,
    ".ndjson": _json,
}
