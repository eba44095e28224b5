"""`cloudFiles` as a kind of streaming source, based on the folder and the checkpoint's list of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from framework.foundation.clock import SystemClock
from framework.foundation.conditions.cloud_files import NEW_COLUMNS, WIDER_TYPES
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.files.storage_port import Storage
from framework.sources.cloud_files.columns.hints import hinted_paths
from framework.sources.cloud_files.columns.schemas import FileSchema, SchemaStore
from framework.sources.cloud_files.files.cleaning import Cleaner, forget_commits, removed_files
from framework.sources.cloud_files.files.folder_times import has_changed
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    NothingKnown,
    decoded,
    has_new,
)
from framework.sources.cloud_files.files.offsets import log_folder
from framework.sources.cloud_files.files.positions import (
    FolderPositions,
    committed,
    damages_of,
    is_of,
    log_of,
    options_of,
    sources_of,
)
from framework.sources.cloud_files.settings.options import local_path
from framework.sources.files.source import FileSource
from framework.sources.port import (
    Gap,
    RewindPosition,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
)

FORMAT = "cloudfiles"
MARK = "sluice.cloudfiles"
"""The option of a relation that holds path, options and columns of its source as JSON."""

_SELECTING = ("pathGlobFilter", "modifiedAfter", "modifiedBefore")


class CloudFilesSource(FolderPositions):
    """A folder read by `cloudFiles`; folders on non-local file systems are reported as unknown."""

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize a relation by Sluice's option, and a reader by its format."""
        mark = relation.options.get(MARK)
        if mark is None and relation.format == FORMAT:
            return SourceReference(kind=self.kind, shape=SourceShape.FOLDER, location=relation.path)
        if mark is None:
            return None
        found = json.loads(mark)
        options = {name.lower().removeprefix("cloudfiles."): str(each) for name, each in found["options"].items()}
        selects = (f"{name}={options[name.lower()]}" for name in _SELECTING if name.lower() in options)
        return SourceReference(
            kind=self.kind,
            shape=SourceShape.FOLDER,
            location=found["path"],
            details=mark,
            begins=_begin_of(options),
            selects=", ".join(selects),
        )

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """Return the tokens of all folders; None if the tokens can't show a change."""
        options = options_of(source)
        folder = local_path(options.path)
        if options.allow_overwrites or folder is None or set("*?[{") & set(options.path):
            return None
        return FileSource().change_token(storage, replace(source, location=folder), previous)

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Return whether every present file is listed, every listed file is read, and no file is due for cleaning."""
        sources = sources_of(position)
        if not is_of(position, sources) or damages_of(position):
            return False
        if any(_has_cleaning(position, number) for number in range(len(sources))):
            return False
        answers = [_is_read(position, number) for number in range(len(sources))]
        return False if False in answers else None if None in answers else True

    def removed(self, storage: Storage, source: SourceReference) -> str:
        """Describe the files that `cleanSource` has deleted or moved."""
        return removed_files(storage, options_of(source).path)

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """Unknown."""
        del storage, source
        return None

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """Detect file lists that are damaged or end before the position: a part of the checkpoint is missing."""
        locations = [str(source.location) for source in sources_of(position)]
        found = {number: f"The list of files is damaged. {what}" for number, what in damages_of(position).items()}
        for number, wanted in committed(position).items():
            if number < len(locations) and number not in found and wanted > (last := log_of(position, number).last):
                found[number] = f"The list of files ends at {last}, but the checkpoint needs {wanted}."
        return tuple(
            Gap(condition="CLOUD_FILES_POSITION_LOST", location=locations[number], problem=problem)
            for number, problem in sorted(found.items())
        )

    def lost_since(self, position: RewindPosition) -> str:
        """Detect missing local files after the position, such as files removed by `cleanSource`."""
        gone = [
            file.uri
            for number, offset in committed(position).items()
            for file in _after(position, number, 0 if position.from_start else offset)
            if file.uri.startswith("file:") and not position.storage.exists(decoded(file.uri))
        ]
        if not gone:
            return ""
        first = decoded(gone[0])
        return f"{first} is gone" if len(gone) == 1 else f"{len(gone)} files such as {first} are gone"

    def describe(self, position: RewindPosition) -> tuple[str, ...]:
        """Return the number of files that are read again."""
        return tuple(
            f"files: {len(_after(position, number, offset))} of {log_of(position, number).last} again"
            for number, offset in committed(position).items()
        )

    def truncate(self, position: RewindPosition) -> None:
        """Forget the commits after the position, so that `cleanSource` keeps the files that are read again.

        The list of files stays: it only grows, and an offset is a number in it.
        """
        for number, offset in committed(position).items():
            forget_commits(position.storage, position.checkpoint, number, after=offset)


def options_without_effect(source: SourceReference) -> list[tuple[str, str]]:
    """Return the options of a source that change no row, as the user spells them, each with the reason."""
    mark = json.loads(source.details) if source.kind == CloudFilesSource.kind and source.details else {}
    return [(name, why) for name, why in mark.get("without_effect", ())]


def losing_zeros(source: SourceReference, schemas: SchemaStore) -> tuple[str, ...]:
    """Return the columns, not recorded yet, whose inferred type drops leading zeros of their values."""
    if source.kind != CloudFilesSource.kind or not source.details:
        return ()
    options = options_of(source)
    kept = schemas.kept(options)
    hinted = tuple(f"{path}.".lower() for path in hinted_paths(options))  # the hint of a struct includes its fields
    return () if kept is None else tuple(name for name in kept.zeros if not f"{name}.".lower().startswith(hinted))


def widens_types(source: SourceReference) -> bool:
    """Return whether a source's column types are widened when its files need it."""
    return source.kind == CloudFilesSource.kind and source.details != "" and options_of(source).widens_types


