"""Positions in folders read by `cloudFiles`, and what is unread there, from the list of files and without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from framework.foundation.errors import SluiceError
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.local_listing import FoundFile, list_local
from framework.sources.cloud_files.files.offsets import FOLDER, are_numbered, committed_files, log_folder, offset_number
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.cloud_files.settings.options import CloudFilesOptions, local_path
from framework.sources.port import UNKNOWN_LAG, Lag, RewindPosition, SourcePosition, SourceReference

_ZONE = "UTC"


class FolderPositions:
    """The part of the kind that reads stored positions."""

    kind = "cloud_files"
    starts: tuple[str, ...] = ("modifiedAfter",)

    def owns(self, offset: str) -> bool:
        """Return whether an offset is a number of a file list."""
        return offset_number(offset) is not None

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Bytes and age of the unread files; the number of rows is unknown if there are any."""
        sources = sources_of(position)
        if not is_of(position, sources) or damages_of(position):
            return UNKNOWN_LAG
        found = [unread_files(position, number) for number in range(len(sources))]
        if None in found:
            return UNKNOWN_LAG
        unread = [file for files in found for file in files or ()]
        return Lag(
            records=None if unread else 0,
            bytes=sum(file.size for file in unread),
            seconds=max((max(now - file.modified_ms / 1000, 0.0) for file in unread), default=0.0),
        )


def check_options(source: SourceReference) -> None:
    """Check the options of a folder; other sources pass unchecked.

    Raises:
        UserError: as `parse_options`, such as CLOUD_FILES_OPTION_CONFLICT if the start is after `modifiedBefore`.
    """
    if source.kind == FolderPositions.kind and source.details:
        options_of(source)


def committed(position: SourcePosition | RewindPosition) -> dict[int, int]:
    """Return the number of the last file read, by source number."""
    return committed_files(position.offsets)


def sources_of(position: SourcePosition) -> tuple[SourceReference, ...]:
    """Return the sources in the order of their numbers; a view that a query reads twice counts once."""
    found = position.sources
    return found if len(found) == len(_numbers(position)) else tuple(dict.fromkeys(found))


def _numbers(position: SourcePosition) -> set[int]:
    """Return the numbers of the started sources; a source without files so far has a list but no offset."""
    started = position.storage.list_names(f"{position.checkpoint}/{FOLDER}")
    return {*committed(position), *(int(name) for name in started if name.isdecimal())}


def is_of(position: SourcePosition, sources: Sequence[SourceReference]) -> bool:
    """Return whether a position belongs to these sources, and each of its offsets to a known source."""
    known = len(committed(position)) == len(sources) or are_numbered(position.offsets)
    return known and len(_numbers(position)) == len(sources)


def options_of(source: SourceReference) -> CloudFilesOptions:
    """Return the options of a folder, as its reference holds them."""
    mark: dict[str, Any] = json.loads(source.details)
    return parse_options(mark["path"], mark["options"], has_schema=mark["has_schema"], zone=mark.get("zone", _ZONE))


def log_of(position: SourcePosition | RewindPosition, number: int) -> FileLog:
    """Return the list of files of a source."""
    return FileLog(position.storage, f"{log_folder(position.checkpoint, number)}/files").load()


def damages_of(position: SourcePosition) -> dict[int, str]:
    """Return the damage of each damaged file list, by source number."""
    numbers = [number for number in committed(position) if number < len(sources_of(position))]
    logs = {number: FileLog(position.storage, f"{log_folder(position.checkpoint, number)}/files") for number in numbers}
    found = {number: log.check() for number, log in logs.items()}
    return {number: damage.what for number, damage in found.items() if damage is not None}


def unread_files(position: SourcePosition, number: int) -> list[FoundFile] | None:
    """Return the files of a source that are in no committed batch.

    None if the folder is missing, which the flow reports, or is not on the local file system.
    """
    options, log = options_of(sources_of(position)[number]), log_of(position, number)
    path = local_path(options.path)
    if path is None:
        return None
    last = max(committed(position).get(number, 0), log.first_unread - 1)
    try:
        return [*log.each(min(last, log.last), log.last), *list_local(path, options, log)]
    except SluiceError:
        return None
