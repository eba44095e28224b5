"""The moments at which a test can kill an update, in the words of users, with the failpoints of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashMoment:
    """A moment of an update between two durable writes.

    Args:
        words: what is written then, and what is not.
        failpoints: the failpoints at which updates of different kinds pass it.
    """

    words: str
    failpoints: tuple[str, ...]


def _at(words: str, *failpoints: str) -> CrashMoment:
    return CrashMoment(words=words, failpoints=failpoints)


MOMENTS: dict[str, CrashMoment] = {
    # The tables
    "before-table-create": _at(
        "the checkpoints of a new table are begun, the table does not exist", "tables.before_create"
    ),
    "after-table-create": _at(
        "a new table exists, its definition is not recorded", "tables.after_create", "views.after_create"
    ),
    "before-wider-types": _at("a table may have wider types, none of its columns has one", "tables.before_wider_types"),
    "after-wider-types": _at("the columns of a table are wider, its record is as before", "tables.after_wider_types"),
    # A batch
    "after-update-claim": _at("the update has its id, it has recorded no event", "updates.after_claim"),
    "after-generation": _at("a flow has a new checkpoint, which is empty", "generations.after_begin"),
    "after-files-found": _at("new files of cloudFiles are listed, no batch reads them", "cloud_files.after_files"),
    "before-file-start": _at(
        "the files that cloudFiles passes over are recorded, its start is not", "cloud_files.before_start"
    ),
    "after-file-start": _at("the start of cloudFiles is recorded, no file is", "cloud_files.after_start"),
    "after-file-columns": _at(
        "new columns of cloudFiles are recorded, the flow has not stopped for them", "cloud_files.after_columns"
    ),
    "after-commits-known": _at(
        "the commits that a stream may read are recorded, no row is read", "sources.after_known"
    ),
    "before-commits-known": _at(
        "the rows of a stream are in the table, the commits that it has read are not recorded", "sources.before_known"
    ),
    "after-deletes": _at(
        "the deletes of a batch of AUTO CDC are recorded, the target is as before", "cdc.after_tombstones"
    ),
    "after-history": _at(
        "the events of a batch that SCD type 2 keeps are recorded, the target is as before", "cdc.after_events"
    ),
    "after-snapshot-claim": _at("a snapshot has its version, its rows are not written", "snapshots.after_claim"),
    "after-staging": _at("the rows of a database are in files, no commit has them", "staging.after_files"),
    "after-quarantine": _at(
        "the faulty rows of a batch are in the quarantine, the others nowhere", "quarantine.after_rows"
    ),
    "after-table-commit": _at(
        "the rows of a batch or a view are in the table, neither its checkpoint nor its record says so",
        "appends.after_commit",
        "quarantine.after_target",
        "cdc.after_merge",
        "snapshots.before_mark",
        "staging.after_commit",
        "views.after_commit",
    ),
    "after-once-flow": _at(
        "the rows of a once flow are written, it is not marked as completed", "run.before_once_mark"
    ),
    # Full refreshes
    "after-refresh-begin": _at("a full refresh is marked as begun, its copy does not exist", "rebuilds.after_begin"),
    "after-refresh-history": _at(
        "the rows that sources have lost are back in the copy, its mark does not say so", "rebuilds.after_history"
    ),
    "after-refresh-written": _at(
        "the copy of a full refresh is complete, nothing of it is visible", "rebuilds.after_freeze"
    ),
    "after-refresh-deletes": _at(
        "the recorded deletes are those of the full refresh, the rows are the old ones", "rebuilds.after_auxiliary"
    ),
    "after-refresh-publish": _at("the rows of the full refresh are visible, no mark says so", "rebuilds.after_publish"),
    "after-refresh-quarantine": _at(
        "quarantined rows are kept open, the full refresh is not marked as published", "rebuilds.after_quarantine"
    ),
    "after-refresh-mark": _at(
        "a full refresh is marked as published, the old checkpoints are current", "rebuilds.after_mark"
    ),
    "after-refresh-checkpoint": _at(
        "one checkpoint of a published refresh is current, others are not", "rebuilds.after_promote"
    ),
    "after-refresh-given-up": _at(
        "a full refresh is given up for a view, whose rows are not written", "views.after_give_up"
    ),
    "before-checkpoint-delete": _at("the checkpoint of an abandoned refresh still exists", "generations.before_delete"),
    "after-backup": _at("the tables of a backup are copied, it is not complete", "backups.after_copy"),
    "after-backup-mark": _at("a backup is complete, no full refresh refers to it", "backups.after_mark"),
    # Files of the storage
    "before-file-replace": _at(
        "the new text of a file of the storage is written, its name still has the old text", "storage.before_replace"
    ),
}
"""By the name that a test writes."""

OF_OTHER_COMMANDS = frozenset({
    "resets.after_begin", "catalog.after_drop", "prune.after_mark", "prune.before_table", "prune.before_unmark",
    "schedules.after_decision", "schedules.after_start",
    "quarantine.after_claim", "quarantine.after_replay", "versions.before_cleaning", "rewinds.after_mark",
    "rewinds.after_names", "rewinds.after_restore", "rewinds.after_table", "rewinds.after_checkpoint",
    "rewinds.after_quarantine", "rewinds.after_generation", "rewinds.after_abandon", "rewinds.after_refresh",
    "cloud_files.after_merge", "cloud_files.after_known", "cloud_files.before_clean_mark", "serve.after_accept",
    "serve.after_claim", "serve.after_spawn", "serve.after_stop_request", "serve.after_give_up",
})  # fmt: skip
"""The failpoints that no update of a sandbox passes: of rewinds, of prunes, of thousands of files, of servers."""


def moments_text() -> str:
    """Return all moments with their words, one a line."""
    width = max(map(len, MOMENTS))
    return "\n".join(f"  {name:{width}}  {moment.words}" for name, moment in MOMENTS.items())


def moment_of(failpoint: str) -> str | None:
    """Return the name of the moment of a failpoint."""
    return next((name for name, moment in MOMENTS.items() if failpoint in moment.failpoints), None)
