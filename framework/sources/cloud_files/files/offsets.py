"""Offsets of `cloudFiles` in a checkpoint: the number of the last file of a batch, and the folder of the list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

KEY = "cloudFiles"
FOLDER = "cloud_files"
"""The folder in a checkpoint with one subfolder per source."""
_SOURCE = "source"


def log_folder(checkpoint: str, number: int) -> str:
    """Return the folder of a source in a checkpoint; sources are numbered from 0 in the order of the query."""
    return f"{checkpoint}/{FOLDER}/{number}"


def offset_text(last: int, source: int) -> str:
    """Return the offset after file `last` of a source."""
    return json.dumps({KEY: last, _SOURCE: source})


def offset_number(text: str) -> int | None:
    """Return the file number in an offset; None for an offset of another kind of source."""
    found = _parsed(text)
    return None if found is None else int(found[KEY])


def committed_files(offsets: Sequence[str]) -> dict[int, int]:
    """Return the last file of each source in the offsets of a batch, by source number.

    A source is missing from the first offsets if it had no file, and occurs twice if the query reads it twice.
    """
    return {each[_SOURCE]: each[KEY] for each in map(_parsed, offsets) if each is not None}


def are_numbered(offsets: Sequence[str]) -> bool:
    """Return whether all offsets are of this kind, so that a missing source has read nothing."""
    return all(_parsed(each) is not None for each in offsets)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    is_ours = isinstance(value, dict) and value.keys() == {KEY, _SOURCE} and isinstance(value[KEY], int)
    return value if is_ours else None
