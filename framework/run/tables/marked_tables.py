"""Detection of older table copies by the marks that flows leave; see `framework.checkpoints.table_marks`."""

from __future__ import annotations

from urllib.parse import unquote

from framework.checkpoints.manifest import BY_LOSS, GenerationState, Manifest
from framework.checkpoints.table_marks import TableMark, read_mark, write_mark
from framework.foundation.files.read_once import fresh
from framework.foundation.files.storage import Storage
from framework.foundation.names import QualifiedName
from framework.run.tables.quarantine_place import QUARANTINE_FOLDER
from framework.run.tables.table_record import StorageLayout, read_record
from framework.sources.delta.log import LogTip, latest_version, read_tip
from framework.sources.delta.read_commits import commit_identity


def mark_table(storage: Storage, path: str, dataset: QualifiedName, flow: QualifiedName, generation: int) -> None:
    """Store a table's version: this generation of a flow continues only at this version or a later one."""
    tip = read_tip(storage, path)
    if tip is None or tip.table_id is None:
        return
    auxiliary = StorageLayout(storage=storage).auxiliary(dataset)
    versions = {
        path: tip.version,
        auxiliary: latest_version(storage, auxiliary),
        storage.path(QUARANTINE_FOLDER): _quarantine_version(storage, flow),
    }
    commits = tuple(None if at is None else commit_identity(storage, folder, at) for folder, at in versions.items())
    write_mark(
        storage,
        dataset,
        flow,
        TableMark(
            generation=generation,
            table_id=tip.table_id,
            version=tip.version,
            created=tip.created,
            auxiliary=versions[auxiliary],
            quarantine=versions[storage.path(QUARANTINE_FOLDER)],
            commits=commits,
        ),
    )


def _quarantine_version(storage: Storage, flow: QualifiedName) -> int | None:
    """Return the newest version of the quarantine; None if it has no rows of the flow, which are in one partition."""
    path = storage.path(QUARANTINE_FOLDER)
    partitions = {unquote(folder) for folder in storage.list_names(path)}
    return latest_version(storage, path) if f"flow={flow}" in partitions else None


def mark_recorded_table(storage: Storage, dataset: QualifiedName, flow: QualifiedName, generation: int) -> None:
    """Store the version of the table at the path in its record; do nothing without a record, as for a sink."""
    record = read_record(storage, StorageLayout(storage=storage), dataset)
    if record is not None:
        mark_table(storage, record.path, dataset, flow, generation)


def older_copy(storage: Storage, path: str, manifest: Manifest, tip: LogTip | None) -> str:
    """Return the evidence that a flow's table is an older copy, as a clause; empty if there is none.

    A generation that began after the mark continues in any table. The exception is a table whose loss ended an earlier
    generation, because the flow starts from scratch in the table that was created since. A roll-back makes a generation
    from before the mark current.

    Args:
        storage: reads the mark and the log.
        path: the folder of the table.
        manifest: the generations of the flow.
        tip: the end of the table's log.
    """
    mark = None if tip is None else read_mark(storage, manifest.dataset, manifest.flow)
    if tip is None or mark is None:
        return ""
    marked, current = manifest.find(mark.generation), manifest.in_state(GenerationState.CURRENT)
    if marked is not None and marked.undone_by == BY_LOSS and mark.table_id == tip.table_id:
        return "is the table from before it was deleted"
    if current is not None and mark.generation < current.number:
        return ""
    if tip.table_id not in {None, mark.table_id}:
        return "is a table from before it was deleted and created again" if tip.created < mark.created else ""
    now = _version_before(storage, path, mark.version) if tip.version < mark.version else ""
    if tip.table_id is not None:
        now = now or _other_commit(storage, path, mark.version, _commit_of(mark, 0))
    if now:
        return f"is {now}"
    return _older_companion(storage, mark, manifest.dataset)


def _older_companion(storage: Storage, mark: TableMark, dataset: QualifiedName) -> str:
    """Return the evidence that a companion of a table is an older copy, as a clause; empty if there is none."""
    auxiliary, quarantine = StorageLayout(storage=storage).auxiliary(dataset), storage.path(QUARANTINE_FOLDER)
    if now := _version_before(storage, auxiliary, mark.auxiliary) or _other_commit(
        storage, auxiliary, mark.auxiliary, _commit_of(mark, 1)
    ):
        return f"has an auxiliary table ({auxiliary}) that is {now}"
    if now := _version_before(storage, quarantine, mark.quarantine) or _other_commit(
        storage, quarantine, mark.quarantine, _commit_of(mark, 2)
    ):
        return f"has rows in a quarantine ({quarantine}) that is {now}"
    return ""


def _commit_of(mark: TableMark, place: int) -> str | None:
    """Return one of a mark's commits; None if it is unknown."""
    return mark.commits[place] if place < len(mark.commits) else None


def _other_commit(storage: Storage, path: str, version: int | None, commit: str | None) -> str:
    """Return a clause if a marked version is now another commit; empty if it is the same or unknown."""
    present = None if version is None or commit is None else commit_identity(storage, path, version)
    if present in {None, commit}:
        return ""
    return f"an older copy that was written on to: its version {version} was another commit before"


def _version_before(storage: Storage, path: str, marked: int | None) -> str:
    """Return a clause if a table is missing or at a version before the marked one; else empty."""
    if marked is None or (latest_version(storage, path) or 0) >= marked > 0:
        return ""
    # A running flow may have ended since the log was listed, as while a continuous update replans a part.
    present = latest_version(fresh(storage), path)
    if present is not None and present >= marked:
        return ""
    return f"{'gone' if present is None else f'at version {present}'}, and was at version {marked} before"
