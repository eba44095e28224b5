"""Conditions of storage, checkpoints, the update lock and the event log."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "STORAGE_NOT_WRITABLE": Condition(
        "{path} can't be written: {problem}.",
        "Give this user the right to write there, or set `storage` in the spec to a place that can be written.",
    ),
    "STORAGE_NOT_READABLE": Condition(
        "{path} can't be read: {problem}.",
        "Give this user the right to read it, and check that its file system can be reached.",
    ),
    "STORAGE_NEEDS_SPARK": Condition(
        "The storage {path} lies on a Hadoop file system, which is reached through Spark only.",
        "Pass the Spark session to `open_storage`, or use a local path.",
    ),
    "CHECKPOINT_MANIFEST_DAMAGED": Condition(
        "The manifest of a flow's checkpoints, {path}, can't be understood: {problem}.",
        "Put the file back from a backup, or delete it and run a full refresh of the flow's dataset.",
    ),
    "STORED_FILE_DAMAGED": Condition(
        "{path}, a file of Sluice's own, can't be read: {problem}.",
        "Restore the file from a backup; the directory layout in docs/ARCHITECTURE.md says what it is for.",
    ),
    "GENERATION_MISUSED": Condition(
        "Generation {number} of the flow {flow} can't {action}: {problem}.",
        "This is a fault of Sluice: please report it with the manifest of that flow.",
    ),
    "UPDATE_ALREADY_RUNNING": Condition(
        "This pipeline is being updated: {holder} (lock: {path}).",
        "Wait for that update to end, or stop it. {when_dead}",
    ),
    "UPDATE_LOCK_LOST": Condition(
        "The lease {path} could not be renewed in time, and another update may have taken it over.",
        "Check that the storage can be reached, see `sluice events` for what both updates did, then run again.",
    ),
    "EVENT_LOG_NOT_WRITABLE": Condition(
        "Events of this update could not be written: {problem}", "Make room or give the right to write, then run again."
    ),
    "FAILPOINT_UNKNOWN": Condition(
        "The failpoint {name!r} is not registered.", "Add it to FAILPOINTS in framework/foundation/failpoints.py."
    ),
}