def follows_columns(source: SourceReference) -> bool:
    """Return whether new columns of a source's files are added when they are found."""
    if source.kind != CloudFilesSource.kind or source.details == "":
        return False
    options = options_of(source)
    return options.follows_columns and options.adds_columns


def check_columns(before: Sequence[SourceReference], query: Callable[[], Sequence[SourceReference]]) -> None:
    """Stop a flow if another flow recorded new columns or types of its folders after the graph was resolved.

    The flow's table lacks these columns and would convert values to its own types: 5.5 becomes 5. The flow starts again
    with a new graph.

    Args:
        before: the sources of a flow in the graph.
        query: returns the sources of the flow's query, with the columns that are recorded now.

    Raises:
        OperationError: UNKNOWN_FIELD, WIDER_FIELD.
    """
    if not any(source.kind == CloudFilesSource.kind for source in before):
        return
    for old, new in zip(_marked(before), _marked(query()), strict=False):
        known, found = (FileSchema.from_json(json.loads(each.details)["schema"]).columns for each in (old, new))
        names = [field.name for field in found.fields if field.name not in known.names]
        wider = [
            field.name
            for field in known.fields
            if field.name in found.names and field.dataType != found[field.name].dataType
        ]
        if names or wider:
            condition = NEW_COLUMNS if names else WIDER_TYPES
            raise OperationError(condition, path=str(old.location), columns=", ".join(names or wider))


def _begin_of(options: Mapping[str, str]) -> str:
    """Return the start option in lower case and without its prefix; empty if all files are read."""
    if options.get("includeexistingfiles", "true").strip().lower() == "false":
        return "cloudFiles.includeExistingFiles=false"
    after = options.get("modifiedafter")
    return "" if after is None else f"modifiedAfter={after.strip()}"


def _marked(sources: Sequence[SourceReference]) -> list[SourceReference]:
    """Return the sources of the kind whose columns are known."""
    return [source for source in sources if source.kind == CloudFilesSource.kind and source.details]


def _after(position: RewindPosition, number: int, last: int) -> list[FoundFile]:
    """Return the files of a source after the position, without files passed over at its first start."""
    log = log_of(position, number)
    return log.between(min(max(last, log.first_unread - 1), log.last), log.last)


def _has_cleaning(position: SourcePosition, number: int) -> bool:
    cleaner = Cleaner(
        spark=None,
        options=options_of(sources_of(position)[number]),
        storage=position.storage,
        checkpoint=position.checkpoint,
        number=number,
        clock=SystemClock(),
    )
    return cleaner.has_work(committed(position).get(number, 0))


def _is_read(position: SourcePosition, number: int) -> bool | None:
    """Return whether a source has no unread file; None if its folders changed or `unread_files` is None."""
    options, log = options_of(sources_of(position)[number]), log_of(position, number)
    path = local_path(options.path)
    if path is None:
        return None
    if log.last > max(committed(position).get(number, 0), log.first_unread - 1):
        return False
    if has_changed(position.storage, log_folder(position.checkpoint, number)):
        return None  # most likely by a new file, so the flow lists the folder itself
    try:
        return not has_new(path, options, log)
    except SluiceError:
        return None


def touched_files(position: SourcePosition, number: int, after_ms: int) -> list[FoundFile]:
    """Return the listed files of a local source that were modified after `after_ms`, in epoch milliseconds."""
    options, log = options_of(sources_of(position)[number]), log_of(position, number)
    try:
        present = list_new(None, replace(options, modified_after=after_ms / 1000), NothingKnown())
    except SluiceError:
        return []
    unseen = set(log.unseen([file.uri for file in present]))
    return [file for file in present if file.uri not in unseen]
