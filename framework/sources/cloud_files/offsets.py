"""Offsets of `cloudFiles` in a checkpoint: the number of the last file of a batch, and the folder of the list."""

from __future__ import annotations

import json

KEY = "cloudFiles"


def log_folder(checkpoint: str, number: int) -> str:
    """The folder of a source in a checkpoint; sources are numbered from 0 in the order of the query."""
    return f"{checkpoint}/cloud_files/{number}"


def offset_text(last: int) -> str:
    """The offset after a file."""
    return json.dumps({KEY: last})


def offset_number(text: str) -> int | None:
    """The file of an offset; None for an offset of another kind of source."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or set(value) != {KEY} or not isinstance(value[KEY], int):
        return None
    return int(value[KEY])
