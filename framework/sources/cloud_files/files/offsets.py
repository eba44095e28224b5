"""Offsets of `cloudFiles` in a checkpoint: the number of the last file of a batch, and the folder of the list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from framework.checkpoints.offsets import NO_OFFSET

KEY = "cloudFiles"
FOLDER = "cloud_files"
"""The folder in a checkpoint that has one folder for each source."""
_SOURCE = "source"


def log_folder(checkpoint: str, number: int) -> str:
    """The folder of a source in a checkpoint; sources are numbered from 0 in the order of the query."""
    return f"{checkpoint}/{FOLDER}/{number}"


def offset_text(last: int, source: int) -> str:
    """The offset after a file of a source."""
    return json.dumps({KEY: last, _SOURCE: source})


def offset_number(text: str) -> int | None:
    """The file of an offset; None for an offset of another kind of source."""
    found = _parsed(text)
    return None if found is None else int(found[KEY])


def committed_files(offsets: Sequence[str]) -> dict[int, int]:
    """The last file of each source that is in the offsets of a batch, by the number of the source.

    A source is not in the first offsets if it had no file, and twice if the query has its relation twice. Older offsets
    do not have the source; then their order counts, and the sources are unknown if one of them has no offset.
    """
    found = [each for each in map(_parsed, offsets) if each is not None]
    if all(_SOURCE in each for each in found):
        return {each[_SOURCE]: each[KEY] for each in found}
    return {} if NO_OFFSET in offsets else {number: each[KEY] for number, each in enumerate(found)}


def are_numbered(offsets: Sequence[str]) -> bool:
    """Whether all offsets have the number of their source, so that a source that is missing has read nothing."""
    return all(_SOURCE in (_parsed(each) or ()) for each in offsets)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not {KEY} <= set(value) <= {KEY, _SOURCE} or not isinstance(value[KEY], int):
        return None
    return value
